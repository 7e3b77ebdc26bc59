"""A request that a broker forwards for its clients arrives, and is answered, as if the client had asked the controller."""

import ipaddress
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.header import RequestHeader, decode_response, encode_request
from moldau.protocol.messages.alter_partition import AlterPartitionRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from moldau.protocol.messages.vote import VoteRequest
from moldau.protocol.stored import encode_versioned
from moldau.protocol.wire import Request
from moldau.server.handlers.envelope import envelope
from moldau.server.requests.dispatch import Api, Client, RequestContext
from moldau.types import joined

PRINCIPAL = encode_versioned(DefaultPrincipalData(type="User", name="ada", token_authenticated=False), 0)
ADDRESS = ipaddress.ip_address("10.0.0.7").packed
VERSION = 7


class Seen:
    """A controller that notes who asked."""

    def __init__(self, answer: Any) -> None:
        self.contexts: list[RequestContext] = []
        self._answer = answer

    def handle(self, services: Any, context: RequestContext, request: Any) -> Any:
        self.contexts.append(context)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


async def send(
    inner: Request[Any], version: int, answer: Any = None, *, data: bytes | None = None, **fields: bytes
) -> tuple[EnvelopeResponse, Seen]:
    seen = Seen(answer)
    apis = {request.API_KEY: Api(request, seen.handle) for request in (CreateTopicsRequest, AlterPartitionRequest)}
    services: Any = SimpleNamespace(apis={"CONTROLLER": apis})
    header = RequestHeader(EnvelopeRequest.API_KEY, 0, 1, "broker-2")
    context = RequestContext(header, Client(listener="CONTROLLER", host="10.0.0.2", port=5), 0)
    frame = joined(encode_request(inner, version=version, correlation_id=9, client_id="a-client"))[4:]
    request = EnvelopeRequest(
        **{"request_data": frame if data is None else data, "request_principal": PRINCIPAL, "client_host_address": ADDRESS, **fields}
    )
    return await envelope(services, context, request), seen


def create() -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[])


async def test_the_answer_inside_is_that_of_the_handler() -> None:
    response, seen = await send(create(), VERSION, CreateTopicsResponse(throttle_time_ms=5, topics=[]))
    assert response.error_code == ErrorCode.NONE and response.response_data is not None
    number, inner = decode_response(CreateTopicsRequest, VERSION, memoryview(response.response_data))
    assert (number, inner.throttle_time_ms) == (9, 5)
    (context,) = seen.contexts
    assert (context.client.principal, context.client.host, context.header.client_id) == ("User:ada", "10.0.0.7", "a-client")


async def test_a_controller_that_is_not_active_says_so_outside() -> None:
    response, _ = await send(create(), VERSION, KafkaError(ErrorCode.NOT_CONTROLLER))
    assert (response.error_code, response.response_data) == (ErrorCode.NOT_CONTROLLER, None)


async def test_another_error_is_an_answer_of_the_request_inside() -> None:
    response, _ = await send(create(), VERSION, KafkaError(ErrorCode.POLICY_VIOLATION))
    assert response.error_code == ErrorCode.NONE and response.response_data is not None


@pytest.mark.parametrize(
    ("inner", "version", "fields"),
    [
        pytest.param(AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=[]), 3, {}, id="what only brokers ask"),
        pytest.param(VoteRequest(cluster_id=None, topics=[]), 0, {}, id="what is not served"),
        pytest.param(create(), VERSION, {"data": b"\0\x13"}, id="half a header"),
        pytest.param(create(), VERSION, {"request_principal": b"\0\0\x7f"}, id="no principal"),
        pytest.param(create(), VERSION, {"client_host_address": b"abc"}, id="no address"),
    ],
)
async def test_what_is_not_to_be_forwarded_is_refused(inner: Request[Any], version: int, fields: dict[str, bytes]) -> None:
    with pytest.raises(KafkaError) as caught:
        await send(inner, version, **fields)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
