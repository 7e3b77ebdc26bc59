"""◇ CreatePartitions: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, message, string, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = array(int32)


@struct
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


@message(api_key=37, versions="0-3", flexible="2+", listeners=("broker", "controller"))
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """Raise the partition count of topics.  Sent by admin tools.  Source: KIP-599."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(response_to=CreatePartitionsRequest, echoes=("topics -> results",))
class CreatePartitionsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
