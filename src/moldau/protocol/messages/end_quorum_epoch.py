"""◇ EndQuorumEpoch: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct, uint16, uuid


@struct
class ReplicaInfo:
    candidate_id: int = int32()
    candidate_directory_id: UUID = uuid()


@struct
class EndQuorumEpochRequestPartitionData:
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0", default=[], ignorable=True)
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+", default=[], ignorable=True)


@struct
class EndQuorumEpochRequestTopicData:
    topic_name: str = string()
    partitions: list[EndQuorumEpochRequestPartitionData] = array(EndQuorumEpochRequestPartitionData)


@struct
class LeaderEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=54, versions="0-1", flexible="1+", listeners=("controller",))
class EndQuorumEpochRequest(Request["EndQuorumEpochResponse"]):
    """Resign as KRaft leader and name its preferred successors.  Sent by that leader to the voters.  Source: KIP-853."""

    cluster_id: str | None = string(nullable="0+", default=None)
    topics: list[EndQuorumEpochRequestTopicData] = array(EndQuorumEpochRequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", default=[], ignorable=True)


@struct
class EndQuorumEpochResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class EndQuorumEpochResponseTopicData:
    topic_name: str = string()
    partitions: list[EndQuorumEpochResponsePartitionData] = array(EndQuorumEpochResponsePartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(response_to=EndQuorumEpochRequest)
class EndQuorumEpochResponse(Response):
    error_code: int = int16(default=0)
    topics: list[EndQuorumEpochResponseTopicData] = array(EndQuorumEpochResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, default=[])
