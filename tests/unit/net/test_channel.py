"""Correlation as pure bytes, and the channel against a broker made of the server's side of `net`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel, ChannelClosed, RequestTimedOut
from moldau.net.connection import Connection, Reply, ReplyOrLater
from moldau.net.correlation import Correlation, CorrelationError
from moldau.net.later import Later
from moldau.net.listener import Listener
from moldau.net.sockets import SystemNetwork
from moldau.protocol.compiler import encode_bytes
from moldau.protocol.header import decode_request_header, encode_response
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.messages.produce import ProduceRequest
from moldau.protocol.wire import Response

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=ApiVersionsRequest.API_KEY, min_version=0, max_version=3),
        ApiVersion(api_key=InitProducerIdRequest.API_KEY, min_version=0, max_version=2),
        ApiVersion(api_key=ProduceRequest.API_KEY, min_version=3, max_version=9),
    ]
)
REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)


def frame_of(response: Response, version: int, correlation_id: int) -> memoryview:
    return memoryview(b"".join(map(bytes, encode_response(response, version=version, correlation_id=correlation_id))))[4:]  # type: ignore[arg-type]


def answer_of(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0)


def test_a_response_is_the_oldest_requests() -> None:
    correlation = Correlation("c")
    first, _ = correlation.request(REQUEST, 2)
    second, _ = correlation.request(REQUEST, 0)
    assert correlation.response(frame_of(answer_of(7), 2, first)) == (first, answer_of(7))
    assert correlation.response(frame_of(answer_of(8), 0, second)) == (second, answer_of(8))
    assert correlation.in_flight == 0


def test_a_response_to_another_request_is_refused() -> None:
    correlation = Correlation("c")
    first, _ = correlation.request(REQUEST, 2)
    second, _ = correlation.request(REQUEST, 2)
    with pytest.raises(CorrelationError, match=f"not the one of InitProducerIdRequest {first}"):
        correlation.response(frame_of(answer_of(1), 2, second))


def test_a_response_nobody_asked_for_is_refused() -> None:
    with pytest.raises(CorrelationError):
        Correlation("c").response(memoryview(bytes(8)))


def test_a_response_that_cannot_be_read_is_refused() -> None:
    correlation = Correlation("c")
    number, _ = correlation.request(REQUEST, 2)
    with pytest.raises(CorrelationError, match="cannot be read"):
        correlation.response(memoryview(number.to_bytes(4, "big") + b"\0"))


def test_no_response_is_expected_without_acks() -> None:
    correlation = Correlation("c")
    silent, _ = correlation.request(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), 9)
    asked, _ = correlation.request(REQUEST, 2)
    assert correlation.in_flight == 1 and asked != silent
    assert correlation.response(frame_of(answer_of(7), 2, asked)) == (asked, answer_of(7))


def test_the_newest_version_of_both_sides_is_taken() -> None:
    correlation = Correlation("c")
    assert correlation.version_of(InitProducerIdRequest) == InitProducerIdRequest.VERSIONS[-1]
    correlation.agree(VERSIONS)
    assert correlation.version_of(InitProducerIdRequest) == 2


@pytest.mark.parametrize("served", [{}, {InitProducerIdRequest.API_KEY: (99, 100)}])
def test_a_request_without_a_common_version_is_refused(served: dict[int, tuple[int, int]]) -> None:
    correlation = Correlation("c")
    correlation.peer_versions = {ApiVersionsRequest.API_KEY: (0, 4), **served}
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
        correlation.version_of(InitProducerIdRequest)


def test_numbers_start_again_after_the_last() -> None:
    correlation = Correlation("c")
    correlation._next_id = (1 << 31) - 1
    assert [correlation.request(REQUEST, 2)[0] for _ in range(2)] == [(1 << 31) - 1, 0]


class Broker:
    """A broker that knows ApiVersions up to 3 and InitProducerId, and notes what came."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.answer: Callable[[int], ReplyOrLater] = lambda correlation_id: encode_response(
            answer_of(41), version=2, correlation_id=correlation_id
        )

    def dispatch(self, connection: Connection, frame: memoryview) -> ReplyOrLater:
        header, _ = decode_request_header(frame)
        self.seen.append((header.api_key, header.api_version))
        if header.api_key == ProduceRequest.API_KEY:
            return None
        if header.api_key != ApiVersionsRequest.API_KEY:
            return self.answer(header.correlation_id)
        if header.api_version > 3:
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=VERSIONS.api_keys[:1])
            body = encode_bytes(refusal, 0)
            return [(4 + len(body)).to_bytes(4, "big") + header.correlation_id.to_bytes(4, "big") + body]
        return encode_response(VERSIONS, version=header.api_version, correlation_id=header.correlation_id)


@asynccontextmanager
async def connected(**options: float) -> AsyncIterator[tuple[Broker, Channel]]:
    broker = Broker()
    listener = Listener(SystemNetwork(), broker.dispatch)
    await listener.start("127.0.0.1", 0)
    channel = await Channel.connect(SystemNetwork(), "127.0.0.1", listener.port, **options)  # type: ignore[arg-type]
    try:
        yield broker, channel
    finally:
        channel.abort()
        await listener.stop(grace_s=0.1)


async def test_versions_are_agreed_on_with_an_older_broker() -> None:
    async with connected() as (broker, channel):
        assert broker.seen == [(ApiVersionsRequest.API_KEY, 4), (ApiVersionsRequest.API_KEY, 3)]
        response = await channel.send(REQUEST)
        assert response.producer_id == 41
        assert broker.seen[-1] == (InitProducerIdRequest.API_KEY, 2)


async def test_many_at_a_time_get_their_own() -> None:
    async with connected() as (broker, channel):
        numbers = iter(range(100))

        async def answer(correlation_id: int) -> Reply:
            number = next(numbers)
            for _ in range(number % 3):
                await asyncio.sleep(0)
            return encode_response(answer_of(number), version=2, correlation_id=correlation_id)

        broker.answer = answer
        responses = await asyncio.gather(*[channel.send(REQUEST) for _ in range(20)])
        assert [response.producer_id for response in responses] == list(range(20))


async def test_no_answer_in_time_ends_the_connection_for_all_in_flight() -> None:
    async with connected() as (broker, channel):
        broker.answer = lambda correlation_id: Later(lambda: None)
        results = await asyncio.gather(channel.send(REQUEST, timeout_s=0.01), channel.send(REQUEST), return_exceptions=True)
        assert [type(result) for result in results] == [RequestTimedOut, RequestTimedOut]
        with pytest.raises(ChannelClosed, match=r"did not answer InitProducerIdRequest in 0\.01 s"):
            await channel.send(REQUEST)


async def test_a_broker_that_goes_fails_all_in_flight_and_tells() -> None:
    async with connected() as (broker, channel):
        ended = []
        channel.on_closed = ended.append

        def vanish(correlation_id: int) -> Reply:
            raise RuntimeError("a bug")

        broker.answer = vanish
        results = await asyncio.gather(*[channel.send(REQUEST) for _ in range(3)], return_exceptions=True)
        assert [type(result) for result in results] == [ChannelClosed] * 3
        assert (ended, channel.is_closed) == ([channel], True)


async def test_a_cancelled_caller_does_not_disturb_the_others() -> None:
    async with connected() as (_, channel):
        impatient = asyncio.ensure_future(channel.send(REQUEST))
        patient = asyncio.ensure_future(channel.send(REQUEST))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).producer_id == 41
        assert (await channel.send(REQUEST)).producer_id == 41


async def test_who_is_told_may_fail_or_close_the_channel() -> None:
    async with connected() as (_, channel):
        told: list[object] = []
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

        def close(answer: object) -> None:
            told.append(answer)
            channel.close()

        channel.ask(REQUEST, lambda _: told.append(1 // 0))
        channel.ask(REQUEST, told.append)
        channel.ask(REQUEST, close)
        channel.ask(REQUEST, told.append)
        with pytest.raises(ChannelClosed, match="closed here"):
            await channel.send(REQUEST)
        assert [type(one) for one in failures] == [ZeroDivisionError]
        assert [type(one) for one in told] == [InitProducerIdResponse, InitProducerIdResponse, ChannelClosed]


async def test_garbage_from_the_broker_ends_the_connection() -> None:
    async with connected() as (broker, channel):
        broker.answer = lambda correlation_id: [b"\0\0\0\4\x7f\0\0\0"]
        with pytest.raises(ChannelClosed, match="not the one of InitProducerIdRequest"):
            await channel.send(REQUEST)


async def test_post_does_not_wait() -> None:
    async with connected() as (broker, channel):
        channel.post(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]))
        await channel.send(REQUEST)
        assert (ProduceRequest.API_KEY, 9) in broker.seen
