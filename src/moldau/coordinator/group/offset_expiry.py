"""◇ Finds the committed offsets of a group that are past their time (KIP-211).

An offset is kept as long as a member subscribes to its topic, or as long as a transaction that commits it is open.  The group itself says
when the retention of its offsets begins: `offsets_kept_since_ms`.  `GroupMachine.expire_offsets` runs at intervals.

Source: OffsetMetadataManager.cleanupExpiredOffsets, OffsetExpirationConditionImpl.
"""

from moldau.coordinator.group.kinds import Group
from moldau.coordinator.group.offsets import CommittedOffset, Offsets
from moldau.types import TopicPartition


def expired_offsets(offsets: Offsets, group_id: str, group: Group | None, *, retention_ms: int, now_ms: int) -> list[TopicPartition]:
    """The partitions whose offsets expire.  `group` None: nothing but offsets is known of it."""
    committed = offsets.committed(group_id)
    subscribed = group.subscribed_topics() if group is not None and committed else frozenset[str]()
    if subscribed is None:
        return []
    return [
        partition
        for partition, offset in committed.items()
        if partition.topic not in subscribed
        and _is_past(group, offset, retention_ms, now_ms)
        and not offsets.has_pending(group_id, partition)
    ]


def _is_past(group: Group | None, offset: CommittedOffset, retention_ms: int, now_ms: int) -> bool:
    if offset.expire_timestamp_ms is not None:
        return now_ms >= offset.expire_timestamp_ms
    since_ms = offset.commit_timestamp_ms if group is None else group.offsets_kept_since_ms(offset.commit_timestamp_ms)
    return since_ms is not None and now_ms - since_ms >= retention_ms
