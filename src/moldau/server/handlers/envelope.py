"""● Envelope: a request of a client, forwarded by the broker that the client asked (KIP-590).

Versions       0.
Authorises     CLUSTER_ACTION on the cluster; the request inside is authorised by the client's own principal.
Behaviour      The request inside is handled as if it had come here, and its response goes back inside the answer.
Errors         NOT_CONTROLLER (this controller is not active: the broker finds the one that is), INVALID_REQUEST (an API that is not to
               be forwarded, an unreadable request, address or principal).
Differs from Kafka: nothing known.
"""

import ipaddress
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.compiler import request_decoder
from moldau.protocol.header import decode_request_header, encode_response
from moldau.protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from moldau.protocol.stored import decode_versioned
from moldau.protocol.wire import DecodeError, Response
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import Api, Client, RequestContext, refusal_of, served_versions
from moldau.server.requests.registry import handles
from moldau.types import joined

FRAME_LENGTH: Final = 4


@handles(EnvelopeRequest)
async def envelope(services: Services, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    try:
        header, body = decode_request_header(memoryview(request.request_data))
        api = _forwardable(services, context, header.api_key, header.api_version)
        inner = request_decoder(api.request, header.api_version)(body)
        client = _client(context, request)
    except (DecodeError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
    inside = RequestContext(header, client, context.now_ms)
    try:
        answer = api.handle(services, inside, inner)
        assert not isinstance(answer, Later), "a forwarded request has an answer"
        response = answer if isinstance(answer, Response) or answer is None else await answer
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=error.code)
        response = refusal_of(error, inside, inner)
    except Exception as error:
        response = refusal_of(error, inside, inner)
    assert response is not None, f"{type(inner).__name__} has an answer"
    frame = joined(encode_response(response, version=header.api_version, correlation_id=header.correlation_id))
    return EnvelopeResponse(response_data=frame[FRAME_LENGTH:])


def _forwardable(services: Services, context: RequestContext, api_key: int, version: int) -> Api:
    """Check that a request may be forwarded.  Errors: KafkaError."""
    api = services.apis[context.client.listener].get(api_key)
    if api is None or "broker" not in api.request.LISTENERS or version not in served_versions(api.request):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"version {version} of api key {api_key} is not to be forwarded")
    return api


def _client(context: RequestContext, request: EnvelopeRequest) -> Client:
    """The client that sent the request inside.  Errors: DecodeError, ValueError."""
    principal = decode_versioned(DefaultPrincipalData, request.request_principal or b"")
    host = str(ipaddress.ip_address(request.client_host_address))
    return Client(listener=context.client.listener, host=host, port=context.client.port, principal=f"{principal.type}:{principal.name}")
