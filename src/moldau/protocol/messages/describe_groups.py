"""◇ DescribeGroups: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, bytes_, int16, int32, message, string, struct


@message(api_key=15, versions="0-6", flexible="5+", most_elements=50_000)
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """Describe groups of the classic protocol.  Sent by admin tools to their coordinator.  Source: KIP-1043."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+", default=False)


@struct
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="0+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytes_()
    member_assignment: bytes = bytes_()


@struct
class DescribedGroup:
    error_code: int = int16(default=0)
    error_message: str | None = string("6+", nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


@message(response_to=DescribeGroupsRequest, echoes=("groups -> groups",))
class DescribeGroupsResponse(Response):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
