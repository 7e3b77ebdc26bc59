"""◇ The records of `__remote_log_metadata`: segments in remote storage and what becomes of them (KIP-405)."""

from uuid import UUID

from moldau.protocol.stored import FramedRecords
from moldau.protocol.wire import StoredRecord, array, boolean, bytes_, int8, int32, int64, nested, record, string, struct, uuid


@struct
class TopicIdPartitionEntry:
    name: str = string()
    id: UUID = uuid()
    partition: int = int32()


@struct
class RemoteLogSegmentIdEntry:
    topic_id_partition: TopicIdPartitionEntry = nested(TopicIdPartitionEntry)
    id: UUID = uuid()


@struct
class SegmentLeaderEpochEntry:
    leader_epoch: int = int32()
    offset: int = int64()


@record(record_type=0, versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord(StoredRecord):
    """A segment was or is being copied to remote storage."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = nested(RemoteLogSegmentIdEntry)
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry)
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = bytes_(nullable="0+", default=None)
    remote_log_segment_state: int = int8()
    txn_index_empty: bool = boolean(tag=0, default=False)


@record(record_type=1, versions="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord(StoredRecord):
    """A remote segment has this state now."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = nested(RemoteLogSegmentIdEntry)
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    custom_metadata: bytes | None = bytes_(nullable="0+", default=None)
    remote_log_segment_state: int = int8()


@record(record_type=2, versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord(StoredRecord):
    """Deleting a partition's remote segments has come this far."""

    topic_id_partition: TopicIdPartitionEntry = nested(TopicIdPartitionEntry)
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    remote_partition_delete_state: int = int8()


@record(record_type=3, versions="0", flexible="0+")
class RemoteLogSegmentMetadataSnapshotRecord(StoredRecord):
    """A remote segment's metadata, in a snapshot of the local cache."""

    segment_id: UUID = uuid()
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry)
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = bytes_(nullable="0+", default=None)
    remote_log_segment_state: int = int8()
    txn_index_empty: bool = boolean(tag=0, default=False)


REMOTE_LOG_RECORDS = FramedRecords(
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
)
