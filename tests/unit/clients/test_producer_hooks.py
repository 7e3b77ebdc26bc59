"""A producer whose partitioner, interceptor or provider of tokens raises goes on, and every delivery ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.clients.admin import Admin
from moldau.clients.consumer import Consumer
from moldau.clients.errors import AuthenticationError, ClientError, ClusterUnreachable
from moldau.clients.producer import Producer, RecordMetadata
from moldau.clients.producer.outgoing import OutgoingRecord
from moldau.errors import ErrorCode
from moldau.net.sasl import OAuthBearer
from moldau.protocol.messages.produce import ProduceRequest
from proof.clients.model import Seen, Verdict, World


class OnPurpose(Exception):
    pass


def a_world(*, partitions: int = 2) -> World:
    world = World()
    world.cluster.create("t", partitions)
    world.cluster.create("u", partitions)
    return world


def fails_for(bad: bytes, place: Callable[[int], Any]) -> Callable[[str, bytes | None, bytes | None, int], Any]:
    def partitioner(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> Any:
        return place(partition_count) if value == bad else 0

    return partitioner


def refuses(partition_count: int) -> int:
    raise OnPurpose


@pytest.mark.parametrize(
    "place", [refuses, lambda count: count, lambda count: -1, lambda count: "0"], ids=["raises", "above", "below", "text"]
)
def test_a_partitioner_that_fails_costs_only_its_record(place: Callable[[int], Any]) -> None:
    """Once before the topic is known, and once after."""
    world = a_world()

    async def run() -> list[bool]:
        async with Producer(
            world.bootstrap, network=world.network, clock=world.clock, partitioner=fails_for(b"bad", place), max_block_ms=5000
        ) as producer:
            early = producer.send("t", b"bad")
            later = producer.send("t", b"1")
            with pytest.raises(ClientError, match="partitioner") as first:
                await early
            await later
            with pytest.raises(ClientError, match="partitioner"):
                producer.send("t", b"bad")
            with pytest.raises(ClientError, match="partitioner"):
                await producer.send_many("t", [b"0", b"bad"])
            await producer.send("t", b"2")
            return [isinstance(first.value.__cause__, OnPurpose), asyncio.get_running_loop().time() < 1]

    assert world.run(run(), within_s=60) == [place is refuses, True]
    assert world.cluster.partition("t", 0).values == [b"1", b"2"]


class Watching:
    """Marks each record, and notes how it ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[RecordMetadata | None, str, Any]] = []

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        topic = "u" if record.value == b"move" else record.topic
        return record._replace(topic=topic, headers=[("n", record.value)])

    def on_acknowledgement(self, where: RecordMetadata | None, error: Exception | None, headers: Any) -> None:
        self.ended.append((where, type(error).__name__, headers[0][1]))


class Raising:
    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        raise OnPurpose

    def on_acknowledgement(self, where: object, error: object) -> None:
        raise OnPurpose


def test_interceptors_see_each_record_of_many() -> None:
    world, watching = a_world(partitions=1), Watching()

    async def run() -> tuple[int, list[tuple[Any, str, int, int]]]:
        async with Producer(
            world.bootstrap, network=world.network, clock=world.clock, interceptors=[Raising(), watching], key_serializer=str.encode
        ) as producer:
            sent = await producer.send_many("t", [b"1", b"move", b"2"], keys=["a", "b", "c"], timestamps_ms=[7, 8, 9])
            await sent
            return sent.record_count, sorted((list(one.numbers), one.topic, one.partition, one.base_offset) for one in sent.written)

    assert world.run(run(), within_s=60) == (3, [([0], "t", 0, 0), ([1], "u", 0, 0), ([2], "t", 0, 1)])
    assert world.cluster.partition("t", 0).values == [b"1", b"2"]
    assert sorted(watching.ended, key=lambda one: one[2]) == [
        (RecordMetadata("t", 0, 0, 7), "NoneType", b"1"),
        (RecordMetadata("t", 0, 1, 9), "NoneType", b"2"),
        (RecordMetadata("u", 0, 0, 8), "NoneType", b"move"),
    ]


def test_interceptors_hear_the_end_of_each_record_of_many_that_fail() -> None:
    """The first batch is refused, and the last record is too large for any."""
    world, watching = a_world(partitions=1), Watching()

    def refuse(seen: Seen) -> Verdict | None:
        return Verdict(answer=seen.request.refused(ErrorCode.INVALID_RECORD)) if isinstance(seen.request, ProduceRequest) else None

    async def run() -> None:
        world.cluster.rules.append(refuse)
        async with Producer(
            world.bootstrap, network=world.network, clock=world.clock, interceptors=[watching], max_request_size=1000, batch_size=100
        ) as producer:
            with pytest.raises(ClientError, match=r"max\.request\.size"):
                await producer.send_many("t", [b"1", b"2", bytes(2000)])

    world.run(run(), within_s=60)
    assert [(where, error) for where, error, _ in watching.ended] == [(None, "ClientError")] * 3
    assert sorted(len(value) for _, _, value in watching.ended) == [1, 1, 2000]


def no_token() -> str:
    raise OnPurpose


async def never() -> str:
    await asyncio.get_running_loop().create_future()
    return ""


@pytest.mark.parametrize("kind", ["producer", "consumer", "admin"])
def test_a_provider_of_tokens_that_raises_is_heard(kind: str) -> None:
    world = a_world()

    sasl = OAuthBearer(no_token)

    async def use() -> None:
        if kind == "producer":
            async with Producer(world.bootstrap, network=world.network, clock=world.clock, sasl=sasl) as producer:
                await producer.send("t", b"v")
        elif kind == "consumer":
            async with Consumer(
                world.bootstrap, network=world.network, clock=world.clock, sasl=sasl, group_id="g", topics=["t"]
            ) as consumer:
                await consumer.poll(30)
        else:
            async with Admin(world.bootstrap, network=world.network, sasl=sasl) as admin:
                await admin.topics.list()

    async def run() -> None:
        with pytest.raises(AuthenticationError, match="OnPurpose") as raised:
            await use()
        assert asyncio.get_running_loop().time() < 5
        assert isinstance(raised.value.__cause__, OnPurpose)

    world.run(run(), within_s=120)


def test_a_provider_that_never_returns_holds_a_record_up_for_max_block_ms() -> None:
    world = a_world()

    async def run() -> float:
        options = {"max_block_ms": 5000, "socket_connection_setup_timeout_ms": 2000}
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, sasl=OAuthBearer(never), **options) as producer:
            with pytest.raises(ClusterUnreachable):
                await producer.send("t", b"v")
            return asyncio.get_running_loop().time()

    assert world.run(run(), within_s=60) < 6


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": None},
        {"topic": 5},
        {"topic": "\ud800"},
        {"partition": "0"},
        {"timestamp_ms": 1.5},
        {"timestamp_ms": -1},
        {"timestamp_ms": 1 << 63},
        {"headers": [(b"name", b"1")]},
        {"headers": [("name", 1)]},
        {"headers": [("\ud800", b"1")]},
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_record_that_cannot_be_written_is_refused_at_once_and_harms_no_other(wrong: dict[str, Any], is_known: bool) -> None:
    """Not with the batch, which would take its neighbours with it."""
    world = a_world(partitions=1)

    async def run() -> None:
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, linger_ms=50, max_block_ms=3000) as producer:
            if is_known:
                await producer.send("t", b"0")
            before = producer.send("t", b"1", key=b"k")
            with pytest.raises((TypeError, ValueError)):
                producer.send(**{"topic": "t", "value": b"bad", **wrong})
            after = producer.send("t", b"2", key=b"k")
            await before
            await after
            await producer.send("u", b"3")
            columns = {"headers": "headers", "timestamp_ms": "timestamps_ms"}
            many = {columns[name]: [value] for name, value in wrong.items() if name in columns}
            if many:
                with pytest.raises((TypeError, ValueError)):
                    await producer.send_many("t", [b"bad"], **many)

    world.run(run(), within_s=60)
    assert world.cluster.partition("t", 0).values[-2:] == [b"1", b"2"]
