"""◇ One segment in remote storage: what is known of it, how its state changes, and its records in `__remote_log_metadata`.

    COPY_STARTED ─▶ COPY_FINISHED ─▶ DELETE_STARTED ─▶ DELETE_FINISHED        only COPY_FINISHED is read
          └───────────────────────────────▲                                   a copy that broke off is deleted

A segment has a random id: the same offsets copied twice are two segments, and what a broken copy left is never taken for a whole one.
Source: RemoteLogSegmentMetadata, RemoteLogSegmentState, RemoteLogSegmentMetadataTransform, RemoteLogMetadataTopicPartitioner; KIP-405.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from moldau.protocol.murmur import murmur2
from moldau.protocol.wire import StoredRecord
from moldau.storage.epochs import EpochEntry
from moldau.storage.tiered.records import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from moldau.types import TopicPartition, uuid_to_text

_INT: Final = (1 << 32) - 1
_LONG: Final = (1 << 64) - 1


class SegmentState(IntEnum):
    """How far a segment's copy, or its deletion, has come."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


class PartitionDeletion(IntEnum):
    """How far the deletion of all remote segments of a partition has come."""

    MARKED = 0
    STARTED = 1
    FINISHED = 2


ALLOWED: Final[Mapping[SegmentState | None, frozenset[SegmentState]]] = {
    None: frozenset({SegmentState.COPY_STARTED}),
    SegmentState.COPY_STARTED: frozenset({SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED}),
    SegmentState.COPY_FINISHED: frozenset({SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED}),
    SegmentState.DELETE_STARTED: frozenset({SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED}),
    SegmentState.DELETE_FINISHED: frozenset({SegmentState.DELETE_FINISHED}),
}
"""The states that may follow each state.  Every reader of the log ignores a record that breaks this, so all agree."""


class TopicIdPartition(NamedTuple):
    """A partition of a topic that may have been deleted and made anew under the same name."""

    topic_id: UUID
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{uuid_to_text(self.topic_id)}"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def metadata_partition(self, partition_count: int) -> int:
        """The partition of `__remote_log_metadata` for it: Java's hash of the id's halves and the number, then Kafka's hash of that."""
        value = 1
        for part in (_long_hash(self.topic_id.int & _LONG), _long_hash(self.topic_id.int >> 64), self.partition):
            value = (31 * value + part) & _INT
        return (murmur2(value.to_bytes(4, "big")) & 0x7FFFFFFF) % partition_count

    @property
    def entry(self) -> TopicIdPartitionEntry:
        return TopicIdPartitionEntry(name=self.topic, id=self.topic_id, partition=self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """`start_offset` and `end_offset` inclusive; `leader_epochs` with where each begins in it."""

    where: TopicIdPartition
    id: UUID
    start_offset: int
    end_offset: int
    leader_epochs: tuple[EpochEntry, ...]
    max_timestamp_ms: int
    size: int
    broker_id: int
    event_timestamp_ms: int
    state: SegmentState = SegmentState.COPY_STARTED
    custom_metadata: bytes | None = None
    is_txn_index_empty: bool = False

    def __str__(self) -> str:
        return f"{self.where}:{self.start_offset}-{self.end_offset}:{uuid_to_text(self.id)}"

    def end_offset_of(self, epoch: int) -> int:
        """The last offset of `epoch` in it, which must be one of its own."""
        starts = [entry.start_offset for entry in self.leader_epochs if entry.epoch > epoch]
        return starts[0] - 1 if starts else self.end_offset

    def record(self) -> RemoteLogSegmentMetadataRecord:
        """The record that first announces it."""
        return RemoteLogSegmentMetadataRecord(
            remote_log_segment_id=self._id_entry(),
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            broker_id=self.broker_id,
            max_timestamp_ms=self.max_timestamp_ms,
            event_timestamp_ms=self.event_timestamp_ms,
            segment_leader_epochs=[
                SegmentLeaderEpochEntry(leader_epoch=each.epoch, offset=each.start_offset) for each in self.leader_epochs
            ],
            segment_size_in_bytes=self.size,
            custom_metadata=self.custom_metadata,
            remote_log_segment_state=self.state,
            txn_index_empty=self.is_txn_index_empty,
        )

    def update(self, state: SegmentState, *, broker_id: int, now_ms: int) -> RemoteLogSegmentMetadataUpdateRecord:
        """That it is in `state` now."""
        return RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=self._id_entry(),
            broker_id=broker_id,
            event_timestamp_ms=now_ms,
            custom_metadata=self.custom_metadata,
            remote_log_segment_state=state,
        )

    def updated(self, update: RemoteLogSegmentMetadataUpdateRecord) -> "RemoteSegment":
        return replace(
            self,
            state=SegmentState(update.remote_log_segment_state),
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=update.custom_metadata if update.custom_metadata is not None else self.custom_metadata,
        )

    def _id_entry(self) -> RemoteLogSegmentIdEntry:
        return RemoteLogSegmentIdEntry(topic_id_partition=self.where.entry, id=self.id)


def segment_of(record: RemoteLogSegmentMetadataRecord) -> RemoteSegment:
    return RemoteSegment(
        where=_where(record.remote_log_segment_id.topic_id_partition),
        id=record.remote_log_segment_id.id,
        start_offset=record.start_offset,
        end_offset=record.end_offset,
        leader_epochs=by_epoch(EpochEntry(each.leader_epoch, each.offset) for each in record.segment_leader_epochs),
        max_timestamp_ms=record.max_timestamp_ms,
        size=record.segment_size_in_bytes,
        broker_id=record.broker_id,
        event_timestamp_ms=record.event_timestamp_ms,
        state=SegmentState(record.remote_log_segment_state),
        custom_metadata=record.custom_metadata,
        is_txn_index_empty=record.txn_index_empty,
    )


def by_epoch(entries: Iterable[EpochEntry]) -> tuple[EpochEntry, ...]:
    """Kafka writes them in no order."""
    return tuple(sorted(entries))


def where_of(record: StoredRecord) -> TopicIdPartition:
    """The partition that a record of `__remote_log_metadata` is about.  Errors: ValueError for a record that does not belong there."""
    match record:
        case RemoteLogSegmentMetadataRecord() | RemoteLogSegmentMetadataUpdateRecord():
            return _where(record.remote_log_segment_id.topic_id_partition)
        case RemotePartitionDeleteMetadataRecord():
            return _where(record.topic_id_partition)
    raise ValueError(f"{type(record).__name__} is no record of that topic")


def partition_deletion(where: TopicIdPartition, state: PartitionDeletion, *, broker_id: int, now_ms: int) -> StoredRecord:
    return RemotePartitionDeleteMetadataRecord(
        topic_id_partition=where.entry, broker_id=broker_id, event_timestamp_ms=now_ms, remote_partition_delete_state=state
    )


def _long_hash(value: int) -> int:
    """`Long.hashCode` of Java."""
    return (value ^ value >> 32) & _INT


def _where(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    return TopicIdPartition(entry.id, entry.name, entry.partition)
