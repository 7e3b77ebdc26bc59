"""◇ SyncGroup: the request and its response."""

from moldau.protocol.wire import Request, Response, array, bytes_, int16, int32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = bytes_()


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request["SyncGroupResponse"]):
    """Hand in (as the group's leader) and receive assignments of the classic protocol.  Sent to the group coordinator.

    Source: KIP-559.
    """

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="0+", default=None)
    protocol_type: str | None = string("5+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="0+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(response_to=SyncGroupRequest)
class SyncGroupResponse(Response):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16(default=0)
    protocol_type: str | None = string("5+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="0+", default=None, ignorable=True)
    assignment: bytes = bytes_()
