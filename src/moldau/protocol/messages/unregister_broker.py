"""◇ UnregisterBroker: the request and its response."""

from moldau.protocol.wire import Request, Response, int16, int32, message, string


@message(api_key=64, versions="0", flexible="0+", listeners=("broker", "controller"))
class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    """Forget a broker that will not come back.  Sent by admin tools."""

    broker_id: int = int32()


@message(response_to=UnregisterBrokerRequest)
class UnregisterBrokerResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
