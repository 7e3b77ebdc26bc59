"""◇ ReadShareGroupState: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, int64, message, string, struct, uuid


@struct
class PartitionData:
    partition: int = int32()
    leader_epoch: int = int32()


@struct
class ReadStateData:
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Request["ReadShareGroupStateResponse"]):
    """Read the persisted state of share partitions.  Sent by partition leaders to share coordinators."""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


@struct
class StateBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@struct
class ReadStateResult:
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(response_to=ReadShareGroupStateRequest, echoes=("topics.partitions -> results.partitions",))
class ReadShareGroupStateResponse(Response):
    results: list[ReadStateResult] = array(ReadStateResult)
