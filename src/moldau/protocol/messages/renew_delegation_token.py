"""◇ RenewDelegationToken: the request and its response."""

from moldau.protocol.wire import Request, Response, bytes_, int16, int32, int64, message


@message(api_key=39, versions="1-2", flexible="2+", listeners=("broker", "controller"))
class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"]):
    """Extend a delegation token's life.  Sent by its owner or renewers."""

    hmac: bytes = bytes_()
    renew_period_ms: int = int64()


@message(response_to=RenewDelegationTokenRequest)
class RenewDelegationTokenResponse(Response):
    error_code: int = int16(default=0)
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)
