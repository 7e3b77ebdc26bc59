"""Addresses, channels opened once, and retries that end."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from moldau import Admin, Consumer, NewTopic, Producer, ShareConsumer
from moldau.clients.cluster import Cluster, Unreachable, parse_bootstrap, retrying
from moldau.clients.controllers import SERVED
from moldau.clients.errors import FatalError
from moldau.clients.options import OptionError
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from moldau.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from moldau.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from moldau.protocol.wire import Request


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("h:1", [("h", 1)]),
        ("h", [("h", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9", [("::1", 9)]),
        ("[::1]", [("::1", 9092)]),
        ("a:1,,b:2,", [("a", 1), ("b", 2)]),
        ("PLAINTEXT://h:1,SASL_SSL://[::1]:9", [("h", 1), ("::1", 9)]),
    ],
)
def test_bootstrap(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", "h:", "h:x", ":9", "h:0", "h:65536", ",", "http://"])
def test_bad_bootstrap(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an address|no address"):
        parse_bootstrap(text)


class FakeChannel:
    is_closed = False
    retire_at = float("inf")

    def close(self) -> None:
        self.is_closed = True


async def test_the_first_address_that_answers_is_taken_once() -> None:
    tried: list[int] = []

    async def connect(host: str, port: int) -> Any:
        tried.append(port)
        if port == 1:
            raise ConnectionRefusedError(111, "Connection refused")
        return FakeChannel()

    async with Cluster([("h", 1), ("h", 2)], connect) as cluster:
        channels = await asyncio.gather(cluster.any_channel(), cluster.any_channel())
        assert channels[0] is channels[1]
        assert await cluster.any_channel() is channels[0]
    assert tried.count(2) == 1
    assert channels[0].is_closed


class FakeController(FakeChannel):
    """A node of a cluster of three controllers, of which 3 is down.  Node 1 hears late of a change of the active one."""

    active = 2

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.believes = [2, 1]

    def version_of(self, request: type[Request[Any]]) -> int:
        return request.VERSIONS[-1]

    async def send(self, request: Any, version: int | None = None, *, timeout_s: float) -> Any:
        if isinstance(request, DescribeClusterRequest):
            assert request.endpoint_type == 2
            brokers = [DescribeClusterBroker(broker_id=number, host="h", port=number) for number in (1, 2, 3)]
            active = self.active if self.active == 2 else self.believes.pop(0)
            return DescribeClusterResponse(cluster_id="c", endpoint_type=2, controller_id=active, brokers=brokers)
        assert isinstance(request, IncrementalAlterConfigsRequest)
        code = ErrorCode.NONE if self.node_id == self.active else ErrorCode.NOT_CONTROLLER
        answer = AlterConfigsResourceResponse(error_code=code, error_message=None, resource_type=4, resource_name=str(self.node_id))
        return IncrementalAlterConfigsResponse(responses=[answer])


async def connect_to_controllers(host: str, port: int) -> Any:
    if port == 3:
        raise ConnectionRefusedError(111, "Connection refused")
    return FakeController(port)


def at_controllers(*ports: int) -> Cluster:
    return Cluster([("h", port) for port in ports], connect_to_controllers, is_at_controllers=True)


async def test_among_controllers_the_active_one_is_asked_and_each_is_found_by_its_number() -> None:
    change = IncrementalAlterConfigsRequest(resources=[], validate_only=False)
    async with at_controllers(3, 1) as cluster:
        assert (await cluster.send(change)).responses[0].resource_name == "2"
        assert (await cluster.send(change, node_id=1)).responses[0].error_code == ErrorCode.NOT_CONTROLLER
        with pytest.raises(Unreachable, match="controller 3 at h:3: connection refused"):
            await cluster.channel_to(3)
        with pytest.raises(Unreachable, match="the cluster has no controller 4"):
            await cluster.channel_to(4)


async def test_a_request_goes_to_the_next_active_controller_when_the_last_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    change = IncrementalAlterConfigsRequest(resources=[], validate_only=False)
    async with at_controllers(1) as cluster:
        assert (await cluster.send(change)).responses[0].resource_name == "2"
        monkeypatch.setattr(FakeController, "active", 1)
        assert (await cluster.send(change)).responses[0].resource_name == "1"


async def test_controllers_are_not_asked_what_brokers_alone_do() -> None:
    """As Java's Admin: Kafka 4.3.1's calls whose NodeProvider has supportsUseControllers."""
    async with at_controllers(1) as cluster:
        admin = Admin(cluster)
        calls: list[Callable[[], Awaitable[Any]]] = [
            admin.topics.list,
            partial(admin.topics.create, [NewTopic("t", 1)]),
            admin.tokens.describe,
            admin.groups.list_groups,
        ]
        for call in calls:
            with pytest.raises(KafkaError, match="directly with the controller quorum") as raised:
                await call()
            assert raised.value.code is ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    assert [REQUESTS[key].__name__.removesuffix("Request") for key in SERVED] == list(SERVED.values())


@pytest.mark.parametrize(
    ("servers", "options"),
    [
        ("h:1", {"bootstrap_controllers": "h:2"}),
        (None, {"bootstrap.servers": "h:1", "bootstrap.controllers": "h:2"}),
        (None, {"bootstrap.servers": ["h:1"], "bootstrap-controllers": ["h:2"]}),
    ],
)
async def test_brokers_and_controllers_cannot_both_be_given(servers: str | None, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"you cannot set both bootstrap\.servers and bootstrap\.controllers"):
        Admin(servers, options)


async def test_an_admin_of_controllers_names_its_option() -> None:
    admin = Admin(options={"bootstrap.controllers": "h:2,h:3"})
    assert admin.cluster.bootstrap == "h:2,h:3" and admin.cluster.is_at_controllers
    with pytest.raises(OptionError, match=r"bootstrap\.controllers: 'h:x' is not an address"):
        Admin(bootstrap_controllers="h:x")
    assert not Admin("h:1", {"bootstrap.controllers": None}).cluster.is_at_controllers


async def test_unreachable_names_every_address_and_why() -> None:
    async def connect(host: str, port: int) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(Unreachable, match="h:1: connection refused; g:2: connection refused"):
        await Cluster([("h", 1), ("g", 2)], connect).any_channel()


async def test_retrying_ends_with_the_last_error_when_time_is_up() -> None:
    async def attempt() -> None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with pytest.raises(KafkaError, match="NOT_LEADER"):
        await retrying(attempt, within_s=0.01)


async def test_retrying_leaves_an_attempt_its_own_time_out() -> None:
    failures: list[Exception] = [KafkaError(ErrorCode.NOT_COORDINATOR), TimeoutError("no answer")]

    async def attempt() -> None:
        raise failures.pop(0)

    with pytest.raises(TimeoutError, match="no answer"):
        await retrying(attempt)


async def test_retrying_gives_up_at_once_on_what_will_not_change() -> None:
    calls = []

    async def attempt() -> None:
        calls.append(1)
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)

    with pytest.raises(KafkaError):
        await retrying(attempt)
    assert len(calls) == 1


class FakeBroker(FakeChannel):
    """One of two brokers, of which 1 has just died and is still named as the controller."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def version_of(self, request: type[Request[Any]]) -> int:
        return request.VERSIONS[-1]

    async def send(self, request: Any, version: int | None = None, *, timeout_s: float) -> Any:
        self.asked.append(type(request).__name__)
        if isinstance(request, UpdateFeaturesRequest):
            return UpdateFeaturesResponse(error_code=0, results=[])
        brokers = [MetadataResponseBroker(node_id=number, host="h", port=number) for number in (1, 2)]
        return MetadataResponse(
            brokers=brokers, topics=[], cluster_id="c", controller_id=1 if self.asked.count("MetadataRequest") == 1 else 2
        )


async def test_a_controller_that_cannot_be_reached_is_looked_for_again() -> None:
    asked: list[str] = []

    async def connect(host: str, port: int) -> Any:
        if port == 1:
            raise ConnectionRefusedError(111, "Connection refused")
        return FakeBroker(asked)

    async with Cluster([("h", 2)], connect) as cluster:
        await cluster.send_to_controller(UpdateFeaturesRequest(feature_updates=[]), lambda answer: answer.error_code)
    assert asked == ["MetadataRequest", "MetadataRequest", "UpdateFeaturesRequest"]


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """As Windows' ProactorEventLoop, which has no `add_reader`."""

    add_reader = asyncio.AbstractEventLoop.add_reader


@pytest.mark.parametrize(
    "use",
    [
        lambda: Producer("localhost:1").send("orders", b"x"),
        lambda: Consumer("localhost:1", group_id="billing", topics=["orders"]).poll(60),
        lambda: ShareConsumer("localhost:1", "printers", ["jobs"]).poll(wait_s=60),
        lambda: Admin("localhost:1").describe_cluster(),
    ],
    ids=["producer", "consumer", "share consumer", "admin"],
)
def test_a_loop_that_cannot_watch_sockets_is_refused_at_once(use: Callable[[], Awaitable[Any]]) -> None:
    async def work() -> None:
        with pytest.raises(FatalError, match=r"LoopWithoutReaders cannot watch sockets.*WindowsSelectorEventLoopPolicy"):
            await use()

    loop = LoopWithoutReaders()
    try:
        loop.run_until_complete(asyncio.wait_for(work(), 30))
    finally:
        loop.close()
