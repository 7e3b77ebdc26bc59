"""◇ SaslHandshake: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int16, message, string


@message(api_key=17, versions="0-1", listeners=("broker", "controller"))
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    """Choose the SASL mechanism of this connection.  Never flexible, as it comes before versions are known."""

    mechanism: str = string()


@message(response_to=SaslHandshakeRequest)
class SaslHandshakeResponse(Response):
    error_code: int = int16(default=0)
    mechanisms: list[str] = array(string)
