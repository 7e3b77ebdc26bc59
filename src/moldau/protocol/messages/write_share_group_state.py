"""◇ WriteShareGroupState: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, int64, message, string, struct, uuid


@struct
class StateBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@struct
class PartitionData:
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch)


@struct
class WriteStateData:
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"]):
    """Persist the state of share partitions.  Sent by partition leaders to share coordinators.  Source: KIP-932, 1226."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class WriteStateResult:
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(response_to=WriteShareGroupStateRequest, echoes=("topics.partitions -> results.partitions",))
class WriteShareGroupStateResponse(Response):
    results: list[WriteStateResult] = array(WriteStateResult)
