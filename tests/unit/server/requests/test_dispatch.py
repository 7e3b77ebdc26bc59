import asyncio
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.net.transport import Address
from moldau.protocol.compiler import encode_bytes
from moldau.protocol.header import decode_response, encode_request
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.server.handlers.init_producer_id import init_producer_id
from moldau.server.handlers.produce import produce
from moldau.server.requests.dispatch import Api, ConnectionClosed, Dispatcher, Handler, RequestContext
from moldau.storage.files import SystemFiles
from moldau.storage.log import Log
from moldau.types import TopicPartition


class FakeConnection:
    """A connection with as much as dispatch looks at."""

    session: Any = None
    listener_name = "PLAINTEXT"
    number = 1
    peer = Address("10.0.0.9", 4711)


def frame(request: Any, version: int) -> memoryview:
    return memoryview(b"".join(map(bytes, encode_request(request, version=version, correlation_id=77, client_id="me"))))[4:]


def dispatcher(harness: Any, handler: Handler, request: type[Any] = ApiVersionsRequest) -> Dispatcher:
    return Dispatcher(harness.broker, {request.API_KEY: Api(request, handler)})


def answer(parts: Any, request: type[Any], version: int) -> Any:
    return decode_response(request, version, memoryview(b"".join(map(bytes, parts)))[4:])


ASK = ApiVersionsRequest(client_software_name="a", client_software_version="1")


def test_a_handlers_response_is_the_reply(harness: Any) -> None:
    seen: list[RequestContext] = []

    def handler(broker: Any, context: RequestContext, request: Any) -> ApiVersionsResponse:
        seen.append(context)
        assert request == ASK
        return ApiVersionsResponse(api_keys=[], throttle_time_ms=5)

    reply = dispatcher(harness, handler).dispatch(FakeConnection(), frame(ASK, 3))  # type: ignore[arg-type]
    assert answer(reply, ApiVersionsRequest, 3) == (77, ApiVersionsResponse(api_keys=[], throttle_time_ms=5))
    assert (seen[0].version, seen[0].header.client_id, seen[0].client.host) == (3, "me", "10.0.0.9")


def test_no_response_is_no_reply(harness: Any) -> None:
    assert dispatcher(harness, lambda *_: None).dispatch(FakeConnection(), frame(ASK, 3)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "code"),
    [(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), 31), (RuntimeError("a bug"), -1)],
    ids=["refused", "bug"],
)
def test_errors_become_answers(harness: Any, caplog: pytest.LogCaptureFixture, error: Exception, code: int) -> None:
    def handler(*_: Any) -> Any:
        raise error

    reply = dispatcher(harness, handler).dispatch(FakeConnection(), frame(ASK, 3))  # type: ignore[arg-type]
    assert answer(reply, ApiVersionsRequest, 3)[1].error_code == code
    assert ("a bug" in caplog.text) is (code == -1)  # a stack trace for bugs, none for refusals


def test_a_text_that_is_too_long_for_an_answer_is_shortened(harness: Any) -> None:
    """The text quotes a name that is as long as a name can be, and the rest of the answer still arrives."""
    group = DescribedGroup(
        error_code=69, error_message="x" * 40_000, group_id="g", group_state="", protocol_type="", protocol_data="", members=[]
    )
    found = DescribeGroupsResponse(groups=[group])
    asked = DescribeGroupsRequest(groups=["g"])
    reply = dispatcher(harness, lambda *_: found, DescribeGroupsRequest).dispatch(FakeConnection(), frame(asked, 6))  # type: ignore[arg-type]
    (told,) = answer(reply, DescribeGroupsRequest, 6)[1].groups
    assert (told.error_code, told.error_message[:3]) == (69, "xxx") and len(told.error_message) < 3_000


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), RuntimeError("a bug")])
def test_what_has_no_reply_is_not_answered_when_it_fails_either(harness: Any, error: Exception) -> None:
    def handler(*_: Any) -> Any:
        raise error

    deaf = ProduceRequest(acks=0, timeout_ms=0, topic_data=[])
    with pytest.raises(ConnectionClosed):
        dispatcher(harness, handler, ProduceRequest).dispatch(FakeConnection(), frame(deaf, 9))  # type: ignore[arg-type]


async def test_errors_of_coroutines_become_answers(harness: Any) -> None:
    async def handler(*_: Any) -> Any:
        await asyncio.sleep(0)
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    reply: Any = dispatcher(harness, handler).dispatch(FakeConnection(), frame(ASK, 3))  # type: ignore[arg-type]
    assert answer(await reply, ApiVersionsRequest, 3)[1].error_code == ErrorCode.NOT_CONTROLLER


def test_a_later_answer_is_a_later_reply(harness: Any) -> None:
    later: Later[ApiVersionsResponse] = Later(lambda: None)
    reply: Any = dispatcher(harness, lambda *_: later).dispatch(FakeConnection(), frame(ASK, 3))  # type: ignore[arg-type]
    came: list[Any] = []
    reply.then(came.append, came.append)
    assert not came
    later.complete(ApiVersionsResponse(api_keys=[]))
    assert answer(came[0], ApiVersionsRequest, 3)[0] == 77


@pytest.mark.parametrize(("error", "code"), [(KafkaError(ErrorCode.NOT_COORDINATOR), 16), (RuntimeError("a bug"), -1)])
def test_a_later_answer_that_fails_becomes_an_answer(harness: Any, caplog: pytest.LogCaptureFixture, error: Exception, code: int) -> None:
    later: Later[ApiVersionsResponse] = Later(lambda: None)
    reply: Any = dispatcher(harness, lambda *_: later).dispatch(FakeConnection(), frame(ASK, 3))  # type: ignore[arg-type]
    came: list[Any] = []
    reply.then(came.append, came.append)
    later.fail(error)
    assert answer(came[0], ApiVersionsRequest, 3)[1].error_code == code
    assert ("a bug" in caplog.text) is (code == -1)


def test_an_answer_that_nobody_wants_any_more_is_given_up(harness: Any) -> None:
    abandoned: list[bool] = []
    later: Later[ApiVersionsResponse] = Later(lambda: abandoned.append(True))
    reply: Any = dispatcher(harness, lambda *_: later).dispatch(FakeConnection(), frame(ASK, 3))  # type: ignore[arg-type]
    reply.abandon()
    assert abandoned == [True]
    later.complete(ApiVersionsResponse(api_keys=[]))  # this is too late, and does no harm


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(harness: Any, version: int) -> None:
    unknown = memoryview(b"\0\x12" + version.to_bytes(2, "big") + b"\0\0\0\x4d\xff\xff\0" + b"whatever")
    reply = dispatcher(harness, lambda *_: None).dispatch(FakeConnection(), unknown)  # type: ignore[arg-type]
    correlation_id, response = answer(reply, ApiVersionsRequest, 0)
    assert correlation_id == 77
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(known.api_key, known.min_version, known.max_version) for known in response.api_keys] == [(18, 0, 4)]


def test_other_unknown_versions_and_apis_close_the_connection(harness: Any) -> None:
    serving = dispatcher(harness, produce, ProduceRequest)
    with pytest.raises(ConnectionClosed, match="ProduceRequest version 2 is not served, only 3-13"):
        serving.dispatch(FakeConnection(), memoryview(b"\0\0\0\2\0\0\0\x4d\xff\xff"))  # type: ignore[arg-type]
    with pytest.raises(ConnectionClosed, match="api key 3 is not served"):
        serving.dispatch(FakeConnection(), frame(MetadataRequest(topics=None), 12))  # type: ignore[arg-type]


def test_an_unstable_version_is_not_served(harness: Any) -> None:
    serving = dispatcher(harness, init_producer_id, InitProducerIdRequest)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    with pytest.raises(ConnectionClosed, match="version 6 is not served, only 0-5"):
        serving.dispatch(FakeConnection(), frame(request, 6))  # type: ignore[arg-type]


async def test_producer_ids_are_given_out_one_by_one(harness: Any) -> None:
    serving = dispatcher(harness, init_producer_id, InitProducerIdRequest)
    ask = frame(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 5)
    first: Any = serving.dispatch(FakeConnection(), ask)  # type: ignore[arg-type]
    second: Any = serving.dispatch(FakeConnection(), ask)  # type: ignore[arg-type]
    given = [answer(await reply, InitProducerIdRequest, 5)[1] for reply in (first, second)]
    assert given == [InitProducerIdResponse(producer_id=each, producer_epoch=0) for each in (4000, 4001)]
    third = serving.dispatch(FakeConnection(), ask)  # type: ignore[arg-type]
    assert answer(third, InitProducerIdRequest, 5)[1].producer_id == 4002  # the answer comes at once, since the block of ids is there


@pytest.mark.parametrize("cut", [1, 9, 20])
def test_unreadable_bytes_close_the_connection(harness: Any, cut: int) -> None:
    serving = dispatcher(harness, produce, ProduceRequest)
    whole = frame(ProduceRequest(acks=1, timeout_ms=5, topic_data=[]), 9)
    with pytest.raises(ConnectionClosed, match="unreadable request"):
        serving.dispatch(FakeConnection(), whole[: len(whole) - cut])  # type: ignore[arg-type]


def test_produce_allocates_nothing(harness_with: Callable[..., Any], batch_of: Callable[..., memoryview], tmp_path: Path) -> None:
    harness = harness_with(message_max_bytes=str(32 << 20))
    name = TopicPartition("t", 0)
    harness.cluster.known.add(name)
    log = Log.open(SystemFiles(), str(tmp_path / "t-0"), name, harness.broker.config.log, now_ms=0, topic_id=UUID(int=9))
    partition = harness.broker.replicas.host(name, UUID(int=9), log)
    partition.lead(leader_epoch=1, partition_epoch=1, replicas=(1,), isr=(1,), eligible={1: 1}, now_ms=0)
    serving = dispatcher(harness, produce, ProduceRequest)
    connection: Any = FakeConnection()

    def ask(size: int) -> memoryview:
        data = [PartitionProduceData(index=0, records=batch_of(bytes(size)))]
        request = ProduceRequest(acks=1, timeout_ms=5, topic_data=[TopicProduceData(name="t", partition_data=data)])
        return memoryview(bytearray(b"\0\0\0\x09\0\0\0\x4d\xff\xff\0" + encode_bytes(request, 9)))

    serving.dispatch(connection, ask(100))  # codecs are made on first use
    big = ask(16 << 20)
    tracemalloc.start()
    try:
        reply = serving.dispatch(connection, big)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer(reply, ProduceRequest, 9)[1].responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert log.size > 16 << 20
    assert peak < 64 << 10, f"{peak} bytes for a produce of 16 MiB"
