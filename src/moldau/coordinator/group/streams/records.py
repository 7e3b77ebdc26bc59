"""◇ The records of streams groups in `__consumer_offsets`; all others are in `coordinator/group/records.py`."""

from moldau.protocol.wire import StoredRecord, array, int8, int16, int32, int64, nested, record, string, struct, uint16


@record(record_type=17, versions="0")
class StreamsGroupMetadataKey(StoredRecord):
    group_id: str = string()


@struct
class LastAssignmentConfig:
    key: str = string()
    value: str = string()


@record(record_type=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue(StoredRecord):
    """A streams group exists, at this epoch."""

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(LastAssignmentConfig, nullable="0+", tag=1, default=[])


@record(record_type=19, versions="0")
class StreamsGroupMemberMetadataKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@struct
class Endpoint:
    host: str = string()
    port: int = uint16()


@struct
class KeyValue:
    key: str = string()
    value: str = string()


@record(record_type=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(StoredRecord):
    """A member of a streams group: who it is and where others reach it."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


@record(record_type=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey(StoredRecord):
    group_id: str = string()


@record(record_type=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(StoredRecord):
    """The epoch that a streams group's target assignment was made for.  Source: KIP-1263."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


@record(record_type=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@struct
class StreamsGroupTargetAssignmentMemberValueTaskIds:
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@record(record_type=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(StoredRecord):
    """The tasks that a member of a streams group should have."""

    active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(StreamsGroupTargetAssignmentMemberValueTaskIds)
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(StreamsGroupTargetAssignmentMemberValueTaskIds)
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(StreamsGroupTargetAssignmentMemberValueTaskIds)


@record(record_type=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey(StoredRecord):
    group_id: str = string()
    member_id: str = string()


@struct
class StreamsGroupCurrentMemberAssignmentValueTaskIds:
    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0, default=[])


@record(record_type=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(StoredRecord):
    """The tasks that a member of a streams group has, and those it is to give up."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds
    )


@record(record_type=23, versions="0")
class StreamsGroupTopologyKey(StoredRecord):
    group_id: str = string()


@struct
class TopicConfig:
    key: str = string()
    value: str = string()


@struct
class StreamsGroupTopologyValueTopicInfo:
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


@struct
class CopartitionGroup:
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


@struct
class Subtopology:
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[StreamsGroupTopologyValueTopicInfo] = array(StreamsGroupTopologyValueTopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[StreamsGroupTopologyValueTopicInfo] = array(StreamsGroupTopologyValueTopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@record(record_type=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue(StoredRecord):
    """The topology of a streams group: subtopologies with their topics."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)
