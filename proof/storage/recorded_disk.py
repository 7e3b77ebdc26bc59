"""● A block device that loses its write cache when the power fails, as a real disk may, with a real file system on top of it.

    with RecordedDisk(directory, size=256 << 20) as disk:        # as root, on Linux
        disk.attach(format=True)                                 # an ext4 on it, mounted at disk.mount
        ...                                                      # a broker works there
        disk.cut(random.Random(7))                               # the power fails now, in the middle of any write
        disk.attach()                                            # ext4 replays its journal, and unflushed data may be gone

The disk is one file of a FUSE file system that a process of this module serves, and a loop device makes a block device of the file.  Every
write that reaches the disk stays in the cache until the next flush.  A loop device turns a flush into `fsync` of the file.  After a cut
chance decides which cached writes are kept, sector by sector, in any order.  So file system, journal and barriers are the kernel's own.
Only the disk is ours, and it does what a disk with a volatile cache is allowed to do.
"""

import ctypes
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

DISK_NAME: Final = "disk"
SECTOR: Final = 512
TORN_SECTORS: Final = 8
"""The number of sectors that survive or go together: a page of 4 KiB."""
MAX_WRITE: Final = 1 << 20
DISK_ID: Final = 2
MOUNT_WITHIN_S: Final = 10.0

_IN: Final = struct.Struct("<IIQQIIIHH")
_OUT: Final = struct.Struct("<IiQ")
_INIT_IN: Final = struct.Struct("<IIII")
_INIT_OUT: Final = struct.Struct("<IIIIHHIIHHI28x")
_ATTR: Final = struct.Struct("<QQQQQQIIIIIIIIII")
_ATTR_OUT: Final = struct.Struct("<QII")
_ENTRY_OUT: Final = struct.Struct("<QQQQII")
_OPEN_OUT: Final = struct.Struct("<QII")
_IO_IN: Final = struct.Struct("<QQIIQII")
_STATFS_OUT: Final = struct.Struct("<QQQQQIIII24x")
_LOOKUP, _FORGET, _GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS, _RELEASE = 1, 2, 3, 4, 14, 15, 16, 17, 18
_FSYNC, _FLUSH, _INIT, _OPENDIR, _INTERRUPT, _DESTROY, _BATCH_FORGET = 20, 25, 26, 27, 36, 38, 42
_ENOENT, _ENOSYS = 2, 38
_DIRECT_IO: Final = 1


class CachedWrite(NamedTuple):
    position: int
    data: bytes


class RecordedDisk:
    """See the module.  `directory` holds the images.  A directory in memory (/dev/shm) is quickest."""

    def __init__(self, directory: Path, *, size: int) -> None:
        self.size: Final = size
        self.durable: Final = directory / "durable.img"
        self.current: Final = directory / "current.img"
        self.mount: Final = directory / "mount"
        self._fuse: Final = directory / "fuse"
        self._server: subprocess.Popen[bytes] | None = None
        self._loop = ""
        for folder in (directory, self.mount, self._fuse):
            folder.mkdir(parents=True, exist_ok=True)
        with self.durable.open("wb") as image:
            image.truncate(size)

    def attach(self, *, format: bool = False) -> None:
        """Switch the power on and mount the block device.  Errors: CalledProcessError."""
        shutil.copyfile(self.durable, self.current)
        command = [sys.executable, "-m", __spec__.name, str(self._fuse), str(self.durable), str(self.current)]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self._server.stdout is not None
        if self._server.stdout.readline() != b"mounted\n":
            raise OSError(f"no FUSE mount at {self._fuse}")
        self._loop = _run("losetup", "--find", "--show", str(self._fuse / DISK_NAME)).strip()
        if format:
            _run("mkfs.ext4", "-q", "-F", self._loop)
        _run("mount", "-t", "ext4", self._loop, str(self.mount))

    def cut(self, chance: random.Random) -> int:
        """Let the power fail.  From now on every use of the disk gets errors.  Returns the number of writes that were in the cache."""
        server, self._server = self._server, None
        assert server is not None and server.stdin is not None and server.stdout is not None, "the disk is not attached"
        server.stdin.write(b"cut %d\n" % chance.getrandbits(60))
        server.stdin.flush()
        cached = int(server.stdout.readline())
        server.wait()
        return cached

    def detach(self) -> None:
        """Unmount the disk after a cut, once no process uses it any more."""
        for command in (["umount", str(self.mount)], ["losetup", "-d", self._loop], ["umount", str(self._fuse)]):
            deadline = time.monotonic() + MOUNT_WITHIN_S
            while subprocess.run(command, capture_output=True, check=False).returncode != 0 and time.monotonic() < deadline:
                time.sleep(0.05)
        self._loop = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            self.cut(random.Random(0))
        if self._loop:
            self.detach()


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


class DiskServer:
    """The server that answers the kernel.  Each life of the disk has a process of its own."""

    def __init__(self, device: int, durable: Path, current: Path) -> None:
        self._device = device
        self._durable = os.open(durable, os.O_RDWR)
        self._current = os.open(current, os.O_RDWR)
        self._size = os.fstat(self._current).st_size
        self._cache: list[CachedWrite] = []

    def serve(self) -> None:
        """Serve until the file system is unmounted or the power fails."""
        import select

        while True:
            ready, _, _ = select.select([self._device, 0], [], [])
            if 0 in ready:
                line = sys.stdin.buffer.readline()
                if line.startswith(b"cut"):
                    self._lose_power(random.Random(int(line.split()[1])))
                return
            try:
                request = os.read(self._device, MAX_WRITE + 65536)
            except OSError:
                return
            self._answer(request)

    def _lose_power(self, chance: random.Random) -> None:
        kept = _survivors(self._cache, chance)
        for position, data in kept:
            os.pwrite(self._durable, data, position)
        print(len(self._cache), flush=True)

    def _answer(self, request: bytes) -> None:
        _, opcode, unique, node, *_ = _IN.unpack_from(request)
        body = memoryview(request)[_IN.size :]
        if opcode in (_FORGET, _BATCH_FORGET, _INTERRUPT):
            return
        error, reply = 0, b""
        if opcode == _INIT:
            major, minor, readahead, _ = _INIT_IN.unpack_from(body)
            reply = _INIT_OUT.pack(major, min(minor, 31), readahead, 0, 16, 12, MAX_WRITE, 1, 0, 0, 0)
        elif opcode == _LOOKUP:
            if bytes(body).rstrip(b"\0") == DISK_NAME.encode():
                reply = _ENTRY_OUT.pack(DISK_ID, 0, 3600, 3600, 0, 0) + self._attributes(DISK_ID)
            else:
                error = -_ENOENT
        elif opcode in (_GETATTR, _SETATTR):
            reply = _ATTR_OUT.pack(3600, 0, 0) + self._attributes(node)
        elif opcode in (_OPEN, _OPENDIR):
            reply = _OPEN_OUT.pack(0, _DIRECT_IO, 0)
        elif opcode == _READ:
            _, position, size, *_ = _IO_IN.unpack_from(body)
            reply = os.pread(self._current, size, position)
        elif opcode == _WRITE:
            _, position, size, *_ = _IO_IN.unpack_from(body)
            data = bytes(body[_IO_IN.size : _IO_IN.size + size])
            os.pwrite(self._current, data, position)
            self._cache.append(CachedWrite(position, data))
            reply = struct.pack("<II", size, 0)
        elif opcode == _FSYNC:
            for position, data in self._cache:
                os.pwrite(self._durable, data, position)
            self._cache.clear()
        elif opcode == _STATFS:
            reply = _STATFS_OUT.pack(self._size // 4096, 0, 0, 1, 0, 4096, 255, 4096, 0)
        elif opcode not in (_RELEASE, _FLUSH, _DESTROY):
            error = -_ENOSYS
        os.write(self._device, _OUT.pack(_OUT.size + len(reply), error, unique) + reply)

    def _attributes(self, node: int) -> bytes:
        mode, size = (0o100600, self._size) if node == DISK_ID else (0o040700, 0)
        return _ATTR.pack(node, size, size // SECTOR, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _survivors(cache: list[CachedWrite], chance: random.Random) -> list[CachedWrite]:
    """The cached writes that had reached the medium: everything up to some write, and now and then a piece of the later writes."""
    certain = chance.randrange(len(cache) + 1) if chance.random() < 0.5 else 0
    share = chance.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    kept = cache[:certain]
    step = SECTOR * TORN_SECTORS
    for position, data in cache[certain:]:
        for at in range(0, len(data), step):
            if chance.random() < share:
                kept.append(CachedWrite(position + at, data[at : at + step]))
    return kept


def main() -> int:
    where, durable, current = sys.argv[1:4]
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,max_read={MAX_WRITE}".encode()
    if libc.mount(b"recorded-disk", where.encode(), b"fuse", 6, options) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), where)
    print("mounted", flush=True)
    DiskServer(device, Path(durable), Path(current)).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
