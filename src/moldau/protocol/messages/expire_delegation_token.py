"""◇ ExpireDelegationToken: the request and its response."""

from moldau.protocol.wire import Request, Response, bytes_, int16, int32, int64, message


@message(api_key=40, versions="1-2", flexible="2+", listeners=("broker", "controller"))
class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    """Change when a delegation token expires, or end it at once.  Sent by its owner or renewers."""

    hmac: bytes = bytes_()
    expiry_time_period_ms: int = int64(about="Negative ends it at once.")


@message(response_to=ExpireDelegationTokenRequest)
class ExpireDelegationTokenResponse(Response):
    error_code: int = int16(default=0)
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)
