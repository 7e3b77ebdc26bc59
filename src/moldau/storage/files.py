"""● The one door to the disk: `Files` opens, writes, syncs, renames, deletes; everything else in storage is pure over it.

Guarantees that every form keeps (`SystemFiles` here, `MemoryFiles` in testing):

- `File.pwrite` writes all of it or raises OSError; what it wrote is readable at once and durable only after `sync`.
- A file that was created, renamed or unlinked is so durably only after `sync_dir` of its directory.
- `write_atomically` leaves the old content or the new one whatever happens, and is durable when it returns.
- A `File` that something still references (a `FileSlice` on its way to a socket) stays readable after `close`, `unlink` and `rename`.

Calls run inline: the page cache answers in microseconds.  Calls that may block (fsync, recovery, deleting) go through `run`, long
computations (compressing anew, examining many records) through `compute`.
"""

import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, ParamSpec, Protocol, TypeAlias, TypeVar

from moldau.storage.processes import WorkerProcesses
from moldau.storage.threads import BlockingThreads

Buffer: TypeAlias = bytes | bytearray | memoryview

_P = ParamSpec("_P")
_T = TypeVar("_T")

BLOCKING_THREADS: Final = 4
WORKER_PROCESSES: Final = 2
"""The number of worker processes: more than one, so that one client's huge batch does not hold up the others'."""
MAX_PARTS_PER_CALL: Final = 1024
"""IOV_MAX on Linux."""


class LockHeld(OSError):
    """Another process works in this directory."""


class File(Protocol):
    """One open file."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes:
        """Fewer bytes than `size` only at the end of the file."""
        ...

    def pwrite(self, parts: Sequence[Buffer], position: int) -> None:
        """Write all parts, or raise OSError with an unknown part of them written."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Bring the content to stable storage (fdatasync).

        After an OSError no earlier write is certain any more.  Unless there was only no room, reads then show what the disk has, in this
        process and in the next: the page cache would show more, and later syncs would succeed without it.
        """
        ...

    def fileno(self) -> int:
        """The file's descriptor.  Errors: OSError if there is none (files in memory)."""
        ...

    def close(self) -> None:
        """Take no more writes.  A holder of this object can go on reading."""
        ...


def is_shortage(error: OSError) -> bool:
    """Whether an error means a shortage, not a failed disk: no room now, or no descriptor for one more file."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


class Lock(Protocol):
    """A directory's lock, held until `release` or until the process ends."""

    def release(self) -> None: ...


class Files(Protocol):
    """A file system.  Paths are absolute and use `/`."""

    @property
    def are_shared(self) -> bool:
        """Whether another process finds the same files at the same paths."""
        ...

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def mkdir(self, path: str) -> None:
        """Make a directory with its parents; an existing one is fine.  It is durable after `sync_dir` of the parent."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, replacing a file at `target`.  It is durable after `sync_dir`."""
        ...

    def unlink(self, path: str) -> None: ...

    def rmtree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def read(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Write through `path`.tmp, synced, renamed, directory synced: the file has the old or the new content, never a mixture."""
        ...

    def size(self, path: str) -> int: ...

    def lock(self, path: str) -> Lock:
        """Lock a directory.  Errors: LockHeld."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def has_spare_descriptors(self, *, for_new_log: bool = True) -> bool:
        """Whether one more file may stay open.

        The last descriptors are for the next segments of logs in use, and the very last for files that are opened for a moment, to sync
        them or to note an offset.
        """
        ...

    async def run(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a call that may block: in a thread in production, with a seeded delay in simulation."""
        ...

    async def compute(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a long computation: in a process of its own in production, with a seeded delay in simulation.

        `fn` is a function of a module; its arguments and result can be pickled.  Errors: those of `fn`, WorkerDied.
        """
        ...


class SystemFile:
    """A descriptor of the operating system, closed with the last reference to this object."""

    __slots__ = ("_descriptor", "_writable", "path")

    def __init__(self, path: str, descriptor: int, *, writable: bool) -> None:
        self.path = path
        self._descriptor = descriptor
        self._writable = writable

    def __del__(self) -> None:
        os.close(self._descriptor)

    def __repr__(self) -> str:
        return f"SystemFile({self.path!r})"

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        while 0 < len(data) < size:  # after a signal, or with more than 2 GiB asked for
            more = os.pread(self._descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def pwrite(self, parts: Sequence[Buffer], position: int) -> None:
        assert self._writable, f"{self.path} is closed for writing"
        if len(parts) == 1:
            written, wanted = os.pwrite(self._descriptor, parts[0], position), len(parts[0])
        else:
            written, wanted = os.pwritev(self._descriptor, parts[:MAX_PARTS_PER_CALL], position), sum(map(len, parts))
        if written != wanted:
            self._write_rest(parts, position, written)

    def _write_rest(self, parts: Sequence[Buffer], position: int, skip: int) -> None:
        for part in parts:
            view = memoryview(part)
            if skip >= len(view):
                skip -= len(view)
                position += len(view)
                continue
            done = skip
            while done < len(view):
                count = os.pwrite(self._descriptor, view[done:], position + done)
                if count == 0:
                    raise OSError(errno.EIO, "the device takes no more bytes", self.path)
                done += count
            position += len(view)
            skip = 0

    def truncate(self, size: int) -> None:
        assert self._writable, f"{self.path} is closed for writing"
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            if not is_shortage(error) and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # Linux took these pages for written
            raise

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        self._writable = False


class SystemLock:
    """An fcntl lock, the kind that Java's FileChannel takes, so Kafka and we keep each other out; it ends with the process.

    Within one process such locks do not exclude each other: `held` does that.
    """

    held: ClassVar[set[str]] = set()

    def __init__(self, file: SystemFile) -> None:
        self._file: SystemFile | None = file
        self.held.add(file.path)

    def release(self) -> None:
        if self._file is not None:
            fcntl.lockf(self._file.fileno(), fcntl.LOCK_UN)
            self.held.discard(self._file.path)
            self._file = None


class SystemFiles:
    """The operating system's file system.

    Descriptors from `spared_descriptors` on are not for new logs, from `last_descriptors` on not for new segments either.
    """

    def __init__(self, *, spared_descriptors: int = sys.maxsize, last_descriptors: int = sys.maxsize) -> None:
        self._threads: Final = BlockingThreads(BLOCKING_THREADS, "storage")
        self._processes: Final = WorkerProcesses(WORKER_PROCESSES)
        self._spared_descriptors: Final = spared_descriptors
        self._last_descriptors: Final = last_descriptors

    @property
    def are_shared(self) -> bool:
        return True

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        descriptor = os.open(path, flags | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        return SystemFile(path, descriptor, writable=not read_only)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def mkdir(self, path: str) -> None:
        # `os.makedirs` calls itself for every folder above, and a path may be deeper than Python's stack.
        missing = [path]
        while missing:
            try:
                os.mkdir(missing[-1])
            except FileNotFoundError:
                above = os.path.dirname(missing[-1])
                if not above:
                    raise
                missing.append(above)
                continue
            except OSError:
                if not os.path.isdir(missing[-1]):
                    raise
            missing.pop()

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmtree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: Buffer) -> None:
        write_atomically(self, path, data)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def lock(self, path: str) -> Lock:
        path = os.path.realpath(path)
        if path in SystemLock.held:
            raise LockHeld(errno.EAGAIN, "this process holds the lock already", path)
        file = SystemFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), writable=True)
        try:
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise LockHeld(error.errno, "another process holds the lock", path) from None
            raise
        return SystemLock(file)

    def free_bytes(self, path: str) -> int:
        stats = os.statvfs(path)
        return stats.f_bavail * stats.f_frsize

    def total_bytes(self, path: str) -> int:
        stats = os.statvfs(path)
        return stats.f_blocks * stats.f_frsize

    def has_spare_descriptors(self, *, for_new_log: bool = True) -> bool:
        try:
            lowest_free = os.open("/", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        os.close(lowest_free)
        return lowest_free < (self._spared_descriptors if for_new_log else self._last_descriptors)

    async def run(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._threads.run(fn, *args, **kwargs)

    async def compute(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._processes.run(fn, *args, **kwargs)


def write_atomically(files: Files, path: str, data: Buffer) -> None:
    """`Files.write_atomically` made of the smaller steps; every form of `Files` uses it, so that faults can strike between them."""
    temporary = path + ".tmp"
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwrite([data], 0)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_dir(path.rpartition("/")[0] or "/")
