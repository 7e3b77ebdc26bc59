"""◇ Reads the segments of a log: records by offset, with their aborted transactions; batches by time.

The log passes the bounds of a reading as arguments.
Source: LocalLog.read, UnifiedLog.fetchOffsetByTimestamp.  Called by `log`.
"""

from moldau.errors import ErrorCode
from moldau.storage.index import AbortedTransaction
from moldau.storage.log_segments import LogSegments
from moldau.storage.log_values import FetchData
from moldau.storage.segment import Segment
from moldau.storage.time_search import Candidate, Search
from moldau.types import FileSlice


class LogReader:
    """The reader of one log's segments."""

    def __init__(self, segments: LogSegments) -> None:
        self._segments = segments

    def read(
        self, offset: int, max_bytes: int, *, limit: int, end_offset: int, min_one_batch: bool, with_aborted: bool
    ) -> FetchData | ErrorCode:
        """Batches from the one that holds `offset` on, below `limit`; the log ends at `end_offset`.  Both are exclusive.

        Errors: OFFSET_MOVED_TO_TIERED_STORAGE when `offset` lies before the first segment; raises OSError, CorruptBatch.
        """
        segments = self._segments
        number = segments.number_of(offset)
        if number < 0:
            return ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        while offset < limit and number < len(segments.all):
            segment = segments.all[number]
            position = segment.position_of(offset) if offset >= segment.base_offset else 0
            if position is not None and position < segment.size:
                end = self._end_for(segment, number, limit, end_offset)
                if position >= end:
                    break
                data = _slice(segment, offset, position, end, max_bytes, min_one_batch=min_one_batch)
                if not with_aborted or data.records is None:
                    return data
                upper = min(self._upper_bound(segment, number, position + data.size, end_offset), limit)
                return data._replace(aborted=self.aborted_transactions(offset, upper))
            number += 1  # compaction left no record there
        return FetchData(None, offset, segments.active.size)

    def _end_for(self, segment: Segment, number: int, limit: int, end_offset: int) -> int:
        """The position at which the reader must stop in `segment`."""
        segment_end = self._segments.end_of(number)
        if limit >= end_offset or (segment_end is not None and limit >= segment_end):
            return segment.size
        position = segment.position_of(limit)
        return segment.size if position is None else position

    def _upper_bound(self, segment: Segment, number: int, end_position: int, end_offset: int) -> int:
        """An offset not below that of the batch at `end_position`: reading the batch to know it would cost more than it saves."""
        if end_position < segment.size:
            indexed = segment.offset_index.first_at_or_after(end_position)
            if indexed is not None:
                return segment.base_offset + indexed + 1
        return self._segments.end_of(number) or end_offset

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records in the range (`end_offset` exclusive), oldest marker first."""
        number = max(0, self._segments.number_of(start_offset))
        found = []
        for segment in self._segments.all[number:]:
            for aborted in segment.txn_index.entries():
                if aborted.last_offset >= start_offset and aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return tuple(found)
        return tuple(found)

    def candidate_for_timestamp(self, timestamp: int, start_offset: int) -> Candidate | None:
        """The first batch from `start_offset` on whose header promises a record of `timestamp` or later.  Errors: CorruptBatch, OSError."""
        for segment in self._segments.all:
            if segment.largest_timestamp >= timestamp:
                found = segment.first_batch_at_or_after(timestamp, start_offset)
                if found is not None:
                    position, header = found
                    return Candidate(header, Search(segment.batch_at(position, header), timestamp, start_offset))
        return None

    def candidate_for_max_timestamp(self) -> Candidate | None:
        """The first batch whose header promises the record with the largest timestamp.  Errors: CorruptBatch, OSError."""
        newest = max(self._segments.all, key=lambda segment: segment.largest_timestamp)
        if newest.largest_timestamp < 0:
            return None
        position = newest.position_of(newest.offset_of_largest_timestamp)
        if position is None:
            return None
        header = newest.header_at(position)
        return Candidate(header, Search(newest.batch_at(position, header), header.max_timestamp, header.base_offset))


def _slice(segment: Segment, offset: int, position: int, end: int, max_bytes: int, *, min_one_batch: bool) -> FetchData:
    size = end - position
    if size > max_bytes:
        first = segment.batch_size_at(position)
        if first > max_bytes:
            if not min_one_batch:
                return FetchData(None, offset, position)
            size = first
        else:
            size = max_bytes
    return FetchData(FileSlice(segment.file, position, size), offset, position)
