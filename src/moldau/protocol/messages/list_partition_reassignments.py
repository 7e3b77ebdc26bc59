"""◇ ListPartitionReassignments: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct


@struct
class ListPartitionReassignmentsTopics:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@message(api_key=46, versions="0", flexible="0+", listeners=("broker", "controller"))
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """List the partitions that are being moved.  Sent by admin tools."""

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(ListPartitionReassignmentsTopics, nullable="0+", default=None)


@struct
class OngoingPartitionReassignment:
    partition_index: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


@struct
class OngoingTopicReassignment:
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(response_to=ListPartitionReassignmentsRequest, echoes=("topics.partition_indexes -> topics.partitions",))
class ListPartitionReassignmentsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
