"""◇ The records of `__consumer_offsets`: keys and values of classic, consumer and share groups and of offsets.

Those of streams groups are declared in `coordinator/group/streams/records.py`.  `GROUP_RECORDS` is the table of all:
`GROUP_RECORDS.encode_key(key)` and `.encode_value(value, version)` put the type or version in front; `.decode(key, value)` reads both.
"""

from uuid import UUID

from moldau.coordinator.group.streams.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from moldau.protocol.stored import KeyedRecords
from moldau.protocol.wire import StoredRecord, array, bytes_, int8, int32, int64, nested, record, string, struct, uuid
from moldau.types import ZERO_UUID


@record(record_type=0, versions="0")
class LegacyOffsetCommitKey(StoredRecord):
    group: str = string()
    topic: str = string()
    partition: int = int32()


@record(record_type=0, versions="0")
class LegacyOffsetCommitValue(StoredRecord):
    """A committed offset as Kafka before 0.9 wrote it.  It is kept because keys of this type may lie in old logs."""

    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


@record(record_type=1, versions="0")
class OffsetCommitKey(StoredRecord):
    group: str = string()
    topic: str = string()
    partition: int = int32()


@record(record_type=1, versions="0-4", flexible="4+")
class OffsetCommitValue(StoredRecord):
    """A committed offset of a group.  Source: KIP-915."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True, about="-1 unknown.")
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: UUID = uuid("4+", tag=0, default=ZERO_UUID, ignorable=True)


@record(record_type=2, versions="0")
class GroupMetadataKey(StoredRecord):
    group: str = string()


@struct
class MemberMetadata:
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="0+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


@record(record_type=2, versions="0-4", flexible="4+")
class GroupMetadataValue(StoredRecord):
    """A group of the classic protocol: generation, leader, members and their assignments.  Source: KIP-915."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)


@record(record_type=3, versions="0")
class ConsumerGroupMetadataKey(StoredRecord):
    group_id: str = string()


@record(record_type=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue(StoredRecord):
    """A consumer group exists, at this epoch.  Source: KIP-1101."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)


@record(record_type=4, versions="0")
class ConsumerGroupPartitionMetadataKey(StoredRecord):
    group_id: str = string()


@struct
class PartitionMetadata:
    partition: int = int32()
    racks: list[str] = array(string)


@struct
class TopicMetadata:
    topic_id: UUID = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


@record(record_type=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(StoredRecord):
    """Partitions of the topics a group subscribes to.  Only read: hashes in the group's own record took its place.  Source: KIP-1101."""

    topics: list[TopicMetadata] = array(TopicMetadata)


@record(record_type=5, versions="0")
class ConsumerGroupMemberMetadataKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@struct
class ClassicProtocol:
    name: str = string()
    metadata: bytes = bytes_()


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int = int32(default=0)
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, default=[])


@record(record_type=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(StoredRecord):
    """A member of a consumer group: who it is and what it subscribes to."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0, default=ClassicMemberMetadata()
    )


@record(record_type=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey(StoredRecord):
    group_id: str = string()


@record(record_type=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(StoredRecord):
    """The epoch that a consumer group's target assignment was made for.  Source: KIP-1263."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


@record(record_type=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartition:
    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


@record(record_type=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(StoredRecord):
    """The assignment that a member of a consumer group should have."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


@record(record_type=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@struct
class ConsumerGroupCurrentMemberAssignmentValueTopicPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0, default=[])


@record(record_type=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(StoredRecord):
    """The assignment that a member of a consumer group has, and the partitions that it is to give up."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions] = array(
        ConsumerGroupCurrentMemberAssignmentValueTopicPartitions
    )
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions] = array(
        ConsumerGroupCurrentMemberAssignmentValueTopicPartitions
    )


@record(record_type=10, versions="0")
class ShareGroupMemberMetadataKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@record(record_type=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(StoredRecord):
    """A member of a share group: who it is and what it subscribes to."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


@record(record_type=11, versions="0")
class ShareGroupMetadataKey(StoredRecord):
    group_id: str = string()


@record(record_type=11, versions="0", flexible="0+")
class ShareGroupMetadataValue(StoredRecord):
    """A share group exists, at this epoch."""

    epoch: int = int32()
    metadata_hash: int = int64()


@record(record_type=12, versions="0")
class ShareGroupTargetAssignmentMetadataKey(StoredRecord):
    group_id: str = string()


@record(record_type=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(StoredRecord):
    """The epoch that a share group's target assignment was made for.  Source: KIP-1263."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


@record(record_type=13, versions="0")
class ShareGroupTargetAssignmentMemberKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@record(record_type=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(StoredRecord):
    """The assignment that a member of a share group should have."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


@record(record_type=14, versions="0")
class ShareGroupCurrentMemberAssignmentKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@struct
class ShareGroupCurrentMemberAssignmentValueTopicPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


@record(record_type=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(StoredRecord):
    """The assignment that a member of a share group has."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValueTopicPartitions] = array(
        ShareGroupCurrentMemberAssignmentValueTopicPartitions
    )


@record(record_type=15, versions="0")
class ShareGroupStatePartitionMetadataKey(StoredRecord):
    group_id: str = string()


@struct
class TopicPartitionsInfo:
    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class ShareGroupStatePartitionMetadataValueTopicInfo:
    topic_id: UUID = uuid()
    topic_name: str = string()


@record(record_type=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(StoredRecord):
    """The topics of a share group with persisted state: being made, there, or being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[ShareGroupStatePartitionMetadataValueTopicInfo] = array(ShareGroupStatePartitionMetadataValueTopicInfo)


@record(record_type=16, versions="0")
class ConsumerGroupRegularExpressionKey(StoredRecord):
    group_id: str = string()
    regular_expression: str = string()


@record(record_type=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(StoredRecord):
    """The topics that a regular expression matched, and when."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


GROUP_RECORDS = KeyedRecords(
    (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareGroupMetadataKey, ShareGroupMetadataValue),
    (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
