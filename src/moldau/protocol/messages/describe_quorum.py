"""◇ DescribeQuorum: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, int64, message, string, struct, uint16, uuid
from moldau.types import ZERO_UUID


@struct
class DescribeQuorumRequestPartitionData:
    partition_index: int = int32()


@struct
class DescribeQuorumRequestTopicData:
    topic_name: str = string()
    partitions: list[DescribeQuorumRequestPartitionData] = array(DescribeQuorumRequestPartitionData)


@message(api_key=55, versions="0-2", flexible="0+", listeners=("broker", "controller"))
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    """Ask for the KRaft quorum's leader, voters and observers, and how far each is.  Sent by admin tools.  Source: KIP-836, 853."""

    topics: list[DescribeQuorumRequestTopicData] = array(DescribeQuorumRequestTopicData)


@struct
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: UUID = uuid("2+", default=ZERO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


@struct
class DescribeQuorumResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string("2+", nullable="0+", default=None, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64(about="Exclusive.")
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@struct
class DescribeQuorumResponseTopicData:
    topic_name: str = string()
    partitions: list[DescribeQuorumResponsePartitionData] = array(DescribeQuorumResponsePartitionData)


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class Node:
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


@message(response_to=DescribeQuorumRequest)
class DescribeQuorumResponse(Response):
    error_code: int = int16(default=0)
    error_message: str | None = string("2+", nullable="0+", default=None, ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData)
    nodes: list[Node] = array(Node, "2+", default=[])
