"""◇ ShareAcknowledge: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int8, int16, int32, int64, message, nested, string, struct, uuid


@struct
class AcknowledgementBatch:
    first_offset: int = int64(about="Inclusive.")
    last_offset: int = int64(about="Inclusive.")
    acknowledge_types: list[int] = array(int8, about="0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all, or one an offset.")


@struct
class AcknowledgePartition:
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class AcknowledgeTopic:
    topic_id: UUID = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    """Accept, release, reject or renew records of a share group.  Sent by share consumers to partition leaders.

    Source: KIP-932, 1222.
    """

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(response_to=ShareAcknowledgeRequest)
class ShareAcknowledgeResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
