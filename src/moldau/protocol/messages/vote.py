"""◇ Vote: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, int64, message, string, struct, uint16, uuid
from moldau.types import ZERO_UUID


@struct
class VoteRequestPartitionData:
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: UUID = uuid("1+", default=ZERO_UUID, ignorable=True)
    voter_directory_id: UUID = uuid("1+", default=ZERO_UUID, ignorable=True)
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean("2+", default=False)


@struct
class VoteRequestTopicData:
    topic_name: str = string()
    partitions: list[VoteRequestPartitionData] = array(VoteRequestPartitionData)


@message(api_key=52, versions="0-2", flexible="0+", listeners=("controller",))
class VoteRequest(Request["VoteResponse"]):
    """Ask for a vote, or (pre-vote) whether one would be given.  Sent by KRaft candidates and prospective ones.  Source: KIP-853."""

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopicData] = array(VoteRequestTopicData)


@struct
class VoteResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


@struct
class VoteResponseTopicData:
    topic_name: str = string()
    partitions: list[VoteResponsePartitionData] = array(VoteResponsePartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(response_to=VoteRequest)
class VoteResponse(Response):
    error_code: int = int16(default=0)
    topics: list[VoteResponseTopicData] = array(VoteResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, default=[])
