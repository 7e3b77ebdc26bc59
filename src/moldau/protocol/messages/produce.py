"""◇ Produce: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, int64, message, nested, records, string, struct, uuid
from moldau.types import ZERO_UUID, Records


@struct
class PartitionProduceData:
    index: int = int32()
    records: Records | None = records(nullable="0+")


@struct
class TopicProduceData:
    name: str = string("0-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(api_key=0, versions="3-13", flexible="9+", most_elements=20_000)  # all of them are appended in one turn of the loop
class ProduceRequest(Request["ProduceResponse"]):
    """Append record batches to partition leaders.  Sent by producers.  Source: KIP-110, 467, 516, 890, 951."""

    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16(about="-1 all in-sync replicas, 1 the leader, 0 no reply.")
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@struct
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16(default=0)
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", default=[], ignorable=True)
    error_message: str | None = string("8+", nullable="0+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "10+", tag=0, default=LeaderIdAndEpoch())


@struct
class TopicProduceResponse:
    name: str = string("0-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(response_to=ProduceRequest, echoes=("topic_data.partition_data -> responses.partition_responses",))
class ProduceResponse(Response):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(default=0)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0, default=[])
