"""◇ DeleteShareGroupState: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct, uuid


@struct
class PartitionData:
    partition: int = int32()


@struct
class DeleteStateData:
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    """Delete the persisted state of share partitions.  Sent by group coordinators to share coordinators."""

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class DeleteStateResult:
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(response_to=DeleteShareGroupStateRequest, echoes=("topics.partitions -> results.partitions",))
class DeleteShareGroupStateResponse(Response):
    results: list[DeleteStateResult] = array(DeleteStateResult)
