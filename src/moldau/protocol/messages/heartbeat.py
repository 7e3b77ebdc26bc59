"""◇ Heartbeat: the request and its response."""

from moldau.protocol.wire import Request, Response, int16, int32, message, string


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request["HeartbeatResponse"]):
    """Stay in a group of the classic protocol.  Sent by its members to the group coordinator."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="0+", default=None)


@message(response_to=HeartbeatRequest)
class HeartbeatResponse(Response):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16(default=0)
