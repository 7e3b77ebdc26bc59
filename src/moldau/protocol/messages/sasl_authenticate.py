"""◇ SaslAuthenticate: the request and its response."""

from moldau.protocol.wire import Request, Response, bytes_, int16, int64, message, string


@message(api_key=36, versions="0-2", flexible="2+", listeners=("broker", "controller"))
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    """Carry one step of a SASL exchange.  Sent by clients and brokers after SaslHandshake."""

    auth_bytes: bytes = bytes_()


@message(response_to=SaslAuthenticateRequest)
class SaslAuthenticateResponse(Response):
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64("1+", default=0, ignorable=True)
