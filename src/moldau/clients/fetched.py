"""◇ Turns one partition's part of a Fetch response into the records that a consumer sees.

Control records are left out; with read_committed the records of aborted transactions are, too.  A transaction of `producer_id` that the
response lists as aborted covers its records from `first_offset` up to its ABORT marker.

Source: CompletedFetch.java, KIP-98.
"""

from collections.abc import Iterator
from typing import NamedTuple

from moldau.clients.aborted import Aborted
from moldau.protocol.messages.fetch import PartitionData
from moldau.protocol.records.batch import BatchHeader, CorruptBatch, Record, RecordHeader, batches, records_of, verify_crc
from moldau.types import TopicPartition


class ConsumedRecord(NamedTuple):
    """`timestamp_type`: 0 CreateTime, 1 LogAppendTime.  Key, value and headers are copies: they outlive the response."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


class Fetched(NamedTuple):
    records: list[ConsumedRecord]
    next_offset: int
    """The next offset to fetch; it lies beyond the last record if a consumer does not see what follows."""


def read_fetched(
    topic_partition: TopicPartition, answer: PartitionData, fetch_offset: int, *, read_committed: bool = False, check_crc: bool = True
) -> Fetched:
    """The records of one answer that a consumer sees.  Errors: CorruptBatch."""
    visible = visible_batches(topic_partition, answer, fetch_offset, read_committed=read_committed, check_crc=check_crc)
    found: list[ConsumedRecord] = []
    for header, batch in visible.batches:
        found += _consumed(topic_partition, header, batch, fetch_offset)
    return Fetched(found, visible.next_offset)


class VisibleBatches(NamedTuple):
    """Whole batches that a consumer sees; the first may begin before the offset asked for."""

    batches: list[tuple[BatchHeader, memoryview]]
    next_offset: int


def visible_batches(
    topic_partition: TopicPartition, answer: PartitionData, fetch_offset: int, *, read_committed: bool = False, check_crc: bool = True
) -> VisibleBatches:
    """The batches of one answer that a consumer sees.  Errors: CorruptBatch."""
    view = memoryview(answer.records) if isinstance(answer.records, bytes | bytearray | memoryview) else memoryview(b"")
    aborted = Aborted(answer.aborted_transactions or ()) if read_committed else None
    found: list[tuple[BatchHeader, memoryview]] = []
    next_offset = fetch_offset
    for position, header in batches(view):
        if check_crc and not verify_crc(view, position, header):
            raise CorruptBatch(f"{topic_partition}: the batch at offset {header.base_offset} does not match its CRC")
        next_offset = max(next_offset, header.next_offset)
        batch = view[position : position + header.size]
        if aborted is not None and aborted.covers(header, batch):
            continue
        if not header.is_control:
            found.append((header, batch))
    return VisibleBatches(found, next_offset)


def read_records(topic_partition: TopicPartition, records: object, *, check_crc: bool = True) -> list[ConsumedRecord]:
    """All records that a consumer sees, whatever their offset.  Errors: CorruptBatch."""
    found: list[ConsumedRecord] = []
    view = memoryview(records) if isinstance(records, bytes | bytearray | memoryview) else memoryview(b"")
    for position, header in batches(view):
        if check_crc and not verify_crc(view, position, header):
            raise CorruptBatch(f"{topic_partition}: the batch at offset {header.base_offset} does not match its CRC")
        if not header.is_control:
            found += _consumed(topic_partition, header, view[position : position + header.size], 0)
    return found


def _consumed(topic_partition: TopicPartition, header: BatchHeader, batch: memoryview, fetch_offset: int) -> Iterator[ConsumedRecord]:
    timestamp_type, leader_epoch = header.timestamp_type, header.partition_leader_epoch
    for record in records_of(batch):
        if record.offset >= fetch_offset:  # a batch begins at its own offset, which may lie before the offset asked for
            yield ConsumedRecord(
                topic_partition.topic,
                topic_partition.partition,
                record.offset,
                record.timestamp,
                timestamp_type,
                _copied(record.key),
                _copied(record.value),
                _headers(record),
                leader_epoch,
            )


def _headers(record: Record) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((header.shown_key, _copied(header.value)) for header in map(RecordHeader._make, record.headers))


def _copied(view: memoryview | None) -> bytes | None:
    return None if view is None else bytes(view)
