"""● A file system in memory.  It knows which data is durable, loses the rest in a crash, and fails on demand.

    files = MemoryFiles()
    ...                                        # the code under test writes, syncs, renames
    after = files.crashed(random.Random(7))    # the files that a machine may find after a power loss at this very moment

The model is harsher than ext4 and within what POSIX allows: every unsynced write, truncation and directory change may be kept, lost, torn
or overtaken by a later one, independently of the others; a write that was lost below one that was kept leaves zeros.  After a failed `sync`
the writes before it stay in doubt for ever: a later successful `sync` does not save them, as on Linux.

`hook` is called before every call with its name and path.  It may count, record, or make the call fail by returning a `Fault`.  The same
calls in the same order give the same result: time and randomness come only from the arguments.
"""

import asyncio
import dataclasses
import errno
import os
import random
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from moldau.storage.files import Buffer, File, Lock, LockHeld, is_shortage, write_atomically

_P = ParamSpec("_P")
_T = TypeVar("_T")

SECTOR: Final = 512
DEFAULT_CAPACITY: Final = 1 << 40


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """A failing call: `error` (an errno) is raised after the first `written` bytes of a write were taken."""

    error: int = errno.EIO
    written: int = 0


Hook = Callable[[str, str], Fault | None]


@dataclasses.dataclass(slots=True)
class _Write:
    position: int
    data: bytes


@dataclasses.dataclass(slots=True)
class _Truncate:
    size: int


class _Inode:
    """A file's content: the visible bytes, the durable bytes, and the changes between them, oldest first.

    After a failed sync, `in_doubt` lies between `durable` and `certain`: those changes may be missing below data that was synced later.
    """

    __slots__ = ("certain", "durable", "in_doubt", "now", "pending")

    def __init__(self, content: bytes = b"") -> None:
        self.now = bytearray(content)
        self.durable = bytes(content)
        self.pending: list[_Write | _Truncate] = []
        self.in_doubt: list[_Write | _Truncate] = []
        self.certain: list[_Write | _Truncate] = []

    def change(self, change: _Write | _Truncate) -> None:
        _apply(self.now, change)
        self.pending.append(change)

    def sync(self) -> None:
        if self.in_doubt:
            self.certain += self.pending
        else:
            self.durable = bytes(self.now)
        self.pending.clear()

    def sync_failed(self) -> None:
        # From here on, changes that were certain count as in doubt, too: this is simpler, and harsher than need be.
        self.in_doubt += self.certain + self.pending
        self.certain, self.pending = [], []

    def forget_cached(self, choice: random.Random) -> None:
        after = self.crashed(choice)
        self.now, self.durable = after.now, after.durable
        self.in_doubt, self.certain, self.pending = [], [], []

    def sync_everything(self) -> None:
        self.durable = bytes(self.now)
        self.in_doubt, self.certain, self.pending = [], [], []

    def crashed(self, choice: random.Random) -> "_Inode":
        content = bytearray(self.durable)
        for change in (*_survivors(self.in_doubt, choice), *self.certain, *_survivors(self.pending, choice)):
            _apply(content, change)
        return _Inode(bytes(content))


class _Directory:
    """The names of one directory: the visible ones and the durable ones."""

    __slots__ = ("durable", "now")

    def __init__(self) -> None:
        self.now: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}


_Node = _Inode | _Directory


@dataclasses.dataclass(slots=True)
class _EntryChange:
    """One atomic change of names (a rename makes two): (directory, name, node or None)."""

    steps: list[tuple[_Directory, str, _Node | None]]


class MemoryFile:
    """An open file of a `MemoryFiles`."""

    __slots__ = ("_files", "_inode", "_writable", "path")

    def __init__(self, files: "MemoryFiles", path: str, inode: _Inode, *, writable: bool) -> None:
        self.path = path
        self._files = files
        self._inode = inode
        self._writable = writable

    def __repr__(self) -> str:
        return f"MemoryFile({self.path!r})"

    def size(self) -> int:
        return len(self._inode.now)

    def pread(self, size: int, position: int) -> bytes:
        self._files.strike("pread", self.path)
        return bytes(self._inode.now[position : position + size])

    def pwrite(self, parts: Sequence[Buffer], position: int) -> None:
        assert self._writable, f"{self.path} is closed for writing"
        data = b"".join(parts)
        fault = self._files.ask("pwrite", self.path)
        if fault is not None:
            data = data[: fault.written]
        growth = position + len(data) - len(self._inode.now)
        if growth > 0:
            self._files.take_space(growth, self.path)
        if data:
            self._inode.change(_Write(position, data))
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error), self.path)

    def truncate(self, size: int) -> None:
        assert self._writable, f"{self.path} is closed for writing"
        self._files.strike("truncate", self.path)
        if size != len(self._inode.now):
            self._inode.change(_Truncate(size))

    def sync(self) -> None:
        fault = self._files.ask("sync", self.path)
        if fault is not None:
            self._inode.sync_failed()
            error = OSError(fault.error, os.strerror(fault.error), self.path)
            if not is_shortage(error):
                self._inode.forget_cached(self._files._random)
            raise error
        self._inode.sync()

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor", self.path)

    def close(self) -> None:
        self._writable = False


class MemoryLock:
    def __init__(self, files: "MemoryFiles", path: str) -> None:
        self._files = files
        self._path = path

    def release(self) -> None:
        self._files.held_locks.discard(self._path)


class MemoryFiles:
    """See the module.  `random` seeds the delays of `run`; `slow_ms` is the longest of them, in milliseconds."""

    def __init__(self, *, capacity: int = DEFAULT_CAPACITY, hook: Hook | None = None, seed: int = 0, slow_ms: float = 0) -> None:
        self.capacity = capacity
        self.hook = hook
        self.slow_ms = slow_ms
        self.held_locks: set[str] = set()
        self.spare_descriptors = True
        self._random = random.Random(seed)
        self._root = _Directory()
        self._pending: list[_EntryChange] = []

    # faults

    def ask(self, call: str, path: str) -> Fault | None:
        return self.hook(call, path) if self.hook is not None else None

    def strike(self, call: str, path: str) -> None:
        fault = self.ask(call, path)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error), path)

    def take_space(self, growth: int, path: str) -> None:
        if self.capacity >= DEFAULT_CAPACITY:
            return
        if growth > self.free_bytes(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def crashed(self, choice: random.Random) -> "MemoryFiles":
        """A file system as it may be found after a crash now; this one is left as it is."""
        after = MemoryFiles(capacity=self.capacity, slow_ms=self.slow_ms, seed=choice.getrandbits(32))
        names: dict[int, dict[str, _Node]] = {}
        for directory in _directories(self._root):
            names[id(directory)] = dict(directory.durable)
        for change in _surviving_names(self._pending, choice):
            for directory, name, node in change.steps:
                entries = names.setdefault(id(directory), dict(directory.durable))
                if node is None:
                    entries.pop(name, None)
                else:
                    entries[name] = node
        after._root = _rebuild(self._root, names, choice, {})
        return after

    def crash(self, choice: random.Random) -> None:
        """Crash in place: files that were open belong to the dead process."""
        after = self.crashed(choice)
        self._root, self._pending, self.held_locks = after._root, [], set()

    def sync_everything(self) -> None:
        """Make everything durable, as a clean unmount does."""
        for directory in _directories(self._root):
            directory.durable = dict(directory.now)
            for node in directory.now.values():
                if isinstance(node, _Inode):
                    node.sync_everything()
        self._pending.clear()

    # Files

    @property
    def are_shared(self) -> bool:
        return False

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        self.strike("open", path)
        directory, name = self._parent(path)
        node = directory.now.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = _Inode()
            self._change([(directory, name, node)])
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return MemoryFile(self, path, node, writable=not read_only)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def listdir(self, path: str) -> list[str]:
        self.strike("listdir", path)
        return sorted(self._directory(path).now)

    def mkdir(self, path: str) -> None:
        self.strike("mkdir", path)
        directory = self._root
        for name in _names(path):
            node = directory.now.get(name)
            if node is None:
                node = _Directory()
                self._change([(directory, name, node)])
            if isinstance(node, _Inode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            directory = node

    def rename(self, source: str, target: str) -> None:
        self.strike("rename", source)
        old_directory, old_name = self._parent(source)
        new_directory, new_name = self._parent(target)
        node = old_directory.now.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        replaced = new_directory.now.get(new_name)
        if isinstance(replaced, _Directory) and replaced.now:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        self._change([(old_directory, old_name, None), (new_directory, new_name, node)])

    def unlink(self, path: str) -> None:
        self.strike("unlink", path)
        directory, name = self._parent(path)
        if name not in directory.now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._change([(directory, name, None)])

    def rmtree(self, path: str) -> None:
        for name in self.listdir(path):
            child = f"{path}/{name}"
            if self.is_dir(child):
                self.rmtree(child)
            else:
                self.unlink(child)
        self.strike("rmdir", path)
        directory, name = self._parent(path)
        self._change([(directory, name, None)])

    def sync_dir(self, path: str) -> None:
        self.strike("sync_dir", path)
        directory = self._directory(path)
        kept = []
        for change in self._pending:
            if any(touched is directory for touched, _, _ in change.steps):
                for touched, name, node in change.steps:
                    _set_name(touched.durable, name, node)
            else:
                kept.append(change)
        self._pending = kept

    def read(self, path: str) -> bytes:
        self.strike("read", path)
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return bytes(node.now)

    def write_atomically(self, path: str, data: Buffer) -> None:
        write_atomically(self, path, data)

    def size(self, path: str) -> int:
        node = self._find(path)
        if not isinstance(node, _Inode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return len(node.now)

    def lock(self, path: str) -> Lock:
        if path in self.held_locks:
            raise LockHeld(errno.EAGAIN, "another process holds the lock", path)
        self.open(path, create=True).close()
        self.held_locks.add(path)
        return MemoryLock(self, path)

    def free_bytes(self, path: str) -> int:
        used = 0
        for directory in _directories(self._root):
            used += sum(len(node.now) for node in directory.now.values() if isinstance(node, _Inode))
        return max(0, self.capacity - used)

    def total_bytes(self, path: str) -> int:
        return self.capacity

    def has_spare_descriptors(self, *, for_new_log: bool = True) -> bool:
        return self.spare_descriptors

    async def run(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a call with a delay before and after it.  Others see the state before and after, as with a thread."""
        await asyncio.sleep(self._random.random() * self.slow_ms / 2000)
        result = fn(*args, **kwargs)
        await asyncio.sleep(self._random.random() * self.slow_ms / 2000)
        return result

    async def compute(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a computation like `run`.  Virtual time stands still meanwhile."""
        return await self.run(fn, *args, **kwargs)

    # below the surface

    def _change(self, steps: list[tuple[_Directory, str, _Node | None]]) -> None:
        for directory, name, node in steps:
            _set_name(directory.now, name, node)
        self._pending.append(_EntryChange(steps))

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in _names(path):
            if not isinstance(node, _Directory):
                return None
            node = node.now.get(name)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, _Inode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        head, _, name = path.rpartition("/")
        return self._directory(head), name


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _set_name(entries: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _apply(content: bytearray, change: _Write | _Truncate) -> None:
    size = change.size if isinstance(change, _Truncate) else change.position
    if isinstance(change, _Truncate):
        del content[size:]
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    if isinstance(change, _Write):
        content[size : size + len(change.data)] = change.data


def _survivors(changes: list[_Write | _Truncate], choice: random.Random) -> list[_Write | _Truncate]:
    """One legal outcome for unsynced changes: none, all, some in order, some torn."""
    kind = choice.randrange(5)
    if kind == 0 or not changes:
        return []
    if kind == 1:
        return changes
    if kind == 2:
        kept = changes[: choice.randrange(len(changes) + 1)]
    else:
        kept = [change for change in changes if choice.random() < 0.5]
    if kind == 4 or (kind == 2 and choice.random() < 0.5):
        kept = [_torn(change, choice) for change in kept]
    return kept


def _torn(change: _Write | _Truncate, choice: random.Random) -> _Write | _Truncate:
    """A part of a write: from its start or its end, at a sector's edge or anywhere (a file's tail is written bytewise)."""
    if isinstance(change, _Truncate) or len(change.data) < 2 or choice.random() < 0.5:
        return change
    cut = choice.randrange(1, len(change.data))
    if choice.random() < 0.3:
        cut = min(len(change.data), -(-(change.position + cut) // SECTOR) * SECTOR - change.position)
    if choice.random() < 0.5:
        return _Write(change.position, change.data[:cut])
    return _Write(change.position + cut, change.data[cut:])


def _surviving_names(changes: list[_EntryChange], choice: random.Random) -> list[_EntryChange]:
    kind = choice.randrange(4)
    if kind == 0:
        return []
    if kind == 1:
        return changes
    if kind == 2:
        return changes[: choice.randrange(len(changes) + 1)]
    return [change for change in changes if choice.random() < 0.5]


def _directories(root: _Directory) -> list[_Directory]:
    """Every directory that can be reached now or durably, each once."""
    found: dict[int, _Directory] = {}
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        if id(directory) in found:
            continue
        found[id(directory)] = directory
        for node in (*directory.now.values(), *directory.durable.values()):
            if isinstance(node, _Directory):
                waiting.append(node)
    return list(found.values())


def _rebuild(directory: _Directory, names: dict[int, dict[str, _Node]], choice: random.Random, made: dict[int, _Node]) -> _Directory:
    copy = _Directory()
    made[id(directory)] = copy
    for name, node in sorted(names.get(id(directory), directory.durable).items()):
        if id(node) not in made:
            made[id(node)] = node.crashed(choice) if isinstance(node, _Inode) else _rebuild(node, names, choice, made)
        copy.now[name] = made[id(node)]
    copy.durable = dict(copy.now)
    return copy
