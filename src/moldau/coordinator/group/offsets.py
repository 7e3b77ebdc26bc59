"""◇ Committed offsets of the groups of one partition of `__consumer_offsets`.

A commit inside a transaction is pending until the transaction's marker.  After a COMMIT it counts, unless a later commit has overtaken it;
after an ABORT it is dropped.

Source: OffsetMetadataManager; KIP-98, 211, 447.  Called by `machine.GroupMachine`.
"""

from collections.abc import Iterator, Set
from typing import NamedTuple
from uuid import UUID

from moldau.config import MAX_LONG
from moldau.coordinator.group.records import OffsetCommitKey, OffsetCommitValue
from moldau.coordinator.outcome import CoordinatorRecord
from moldau.types import ZERO_UUID, TopicPartition


class CommittedOffset(NamedTuple):
    """A committed offset.

    `offset` is the next one to read.  `record_offset` is the commit's place in the log: the greater one is the later commit.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    topic_id: UUID
    record_offset: int


GroupOffsets = dict[TopicPartition, CommittedOffset]


class Offsets:
    """Hard state: only `replay` and `replay_end_marker` change it."""

    def __init__(self) -> None:
        self._committed: dict[str, GroupOffsets] = {}
        self._pending: dict[int, dict[str, GroupOffsets]] = {}
        """By producer id, the offsets that an open transaction will commit."""

    def replay(self, record_offset: int, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int | None) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._forget(key.group, partition)
            return
        committed = CommittedOffset(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_timestamp_ms=value.commit_timestamp,
            expire_timestamp_ms=value.expire_timestamp if value.expire_timestamp != -1 else None,
            topic_id=value.topic_id,
            record_offset=record_offset,
        )
        by_group = self._committed if producer_id is None else self._pending.setdefault(producer_id, {})
        by_group.setdefault(key.group, {})[partition] = committed

    def replay_end_marker(self, producer_id: int, *, is_commit: bool) -> None:
        pending = self._pending.pop(producer_id, {})
        if not is_commit:
            return
        for group_id, offsets in pending.items():
            committed = self._committed.setdefault(group_id, {})
            for partition, offset in offsets.items():
                overtaken_by = committed.get(partition)
                if overtaken_by is None or overtaken_by.record_offset < offset.record_offset:
                    committed[partition] = offset

    def _forget(self, group_id: str, partition: TopicPartition) -> None:
        for by_group in (self._committed, *self._pending.values()):
            offsets = by_group.get(group_id)
            if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
                del by_group[group_id]

    def groups(self) -> Iterator[str]:
        """Every group with a committed or pending offset."""
        yield from self._committed
        for by_group in self._pending.values():
            yield from by_group

    def knows(self, group_id: str) -> bool:
        """Whether the group has a committed or pending offset."""
        return group_id in self._committed or any(group_id in by_group for by_group in self._pending.values())

    def committed(self, group_id: str) -> GroupOffsets:
        return self._committed.get(group_id, {})

    def has_pending(self, group_id: str, partition: TopicPartition | None = None) -> bool:
        """Whether an open transaction will commit for the group, or for that partition of it."""
        return any(group_id in by_group and (partition is None or partition in by_group[group_id]) for by_group in self._pending.values())

    def tombstones(self, group_id: str, among: Set[TopicPartition] | None = None) -> list[CoordinatorRecord]:
        """The records that forget every offset of the group, pending ones too; or only the offsets of the partitions in `among`."""
        partitions = set(self._committed.get(group_id, ()))
        for by_group in self._pending.values():
            partitions |= by_group.get(group_id, {}).keys()
        return [tombstone(group_id, partition) for partition in sorted(partitions if among is None else partitions & among)]


def tombstone(group_id: str, partition: TopicPartition) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition), None)


def commit_record(
    group_id: str,
    partition: TopicPartition,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    now_ms: int,
    retention_ms: int = -1,
    topic_id: UUID = ZERO_UUID,
) -> CoordinatorRecord:
    """The record of a commit.  `retention_ms`: -1 for the broker's rule; clients before KIP-211 could ask for their own."""
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=min(now_ms + retention_ms, MAX_LONG) if retention_ms != -1 else -1,
        topic_id=topic_id,
    )
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition), value)
