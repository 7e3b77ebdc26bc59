"""◇ The newest offset of each key in the dirty part of a log, and its consequences for whole batches.  When the copy begins, every record
of the dirty part has been seen, and the newest offset of each key is known.  These offsets, sorted, tell how many records of a batch stay.
If none stay, the batch is dropped unseen; if all stay, it is copied as it is; otherwise its records are read.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice, repeat
from operator import le
from typing import Any, Final

from moldau.protocol.records.batch import BatchHeader
from moldau.storage.cleaner.plan import CleaningPlan
from moldau.storage.cleaner.reading import Pace, read_batches
from moldau.storage.cleaner.skim import Fate, Skimmed, skim
from moldau.storage.cleaner.transactions import Transactions
from moldau.storage.files import Files

BYTES_PER_KEY: Final = 140
"""The bytes of an entry beside the key itself, its place among the sorted offsets included."""

_NEVER: Final[Fate] = 1 << 64
_OLDEST: Final[Fate] = 0


class OffsetMap:
    """The map of the records from `first_offset` to `end_offset`, which is exclusive and grows while batches are put in."""

    def __init__(self, first_offset: int) -> None:
        self.first_offset: Final = first_offset
        self.end_offset = first_offset
        self.bytes_used = 0
        self._newest: dict[bytes | None, Fate] = {None: _NEVER}  # a record without a key is never the newest
        self._live = array("Q")
        self._tombstones = array("Q")
        self._passed = 0

    def put(self, header: BatchHeader, records: Skimmed) -> None:
        newest, size = self._newest, len(self._newest)
        if header.base_offset < self.first_offset:
            newest.update((key, fate) for key, fate in zip(records.keys, records.fates, strict=True) if fate >= 2 * self.first_offset)
        else:
            newest.update(zip(records.keys, records.fates, strict=True))
        newest[None] = _NEVER
        added = len(newest) - size
        if added:
            latest: Iterator[Any] = islice(reversed(newest), added)  # these are keys, and all of them bytes: None was removed before
            self.bytes_used += BYTES_PER_KEY * added + sum(map(len, latest))

    def complete(self) -> None:
        """Finish the map after the last `put`, before the first question."""
        self._live = array("Q", sorted(islice(self._newest.values(), 1, None)))  # the entry of None does not count
        self._tombstones = array("Q", [fate for fate in self._live if fate & 1])

    def stay(self, records: Skimmed) -> list[bool]:
        """For each record whether there is no newer one of its key."""
        return list(map(le, map(self._newest.get, records.keys, repeat(_OLDEST)), records.fates))

    def knows(self, header: BatchHeader) -> bool:
        """Whether all of the batch was put in."""
        return self.first_offset <= header.base_offset and header.base_offset + header.last_offset_delta < self.end_offset

    def live_in(self, header: BatchHeader) -> "array[Fate]":
        """The fates of the records that stay of a known batch.  Ask in the order of the log."""
        live, at = self._live, self._passed
        first = 2 * header.base_offset
        end = first + 2 * header.last_offset_delta + 2
        if at < len(live) and live[at] < first:
            at = bisect_left(live, first, at)
        self._passed = at
        if at < len(live) and live[at] < end:
            self._passed = bisect_left(live, end, at, min(len(live), at + header.records_count))
        return live[at : self._passed]

    def has_tombstone_in(self, header: BatchHeader) -> bool:
        """Whether one of the staying records is a tombstone."""
        at = bisect_left(self._tombstones, 2 * header.base_offset)
        return at < len(self._tombstones) and self._tombstones[at] < 2 * header.next_offset


def map_offsets(files: Files, plan: CleaningPlan, pace: Pace) -> OffsetMap:
    """Map the dirty part, as far as the map's memory goes.  Errors: CorruptBatch, OSError."""
    offsets = OffsetMap(plan.first_dirty_offset)
    reads_from = max((segment.base_offset for segment in plan.segments if segment.base_offset <= plan.first_dirty_offset), default=0)
    # A transaction whose marker lies before would never end in this reading, and take its producer's later records along.
    transactions = Transactions(tuple(aborted for aborted in plan.aborted if aborted.last_offset >= reads_from))
    for segment, following in zip(plan.segments, [*(s.base_offset for s in plan.segments[1:]), plan.end_offset], strict=True):
        if following <= plan.first_dirty_offset:
            continue
        for header, chunk, at in read_batches(files, plan, segment, pace):
            if offsets.bytes_used >= plan.map_bytes:
                offsets.complete()
                return offsets
            if header.is_control:
                transactions.marker(header, memoryview(chunk)[at : at + header.size])
            elif not transactions.is_aborted(header):
                offsets.put(header, skim(header, chunk, at))
            offsets.end_offset = max(offsets.end_offset, header.next_offset)
        offsets.end_offset = max(offsets.end_offset, following)
    offsets.complete()
    return offsets
