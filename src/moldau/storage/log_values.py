"""◇ The values that a log's methods take and return: the outcome of an append, fetched data, the past before the first record."""

from typing import NamedTuple

from moldau.storage.epochs import EpochEntry
from moldau.storage.index import AbortedTransaction
from moldau.types import FileSlice


class AppendResult(NamedTuple):
    """The outcome of an append.  Offsets are inclusive; -1 when there was nothing to append."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """The time of the append in milliseconds; -1 for CreateTime."""
    log_start_offset: int
    max_timestamp: int
    records_count: int
    size: int
    is_duplicate: bool = False


class FetchData(NamedTuple):
    """The data for a reader: whole batches, except the last, which may be cut."""

    records: FileSlice | None
    """The records; None: there is nothing to read."""
    offset: int
    position: int
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return self.records.size if self.records is not None else 0


class Past(NamedTuple):
    """The knowledge that a log needs of the records before its first one, when those are in remote storage only.

    `end_offset` is exclusive.
    """

    end_offset: int
    epochs: list[EpochEntry]
    snapshot: bytes
    """The state of the producers, as in a snapshot file."""

    @property
    def start_offset(self) -> int:
        """The first offset whose epoch is known."""
        return self.epochs[0].start_offset


class ProducerStatus(NamedTuple):
    """One line of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int
