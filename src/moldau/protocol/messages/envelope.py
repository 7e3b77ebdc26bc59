"""◇ Envelope: the request and its response."""

from moldau.protocol.wire import Request, Response, StoredRecord, boolean, bytes_, int16, message, record, string


@record(versions="0", flexible="0+")
class DefaultPrincipalData(StoredRecord):
    """The sender of the enveloped request, as the default principal builder writes it."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


@message(api_key=58, versions="0", flexible="0+", listeners=("controller",))
class EnvelopeRequest(Request["EnvelopeResponse"]):
    """Carry another request, with the principal and address of its sender.  Sent by brokers that forward to the active controller."""

    request_data: bytes = bytes_()
    request_principal: bytes | None = bytes_(nullable="0+")
    client_host_address: bytes = bytes_()


@message(response_to=EnvelopeRequest)
class EnvelopeResponse(Response):
    response_data: bytes | None = bytes_(nullable="0+", default=None)
    error_code: int = int16(default=0)
