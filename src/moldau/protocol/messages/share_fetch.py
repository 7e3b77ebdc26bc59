"""◇ ShareFetch: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import (
    Request,
    Response,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    records,
    string,
    struct,
    uuid,
)
from moldau.types import Records


@struct
class AcknowledgementBatch:
    first_offset: int = int64(about="Inclusive.")
    last_offset: int = int64(about="Inclusive.")
    acknowledge_types: list[int] = array(int8, about="0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all, or one an offset.")


@struct
class FetchPartition:
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class FetchTopic:
    topic_id: UUID = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchRequest(Request["ShareFetchResponse"]):
    """Acquire records of a share group, and acknowledge earlier ones.  Sent by share consumers to partition leaders.

    Source: KIP-932, 1206, 1222.
    """

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+", default=0, ignorable=True)
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class AcquiredRecords:
    first_offset: int = int64(about="Inclusive.")
    last_offset: int = int64(about="Inclusive.")
    delivery_count: int = int16()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch)
    records: Records = records()
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


@struct
class ShareFetchableTopicResponse:
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(response_to=ShareFetchRequest)
class ShareFetchResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
