"""◇ FetchSnapshot: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, int64, message, nested, records, string, struct, uint16, uuid
from moldau.types import ZERO_UUID, Records


@struct
class SnapshotId:
    end_offset: int = int64()
    epoch: int = int32()


@struct
class FetchSnapshotRequestPartitionSnapshot:
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = nested(SnapshotId)
    position: int = int64()
    replica_directory_id: UUID = uuid("1+", tag=0, default=ZERO_UUID, ignorable=True)


@struct
class FetchSnapshotRequestTopicSnapshot:
    name: str = string()
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = array(FetchSnapshotRequestPartitionSnapshot)


@message(api_key=59, versions="0-1", flexible="0+", listeners=("controller",))
class FetchSnapshotRequest(Request["FetchSnapshotResponse"]):
    """Read a piece of a metadata snapshot.  Sent by KRaft replicas that are behind the log's start.  Source: KIP-853."""

    cluster_id: str | None = string(nullable="0+", tag=0, default=None)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=0x7FFFFFFF)
    topics: list[FetchSnapshotRequestTopicSnapshot] = array(FetchSnapshotRequestTopicSnapshot)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=0)


@struct
class FetchSnapshotResponsePartitionSnapshot:
    index: int = int32()
    error_code: int = int16(default=0)
    snapshot_id: SnapshotId = nested(SnapshotId)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, tag=0, default=LeaderIdAndEpoch())
    size: int = int64()
    position: int = int64()
    unaligned_records: Records = records()


@struct
class FetchSnapshotResponseTopicSnapshot:
    name: str = string()
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = array(FetchSnapshotResponsePartitionSnapshot)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(response_to=FetchSnapshotRequest)
class FetchSnapshotResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    topics: list[FetchSnapshotResponseTopicSnapshot] = array(FetchSnapshotResponseTopicSnapshot)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, default=[])
