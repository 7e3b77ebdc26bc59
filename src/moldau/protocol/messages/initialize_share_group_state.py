"""◇ InitializeShareGroupState: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, int64, message, string, struct, uuid


@struct
class PartitionData:
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


@struct
class InitializeStateData:
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    """Begin the persisted state of share partitions.  Sent by group coordinators to share coordinators."""

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class InitializeStateResult:
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(response_to=InitializeShareGroupStateRequest, echoes=("topics.partitions -> results.partitions",))
class InitializeShareGroupStateResponse(Response):
    results: list[InitializeStateResult] = array(InitializeStateResult)
