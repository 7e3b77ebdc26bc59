"""◇ What a log is asked and answers with: the outcome of an append, what a reader gets, what goes before its first record."""

from typing import NamedTuple

from moldau.storage.epochs import EpochEntry
from moldau.storage.index import AbortedTransaction
from moldau.types import FileSlice


class AppendResult(NamedTuple):
    """What became of an append.  Offsets are inclusive; -1 when there was nothing to append."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 for CreateTime."""
    log_start_offset: int
    max_timestamp: int
    records_count: int
    size: int
    is_duplicate: bool = False


class FetchData(NamedTuple):
    """What a reader gets: whole batches first to last, but for the last, which may be cut."""

    records: FileSlice | None
    """None: nothing to read."""
    offset: int
    segment_base_offset: int
    position: int
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return self.records.size if self.records is not None else 0


class Past(NamedTuple):
    """What a log must know of the records before its first one, when those are in remote storage only.  `end_offset` exclusive."""

    end_offset: int
    epochs: list[EpochEntry]
    snapshot: bytes
    """Of the producers, as in a snapshot file."""

    @property
    def start_offset(self) -> int:
        """The first whose epoch it tells."""
        return self.epochs[0].start_offset


class ProducerStatus(NamedTuple):
    """One line of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int
