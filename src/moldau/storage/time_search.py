"""◇ Finds the record of a batch for a timestamp.

A log names the batch (`Log.candidate_for_timestamp`), by its header and its indexes; what is in it must be looked for, and large
ones are looked into beside the loop.  Called by `log`, `log_reader`, `tiered.reader`, the handler of ListOffsets.
"""

from typing import NamedTuple

from moldau.protocol.records.batch import CODEC_MASK, BatchHeader, records_of
from moldau.protocol.records.compression import DEFAULT_MAX_BYTES, Buffer
from moldau.storage.validator import is_light


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class Search(NamedTuple):
    """The arguments of `first_record_at_or_after`."""

    batch: bytes
    timestamp: int
    start_offset: int


class Candidate(NamedTuple):
    """A batch that may hold the record."""

    header: BatchHeader
    search: Search

    @property
    def next_offset(self) -> int:
        return self.header.next_offset

    @property
    def is_light(self) -> bool:
        return is_light(self.header, is_compressing=bool(self.header.attributes & CODEC_MASK))


def first_record_at_or_after(
    batch: Buffer, timestamp: int, start_offset: int, max_bytes: int = DEFAULT_MAX_BYTES
) -> TimestampOffset | None:
    """The first record from `start_offset` on whose timestamp is `timestamp` or later.

    Errors: CorruptBatch; ExpandsTooFar when there are more than `max_bytes` of records.
    """
    for record in records_of(batch, max_bytes=max_bytes):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimestampOffset(record.timestamp, record.offset)
    return None
