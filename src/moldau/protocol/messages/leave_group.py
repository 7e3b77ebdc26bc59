"""◇ LeaveGroup: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct


@struct
class MemberIdentity:
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    reason: str | None = string("5+", nullable="0+", default=None, ignorable=True)


@message(api_key=13, versions="0-5", flexible="4+", most_elements=20_000)
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """Leave a group of the classic protocol, or remove members from it.  Sent by members and admin tools.  Source: KIP-800."""

    group_id: str = string()
    member_id: str = string("0-2", default="")
    members: list[MemberIdentity] = array(MemberIdentity, "3+", default=[])


@struct
class MemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16(default=0)


@message(response_to=LeaveGroupRequest)
class LeaveGroupResponse(Response):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16(default=0)
    members: list[MemberResponse] = array(MemberResponse, "3+", default=[])
