"""◇ JoinGroup: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, bytes_, int16, int32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = bytes_()


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request["JoinGroupResponse"]):
    """Join a group of the classic protocol; the reply waits until the generation is complete.  Sent to the group coordinator.

    Source: KIP-559, 800.
    """

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True, about="-1 means the session timeout.")
    member_id: str = string(about="Empty at the first attempt.")
    group_instance_id: str | None = string("5+", nullable="0+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="0+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="0+", default=None, ignorable=True)
    metadata: bytes = bytes_()


@message(response_to=JoinGroupRequest)
class JoinGroupResponse(Response):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    error_code: int = int16(default=0)
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
