"""The time that a call of the admin client may take, and what is asked again within it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from moldau import Admin, NewTopic, sync
from moldau.clients.admin.topics import TopicAdmin
from moldau.clients.admin.values import ConfigChange, ResourceType
from moldau.clients.cluster import Cluster, NoSuchNode
from moldau.clients.options import OptionError
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopicResult
from moldau.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from moldau.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from moldau.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from moldau.protocol.wire import Request
from moldau.testing.loop import SimLoop
from moldau.types import ZERO_UUID

REFUSED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Broker:
    """A broker whose quota lets one topic through at a time, and refuses the others for `throttle_ms`."""

    is_closed = False
    retire_at = float("inf")

    def __init__(self, throttle_ms: int) -> None:
        self.throttle_ms = throttle_ms
        self.asked: list[Any] = []

    def version_of(self, request: type[Request[Any]]) -> int:
        return request.VERSIONS[-1]

    def close(self) -> None:
        pass

    async def send(self, request: Any, version: int | None = None, *, timeout_s: float) -> Any:
        match request:
            case MetadataRequest():
                return MetadataResponse(
                    brokers=[MetadataResponseBroker(node_id=1, host="h", port=1)], topics=[], cluster_id="c", controller_id=1
                )
            case ListGroupsRequest():
                groups = [ListedGroup(group_id=name, protocol_type=kind) for name, kind in (("a", "consumer"), ("b", "connect"), ("c", ""))]
                return ListGroupsResponse(error_code=0, groups=groups)
            case FindCoordinatorRequest():
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                key = request.coordinator_keys[0]
                found = Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None)
                return FindCoordinatorResponse(coordinators=[found])
        self.asked.append(request)
        match request:
            case IncrementalAlterConfigsRequest():
                changed = [
                    AlterConfigsResourceResponse(
                        error_code=0, error_message=None, resource_type=one.resource_type, resource_name=one.resource_name
                    )
                    for one in request.resources
                ]
                return IncrementalAlterConfigsResponse(responses=changed)
            case CreateTopicsRequest():
                made = [CreatableTopicResult(name=one.name, error_code=code) for one, code in _in_turn(request.topics)]
                return CreateTopicsResponse(throttle_time_ms=self.throttle_ms, topics=made)
            case DeleteTopicsRequest():
                gone = [
                    DeletableTopicResult(name=one.name, topic_id=ZERO_UUID, error_code=code, error_message=None)
                    for one, code in _in_turn(request.topics)
                ]
                return DeleteTopicsResponse(throttle_time_ms=self.throttle_ms, responses=gone)
            case CreatePartitionsRequest():
                code = REFUSED if len(self.asked) < 3 else ErrorCode.NONE
                more = [CreatePartitionsTopicResult(name=request.topics[0].name, error_code=code)]
                return CreatePartitionsResponse(throttle_time_ms=self.throttle_ms, results=more)
        return await asyncio.Event().wait()


def _in_turn(topics: Iterable[Any]) -> list[tuple[Any, int]]:
    return [(one, REFUSED if number else ErrorCode.NONE) for number, one in enumerate(topics)]


def run(broker: Broker, calls: Callable[[Admin], Awaitable[Any]]) -> tuple[Any, float]:
    """What `calls` returns, and the seconds that it took in virtual time."""

    async def connect(host: str, port: int) -> Any:
        return broker

    async def work() -> tuple[Any, float]:
        loop = asyncio.get_running_loop()
        before = loop.time()
        async with Cluster([("h", 1)], connect) as cluster:
            return await calls(Admin(cluster)), loop.time() - before

    loop = SimLoop()
    try:
        return loop.run_until_complete(work())
    finally:
        loop.close()


TOPICS = [NewTopic(name) for name in ("a", "b", "c")]


def test_topics_that_a_quota_refuses_are_asked_for_again_when_the_broker_says() -> None:
    broker = Broker(throttle_ms=2_000)
    answers, took_s = run(broker, lambda admin: admin.topics.create(TOPICS))
    assert not any(isinstance(one, KafkaError) for one in answers.values())
    assert [[one.name for one in each.topics] for each in broker.asked] == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert took_s == pytest.approx(4)


def test_deletions_and_partitions_that_a_quota_refuses_are_asked_for_again() -> None:
    broker = Broker(throttle_ms=0)
    assert run(broker, lambda admin: admin.topics.delete(["a", "b"]))[0] == {"a": None, "b": None}
    broker = Broker(throttle_ms=500)
    assert run(broker, lambda admin: admin.topics.create_partitions("a", 3))[1] == pytest.approx(1)
    assert len(broker.asked) == 3


def test_a_quota_is_an_answer_at_once_where_nothing_is_tried_again() -> None:
    for given in ({"retry_on_quota_violation": False}, {"timeout_ms": 1_000}):
        broker = Broker(throttle_ms=2_000)
        answers, took_s = run(broker, lambda admin, given=given: admin.topics.create(TOPICS, **given))  # type: ignore[misc]
        assert [isinstance(one, KafkaError) and one.code for one in answers.values()] == [False, REFUSED, REFUSED]
        assert (len(broker.asked), took_s) == (1, 0)
    with pytest.raises(KafkaError, match="QUOTA"):
        run(Broker(throttle_ms=60_000), lambda admin: admin.topics.create_partitions("a", 3))


def test_a_call_ends_when_its_time_is_up() -> None:
    async def quorum(admin: Admin) -> ErrorCode:
        with pytest.raises(KafkaError, match=r"within 5 s") as caught:
            await admin.with_timeout(5_000).quorum.describe()
        return caught.value.code

    assert run(Broker(0), quorum) == (ErrorCode.REQUEST_TIMED_OUT, pytest.approx(5))


@pytest.mark.parametrize("limit_s", [5, 300])
def test_a_call_that_is_tried_again_ends_with_the_last_error(limit_s: int) -> None:
    async def describe(admin: Admin) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            await admin.with_timeout(limit_s * 1000).groups.describe("billing")
        return caught.value.code

    assert run(Broker(0), describe) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, pytest.approx(limit_s))


@pytest.mark.parametrize(
    ("limit_ms", "given", "told_ms"), [(5_000, {}, 5_000), (60_000, {}, 30_000), (5_000, {"timeout_ms": 9_000}, 9_000)]
)
def test_the_broker_is_told_how_long_it_may_take(limit_ms: int, given: dict[str, int], told_ms: int) -> None:
    broker = Broker(0)
    run(broker, lambda admin: admin.with_timeout(limit_ms).topics.create(TOPICS[:1], **given))  # type: ignore[arg-type]
    assert broker.asked[0].timeout_ms == told_ms


def test_every_call_of_a_room_has_the_limit() -> None:
    async def check() -> None:
        admin = Admin("localhost:1", options={"default.api.timeout.ms": "1234", "retries": "3"})
        assert (admin.limit_s, admin.groups.limit_s, admin.with_timeout(5).tokens.limit_s) == (1.234, 1.234, 0.005)

    asyncio.run(check())
    assert sync.Admin("localhost:1").with_timeout(5).topics.room.limit_s == 0.005
    assert inspect.signature(TopicAdmin.create).parameters["timeout_ms"].default == 30_000


def test_no_limit_leaves_a_call_without_time() -> None:
    with pytest.raises(OptionError, match="has to be above 0"):
        Admin("localhost:1", default_api_timeout_ms=0)
    with pytest.raises(ValueError, match="no time for a call"):
        Admin("localhost:1").with_timeout(0)


@pytest.mark.parametrize(("wanted", "found"), [((), ["a", "b", "c"]), (("consumer", ""), ["a", "c"]), (("connect",), ["b"])])
def test_groups_of_some_protocol_types(wanted: tuple[str, ...], found: list[str]) -> None:
    answers, _ = run(Broker(0), lambda admin: admin.groups.list_groups(protocol_types=wanted))
    assert [one.group_id for one in answers] == found


def test_configs_of_nodes_change_though_another_is_not_there() -> None:
    broker = Broker(throttle_ms=0)
    changes = {(ResourceType.BROKER, name): [ConfigChange("leader.replication.throttled.rate", None)] for name in ("0", "1")}
    with pytest.raises(NoSuchNode, match="no broker 0"):
        run(broker, lambda admin: admin.configs.alter(changes))
    assert [one.resource_name for each in broker.asked for one in each.resources] == ["1"]
