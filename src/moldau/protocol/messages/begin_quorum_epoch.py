"""◇ BeginQuorumEpoch: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct, uint16, uuid
from moldau.types import ZERO_UUID


@struct
class BeginQuorumEpochRequestPartitionData:
    partition_index: int = int32()
    voter_directory_id: UUID = uuid("1+", default=ZERO_UUID, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class BeginQuorumEpochRequestTopicData:
    topic_name: str = string()
    partitions: list[BeginQuorumEpochRequestPartitionData] = array(BeginQuorumEpochRequestPartitionData)


@struct
class LeaderEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=53, versions="0-1", flexible="1+", listeners=("controller",))
class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"]):
    """Announce a new KRaft leader to the voters.  Sent by that leader.  Source: KIP-853."""

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData] = array(BeginQuorumEpochRequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", default=[], ignorable=True)


@struct
class BeginQuorumEpochResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class BeginQuorumEpochResponseTopicData:
    topic_name: str = string()
    partitions: list[BeginQuorumEpochResponsePartitionData] = array(BeginQuorumEpochResponsePartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(response_to=BeginQuorumEpochRequest)
class BeginQuorumEpochResponse(Response):
    error_code: int = int16(default=0)
    topics: list[BeginQuorumEpochResponseTopicData] = array(BeginQuorumEpochResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, default=[])
