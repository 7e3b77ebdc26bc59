"""◇ Cleaned segments beside the old ones: every remaining batch, written in large pieces and synced."""

from collections.abc import Set
from itertools import compress
from typing import Final

from moldau.protocol.records.batch import BatchHeader
from moldau.storage.cleaner.offset_map import OffsetMap, map_offsets
from moldau.storage.cleaner.plan import CleanedGroup, CleaningPlan, CleaningResult, SegmentToClean, grouped
from moldau.storage.cleaner.reading import Pace, read_batches
from moldau.storage.cleaner.rebuilding import Batch, emptied, rebuilt
from moldau.storage.cleaner.skim import Fate, skim
from moldau.storage.cleaner.transactions import Transactions
from moldau.storage.files import Files
from moldau.storage.recovery import CLEANED_SUFFIX
from moldau.storage.segment import Segment

WRITE_BYTES: Final = 1 << 20


def clean(files: Files, plan: CleaningPlan, pace: Pace = lambda _: None) -> CleaningResult:
    """Write the cleaned segments beside the old ones.  Errors: CorruptBatch, OSError; `discard` then removes the written files."""
    offsets = map_offsets(files, plan, pace)
    copy = _Copy(files, plan, offsets, pace)
    groups = tuple(copy.group(group) for group in grouped([s for s in plan.segments if s.base_offset < offsets.end_offset], plan))
    return CleaningResult(
        groups, offsets.end_offset, plan.truncations, copy.bytes_read, copy.bytes_written, copy.records_read, copy.records_kept
    )


class _Copy:
    """One copy: what it needs for every batch, and what it counts."""

    def __init__(self, files: Files, plan: CleaningPlan, offsets: OffsetMap, pace: Pace) -> None:
        self.bytes_read = self.bytes_written = self.records_read = self.records_kept = 0
        self._files = files
        self._plan = plan
        self._offsets = offsets
        self._pace = pace
        self._transactions = Transactions(plan.aborted)

    def group(self, group: list[SegmentToClean]) -> CleanedGroup:
        """Write one new segment in place of these."""
        plan = self._plan
        target = _Target(
            Segment.create(
                self._files,
                plan.directory,
                group[0].base_offset,
                index_interval_bytes=plan.index_interval_bytes,
                now_ms=plan.now_ms,
                suffix=CLEANED_SUFFIX,
            ),
            self._pace,
        )
        for segment in group:
            header: BatchHeader | None = None
            for header, chunk, at in read_batches(self._files, plan, segment, self._pace):
                self.bytes_read += header.size
                self.records_read += header.records_count
                kept = self._kept(header, chunk, at, target.segment)
                if kept is not None:
                    target.add(kept)
            if header is not None and segment is group[-1] and target.last_offset < header.last_offset:
                # The new segment reaches as far as the ones it replaces: a crash within the swap then knows all of them.
                target.add(emptied(header))
        target.close()
        self.bytes_written += target.segment.size
        self.records_kept += target.records_count
        return CleanedGroup(group[0].base_offset, tuple(segment.base_offset for segment in group))

    def _kept(self, header: BatchHeader, chunk: bytes, at: int, cleaned: Segment) -> Batch | None:
        """The remaining batch: untouched, with fewer records, emptied, or None."""
        if header.is_control:
            return self._kept_marker(header, chunk, at, cleaned)
        if self._transactions.is_aborted(header):
            return self._without_records(header)
        if header.records_count == 0:
            return _untouched(header, chunk, at) if self._must_stay(header) else None
        if not self._offsets.knows(header):
            return self._looked_into(header, chunk, at)
        live = self._offsets.live_in(header)
        if not live:
            return self._without_records(header)
        if len(live) == header.records_count and not self._offsets.has_tombstone_in(header):
            return _untouched(header, chunk, at)
        return self._looked_into(header, chunk, at, set(live))

    def _looked_into(self, header: BatchHeader, chunk: bytes, at: int, live: Set[Fate] = frozenset()) -> Batch | None:
        """The remaining batch after a look at its records.  `live`, if known, are the records that stay."""
        plan = self._plan
        records = skim(header, chunk, at)
        fates = records.fates
        if header.next_offset > self._offsets.end_offset:
            stays = [True] * len(fates)  # the record is not cleanable yet
        else:
            stays = [fate in live for fate in fates] if live else self._offsets.stay(records)
            if header.has_delete_horizon and header.base_timestamp <= plan.now_ms:
                stays = [stay and not fate & 1 for stay, fate in zip(stays, fates, strict=True)]
        if True not in stays:
            return self._without_records(header)
        needs_horizon = not header.has_delete_horizon and any(fate & 1 for fate in compress(fates, stays))
        if False not in stays and not needs_horizon:
            return _untouched(header, chunk, at)
        return rebuilt(header, records, stays, plan.now_ms + plan.delete_retention_ms if needs_horizon else None)

    def _kept_marker(self, header: BatchHeader, chunk: bytes, at: int, cleaned: Segment) -> Batch | None:
        is_without_records, transaction = self._transactions.marker(header, memoryview(chunk)[at : at + header.size])
        if not is_without_records:
            if transaction is not None:
                cleaned.txn_index.append(transaction)
            return _untouched(header, chunk, at)
        if header.records_count == 0:
            return _untouched(header, chunk, at) if self._must_stay(header) else None
        if not header.has_delete_horizon:
            records = skim(header, chunk, at)
            return rebuilt(header, records, [True] * len(records.keys), self._plan.now_ms + self._plan.delete_retention_ms)
        if header.base_timestamp <= self._plan.now_ms:
            return self._without_records(header)
        return _untouched(header, chunk, at)

    def _without_records(self, header: BatchHeader) -> Batch | None:
        return emptied(header) if self._must_stay(header) else None

    def _must_stay(self, header: BatchHeader) -> bool:
        """Whether the batch is a living producer's last, or the last of the round."""
        if header.next_offset == self._plan.end_offset:
            return True
        last = self._plan.last_records.get(header.producer_id)
        if last is None:
            return False
        return header.last_offset == last.offset if last.offset >= 0 else header.is_control and header.producer_epoch == last.producer_epoch


def _untouched(header: BatchHeader, chunk: bytes, at: int) -> Batch:
    return Batch(header, memoryview(chunk)[at : at + header.size])


class _Target:
    """The new segment, written a megabyte at a time."""

    def __init__(self, segment: Segment, pace: Pace) -> None:
        self.segment: Final = segment
        self.records_count = 0
        self.last_offset = -1
        self._pace = pace
        self._headers: list[tuple[int, BatchHeader]] = []
        self._parts: list[bytes | bytearray | memoryview] = []
        self._size = 0

    def add(self, batch: Batch) -> None:
        header, content = batch
        self._headers.append((self._size, header))
        self._parts.append(content)
        self._size += len(content)
        self.last_offset = header.last_offset
        self.records_count += header.records_count
        if self._size >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self.segment.append_many(b"".join(self._parts), self._headers)
        self._pace(self._size)
        self._headers, self._parts, self._size = [], [], 0

    def close(self) -> None:
        """Bring all of it to stable storage."""
        if self._parts:
            self._write()
        self.segment.seal()
        self.segment.file.sync()
        self.segment.sync_indexes()
        self.segment.close()
