"""◇ ShareGroupDescribe: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, message, nested, string, struct, uuid


@message(api_key=77, versions="1", flexible="0+", most_elements=50_000)
class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    """Describe share groups.  Sent by admin tools to their coordinator.  Source: KIP-932."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


@struct
class TopicPartitions:
    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@struct
class Member:
    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: Assignment = nested(Assignment)


@struct
class DescribedGroup:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


@message(response_to=ShareGroupDescribeRequest, echoes=("group_ids -> groups",))
class ShareGroupDescribeResponse(Response):
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribedGroup] = array(DescribedGroup)
