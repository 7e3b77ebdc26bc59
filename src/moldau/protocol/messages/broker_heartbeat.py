"""◇ BrokerHeartbeat: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, int64, message, uuid


@message(api_key=63, versions="0-2", flexible="0+", listeners=("controller",))
class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"]):
    """Prove that a broker lives, and ask to be unfenced or to shut down.  Sent by brokers to the active controller."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64(about="The broker has applied the metadata log up to here, inclusive.")
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[UUID] = array(uuid, "1+", tag=0, default=[])
    cordoned_log_dirs: list[UUID] | None = array(uuid, "2+", nullable="0+", tag=1, default=None)


@message(response_to=BrokerHeartbeatRequest)
class BrokerHeartbeatResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    is_caught_up: bool = boolean(default=False)
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()
