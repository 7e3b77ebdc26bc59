"""◇ What a log tells its readers: records by offset, with the transactions that were aborted among them; offsets by time; epochs."""

from bisect import bisect_right

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import CorruptBatch
from moldau.storage.epochs import EpochEnd
from moldau.storage.index import AbortedTransaction
from moldau.storage.log_core import LogCore
from moldau.storage.log_values import FetchData, ProducerStatus
from moldau.storage.segment import Segment
from moldau.storage.time_search import Candidate, Search, TimestampOffset, first_record_at_or_after
from moldau.types import FileSlice


class LogReading(LogCore):
    """See the module."""

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        limit_offset: int | None = None,
        min_one_batch: bool = True,
        with_aborted: bool = False,
    ) -> FetchData | ErrorCode:  # hot: 5 µs
        """Batches from the one that holds `offset` on, below `limit_offset` (exclusive, default the log's end), about `max_bytes` of them.

        With `min_one_batch` the first comes whole however large it is; without, nothing comes when it does not fit.
        Errors: OFFSET_OUT_OF_RANGE, OFFSET_MOVED_TO_TIERED_STORAGE when it is in remote storage only, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE
        where the disk holds no batch.
        """
        if self.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if offset < self.log_start_offset or offset > self.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        limit = self.log_end_offset if limit_offset is None else min(limit_offset, self.log_end_offset)
        try:
            number = bisect_right(self._bases, offset) - 1
            if number < 0:
                return ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
            while offset < limit and number < len(self.segments):
                segment = self.segments[number]
                position = segment.position_of(offset) if offset >= segment.base_offset else 0
                if position is not None and position < segment.size:
                    end = self._end_for(segment, number, limit)
                    if position >= end:
                        break
                    data = self._slice(segment, offset, position, end, max_bytes, min_one_batch=min_one_batch)
                    if not with_aborted or data.records is None:
                        return data
                    return data._replace(aborted=self._aborted_in(segment, offset, position + data.size, limit))
                number += 1  # compaction left nothing there
        except OSError as error:
            self.fail(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except CorruptBatch:
            return ErrorCode.CORRUPT_MESSAGE
        return FetchData(None, offset, self._active.base_offset, self._active.size)

    def _end_for(self, segment: Segment, number: int, limit: int) -> int:
        """Where the reader must stop in `segment`."""
        if limit >= self.log_end_offset or (number + 1 < len(self._bases) and limit >= self._bases[number + 1]):
            return segment.size
        position = segment.position_of(limit)
        return segment.size if position is None else position

    def _slice(self, segment: Segment, offset: int, position: int, end: int, max_bytes: int, *, min_one_batch: bool) -> FetchData:
        size = end - position
        if size > max_bytes:
            first = segment.batch_size_at(position)
            if first > max_bytes:
                if not min_one_batch:
                    return FetchData(None, offset, segment.base_offset, position)
                size = first
            else:
                size = max_bytes
        return FetchData(FileSlice(segment.file, position, size), offset, segment.base_offset, position)

    def _aborted_in(self, segment: Segment, offset: int, end_position: int, limit: int) -> tuple[AbortedTransaction, ...]:
        """Aborted transactions with records between `offset` and the batch at `end_position`, oldest marker first; at times some more."""
        number = self.segments.index(segment)
        upper = self.log_end_offset
        if end_position < segment.size:
            indexed = segment.offset_index.first_at_or_after(end_position)
            if indexed is not None:
                upper = segment.base_offset + indexed + 1
            elif number + 1 < len(self._bases):
                upper = self._bases[number + 1]
        elif number + 1 < len(self._bases):
            upper = self._bases[number + 1]
        return self.aborted_transactions(offset, min(upper, limit))

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """Those with records in the range (`end_offset` exclusive)."""
        number = max(0, bisect_right(self._bases, start_offset) - 1)
        found = []
        for segment in self.segments[number:]:
            for aborted in segment.txn_index.entries():
                if aborted.last_offset >= start_offset and aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return tuple(found)
        return tuple(found)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is `timestamp` or later, however long it takes to look."""
        candidate = self.candidate_for_timestamp(timestamp)
        while candidate is not None:
            found = first_record_at_or_after(*candidate.search)
            if found is not None:
                return found
            candidate = self.candidate_for_timestamp(timestamp, candidate.next_offset)
        return None

    def candidate_for_timestamp(self, timestamp: int, start_offset: int = 0) -> Candidate | None:
        """The first batch from `start_offset` on that says it has a record of `timestamp` or later."""
        start_offset = max(start_offset, self.log_start_offset)
        for segment in self.segments:
            if segment.largest_timestamp >= timestamp:
                found = segment.first_batch_at_or_after(timestamp, start_offset)
                if found is not None:
                    position, header = found
                    return Candidate(header, Search(segment.batch_at(position, header), timestamp, start_offset))
        return None

    def candidate_for_max_timestamp(self) -> Candidate | None:
        """The batch that says it has the record with the largest timestamp, the first of them."""
        newest = max(self.segments, key=lambda segment: segment.largest_timestamp)
        if newest.largest_timestamp < 0:
            return None
        position = newest.position_of(newest.offset_of_largest_timestamp)
        if position is None:
            return None
        header = newest.header_at(position)
        return Candidate(header, Search(newest.batch_at(position, header), header.max_timestamp, header.base_offset))

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def active_producers(self) -> list[ProducerStatus]:
        return [
            ProducerStatus(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
            for entry in self.producers.producers.values()
        ]

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        return self.producers.remove_expired(now_ms, expiration_ms)
