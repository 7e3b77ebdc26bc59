"""◇ The three indexes of a segment: offset → position, timestamp → offset, aborted transactions.  Kafka's formats, no checksums.

    .index      int32 relative offset of a batch's last record, int32 position of that batch         8 bytes, both rising
    .timeindex  int64 largest timestamp so far, int32 relative offset of the batch that has it      12 bytes, both rising
    .txnindex   int16 version 0, int64 producer id, first offset, last offset, last stable offset   34 bytes, one an aborted transaction

The active segment's two sparse indexes live in memory and are written in runs (at a flush, a roll, the close); those of older segments are
searched on disk by `pread` and hold no memory.  Every index can be rebuilt from its segment.
Source: org.apache.kafka.storage.internals.log OffsetIndex, TimeIndex, TransactionIndex, AbortedTxn.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, NamedTuple

from moldau.storage.files import File, Files
from moldau.types import NO_TIMESTAMP

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
ABORTED_ENTRY: Final = Struct(">hqqqq")


class CorruptIndex(Exception):
    """The file has impossible content; rebuild it from the segment."""


class SparseIndex:
    """Pairs of rising numbers: in memory while `active`, else on disk.  The base of both sparse indexes."""

    __slots__ = ("_file", "_files", "_key_type", "_keys", "_saved", "_values", "base_offset", "count", "entry", "path")

    def __init__(self, files: Files, path: str, base_offset: int, entry: Struct, key_type: str) -> None:
        self.path = path
        self.base_offset = base_offset
        self.entry = entry
        self.count = 0
        self._files = files
        self._file: File | None = None
        self._key_type = key_type
        self._keys: array[int] | None = array(key_type)
        self._values: array[int] | None = array("i")
        self._saved = 0  # entries that are in the file already

    @property
    def is_active(self) -> bool:
        return self._keys is not None

    @property
    def size(self) -> int:
        """The size in bytes, once everything is written."""
        return self.count * self.entry.size

    def entry_at(self, number: int) -> tuple[int, int]:
        if self._keys is not None and self._values is not None:
            return self._keys[number], self._values[number]
        raw = self._opened().pread(self.entry.size, number * self.entry.size)
        key, value = self.entry.unpack(raw)
        return key, value

    @property
    def last(self) -> tuple[int, int] | None:
        return self.entry_at(self.count - 1) if self.count else None

    def floor(self, key: int) -> int:
        """The number of the last entry whose key is at most `key`; -1 when there is none."""
        if self._keys is not None:
            return bisect_right(self._keys, key) - 1
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry_at(middle)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def add(self, key: int, value: int) -> None:
        assert self._keys is not None and self._values is not None, f"{self.path} is sealed"
        self._keys.append(key)
        self._values.append(value)
        self.count += 1

    def keep(self, count: int) -> None:
        """Drop all but the first `count` entries."""
        assert self._keys is not None and self._values is not None, f"{self.path} is sealed"
        del self._keys[count:]
        del self._values[count:]
        self.count = count
        if self._saved > count:
            self._opened().truncate(count * self.entry.size)
            self._saved = count

    def save(self) -> None:
        """Write what the file does not have yet, in one run."""
        if self._keys is None or self._values is None:
            return
        file = self._opened(create=True)
        if self._saved == 0 and file.size():
            file.truncate(0)  # bytes that an earlier process left behind
        if self._saved < self.count:
            pack = self.entry.pack
            run = [pack(key, value) for key, value in zip(self._keys[self._saved :], self._values[self._saved :], strict=True)]
            file.pwrite([b"".join(run)], self._saved * self.entry.size)
            self._saved = self.count

    def reset(self) -> None:
        """Empty the index, before a rebuild."""
        self._keys, self._values = array(self._key_type), array("i")
        self.count = self._saved = 0

    def seal(self) -> None:
        """Write the index and drop it from memory: the segment is active no more."""
        self.save()
        self._keys = self._values = None

    def unseal(self) -> None:
        """Load the index into memory: the segment is active again."""
        if self._keys is None:
            self.load()

    def load(self, *, active: bool = True) -> None:
        """Load from the file.  Errors: CorruptIndex, OSError."""
        raw = self._files.read(self.path)
        count, rest = divmod(len(raw), self.entry.size)
        if rest:
            raise CorruptIndex(f"{self.path} has {len(raw)} bytes, not a multiple of {self.entry.size}")
        keys: array[int] = array(self._key_type)
        values: array[int] = array("i")
        last_key, last_value = -2, -1
        for key, value in self.entry.iter_unpack(raw):
            if key <= last_key or value < last_value:
                if count and not any(raw[len(keys) * self.entry.size :]):
                    break  # zeros that Kafka preallocates and did not get to trim
                raise CorruptIndex(f"{self.path} does not rise at entry {len(keys)}")
            keys.append(key)
            values.append(value)
            last_key, last_value = key, value
        self.count = self._saved = len(keys)
        if self.count < count:
            self._opened().truncate(self.count * self.entry.size)
        self._keys, self._values = (keys, values) if active else (None, None)

    def adopt(self) -> None:
        """Take the file of a sealed segment as it is: its size gives the number of entries.  Errors: CorruptIndex, OSError."""
        count, rest = divmod(self._files.size(self.path), self.entry.size)
        if rest:
            raise CorruptIndex(f"{self.path} is no multiple of {self.entry.size} bytes")
        self.count = self._saved = count
        self._keys = self._values = None

    def sync(self) -> None:
        if self._saved or self._file is not None:
            self._opened().sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def moved_to(self, path: str) -> None:
        """Note that the file has another name now."""
        self.path = path
        self.close()

    def _opened(self, *, create: bool = False) -> File:
        if self._file is None:
            self._file = self._files.open(self.path, create=create)
        return self._file


class OffsetIndex(SparseIndex):
    """Finds where to begin looking for an offset."""

    __slots__ = ()

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path, base_offset, OFFSET_ENTRY, "i")

    def append(self, last_offset: int, position: int) -> None:
        self.add(last_offset - self.base_offset, position)

    def position_before(self, offset: int) -> int:
        """The position of a batch that ends at or before `offset`; 0 when none is indexed."""
        number = self.floor(offset - self.base_offset)
        return self.entry_at(number)[1] if number >= 0 else 0

    def entry_before(self, offset: int) -> tuple[int, int] | None:
        """The last offset and position of a batch that ends at or before `offset`; None when none is indexed."""
        number = self.floor(offset - self.base_offset)
        if number < 0:
            return None
        last_offset, position = self.entry_at(number)
        return self.base_offset + last_offset, position

    def position_some_entries_before_the_end(self, entries: int) -> int:
        """The position of a batch this many entries before the end; 0 when there are no more entries than that."""
        return self.entry_at(self.count - entries)[1] if self.count > entries else 0

    def first_at_or_after(self, position: int) -> int | None:
        """The relative offset of the first entry at `position` or later.  Records before that position have lower offsets."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry_at(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return self.entry_at(low)[0] if low < self.count else None

    def truncate_to(self, offset: int) -> None:
        """Keep entries below `offset`."""
        self.keep(self.floor(offset - 1 - self.base_offset) + 1)


class TimeIndex(SparseIndex):
    """Finds the offset at which to begin looking for a timestamp."""

    __slots__ = ()

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path, base_offset, TIME_ENTRY, "q")

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry.  It counts only if it is newer than all before."""
        last = self.last
        if timestamp > (last[0] if last else NO_TIMESTAMP):
            self.add(timestamp, offset - self.base_offset)

    def offset_before(self, timestamp: int) -> int:
        """The last indexed offset whose timestamp is at most `timestamp`; the base offset when there is none."""
        number = self.floor(timestamp)
        return self.base_offset + (self.entry_at(number)[1] if number >= 0 else 0)

    def truncate_to(self, offset: int) -> None:
        """Keep entries below `offset`."""
        count = self.count
        if self._values is not None:
            count = bisect_left(self._values, offset - self.base_offset)
        self.keep(count)


class AbortedTransaction(NamedTuple):
    """An aborted transaction.  `last_offset` is the marker's.  `last_stable_offset` is the one after the marker was appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose markers lie in one segment, in the order of the markers.  The file exists once there is one."""

    __slots__ = ("_entries", "_files", "_is_changed", "_is_held", "is_unsynced", "path")

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._is_held = False
        self._is_changed = False
        self.is_unsynced = False
        """Whether the file has changed since a flush was told of it."""
        self._files = files
        self._entries: list[AbortedTransaction] | None = None  # the entries are read when first asked for

    def entries(self) -> list[AbortedTransaction]:
        """The aborted transactions.  Errors: CorruptIndex."""
        if self._entries is None:
            self._entries = self._read() if self._files.exists(self.path) else []
        return self._entries

    def knows(self, marker_offset: int) -> bool:
        """Whether the marker is in it already, when a state is replayed over an index that was kept."""
        entries = self.entries()
        return bool(entries) and entries[-1].last_offset >= marker_offset

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction.  It is written at once, because markers of aborted transactions are rare."""
        entries = self.entries()
        assert not entries or entries[-1].last_offset < aborted.last_offset, f"{self.path}: markers come in order"
        if self._is_held:
            entries.append(aborted)
            self._is_changed = True
            return
        file = self._files.open(self.path, create=True)
        file.pwrite([ABORTED_ENTRY.pack(0, *aborted)], len(entries) * ABORTED_ENTRY.size)
        file.close()
        entries.append(aborted)
        self.is_unsynced = True

    def hold(self) -> None:
        """Write nothing until `release`: a recovery changes nothing on the disk before it has seen all of the log."""
        self._is_held = True

    def forget(self) -> None:
        """Forget the entries before a rebuild, while held."""
        assert self._is_held, self.path
        self._entries = []
        self._is_changed = True

    def release(self) -> None:
        """Write the changes made meanwhile.  Errors: OSError."""
        self._is_held = False
        if not self._is_changed:
            return
        self._is_changed = False
        entries = self.entries()
        if not entries:
            self.reset()
            return
        file = self._files.open(self.path, create=True)
        file.truncate(0)
        file.pwrite([b"".join([ABORTED_ENTRY.pack(0, *aborted) for aborted in entries])], 0)
        file.close()
        self.is_unsynced = True

    def truncate_to(self, offset: int) -> None:
        """Keep transactions whose marker lies below `offset`."""
        entries = self.entries()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries):
            file = self._files.open(self.path)
            file.truncate(len(kept) * ABORTED_ENTRY.size)
            file.close()
            self._entries = kept
            self.is_unsynced = True

    def reset(self) -> None:
        """Empty the index, before a rebuild."""
        if self._files.exists(self.path):
            self._files.unlink(self.path)
        self._entries = []

    def sync(self) -> None:
        if self._files.exists(self.path):
            file = self._files.open(self.path)
            file.sync()
            file.close()

    def moved_to(self, path: str) -> None:
        self.path = path

    def _read(self) -> list[AbortedTransaction]:
        raw = self._files.read(self.path)
        if not raw or len(raw) % ABORTED_ENTRY.size:  # only a truncation leaves an empty file, which is soon made anew
            raise CorruptIndex(f"{self.path} has {len(raw)} bytes, not a multiple of {ABORTED_ENTRY.size}")
        entries = []
        for version, *numbers in ABORTED_ENTRY.iter_unpack(raw):
            if version != 0:
                raise CorruptIndex(f"{self.path} has an entry of version {version}")
            entries.append(AbortedTransaction(*numbers))
        return entries
