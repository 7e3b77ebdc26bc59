"""Clients that are closed twice, under a dead broker, or while another task waits: nothing is left behind, nothing waits for ever."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from moldau.clients.admin.admin import Admin
from moldau.clients.cluster import Cluster
from moldau.clients.consumer import Consumer, RebalanceListener
from moldau.clients.errors import FatalError
from moldau.clients.producer import Producer
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from proof.clients.broker_room import RoomWorld

PROTOCOLS = [{"group_protocol": "consumer"}, {"partition_assignment_strategy": "range"}]


def on_a_machine(work: Callable[[RoomWorld], Coroutine[Any, Any, None]]) -> RoomWorld:
    world = RoomWorld(7)

    async def run() -> None:
        await world.start(world.machine("client"), work(world))
        world.room.coordinators.close()

    world.run(run(), within_s=1000)
    return world


async def joined(world: RoomWorld, **options: Any) -> Consumer:
    consumer = Consumer(world.bootstrap, network=world.network, clock=world.clock, group_id="g", topics=["orders"], **options)
    while not consumer.assignment:
        await consumer.poll(1)
    return consumer


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["consumer", "classic"])
def test_a_poll_that_waits_ends_when_its_consumer_is_closed(protocol: dict[str, Any]) -> None:
    async def work(world: RoomWorld) -> None:
        consumer = await joined(world, **protocol)
        polling = asyncio.get_running_loop().create_task(consumer.poll(900))
        await asyncio.sleep(3)
        began = asyncio.get_running_loop().time()
        await consumer.close()
        with pytest.raises(KafkaError, match="closed"):
            await polling
        assert asyncio.get_running_loop().time() - began < 5
        await consumer.close()

    on_a_machine(work)


class Slow(RebalanceListener):
    def __init__(self) -> None:
        self.is_called = asyncio.Event()

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.is_called.set()
        await asyncio.sleep(20)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["consumer", "classic"])
def test_a_close_that_is_cancelled_leaves_no_member_behind(protocol: dict[str, Any]) -> None:
    """It waits for a listener.  The next member has all partitions long before a silent member leaves, after max.poll.interval.ms."""

    async def work(world: RoomWorld) -> None:
        loop, listener = asyncio.get_running_loop(), Slow()
        given: dict[str, Any] = {"group_id": "g", "topics": ["orders"], "session_timeout_ms": 6000, **protocol}
        consumer = Consumer(world.bootstrap, network=world.network, clock=world.clock, listener=listener, **given)
        polling = loop.create_task(consumer.poll(900))
        await listener.is_called.wait()
        polling.cancel()
        closing = loop.create_task(consumer.close())
        await asyncio.sleep(1)
        closing.cancel()
        await asyncio.wait([polling, closing])
        began = loop.time()
        other = await joined(world, **protocol)
        while len(other.assignment) < 2:
            await other.poll(1)
        assert loop.time() - began < 60
        await other.close()

    on_a_machine(work)


@pytest.mark.parametrize("turns", range(1, 12, 2))
def test_a_producer_whose_close_is_cancelled_ends_every_delivery(turns: int) -> None:
    async def work(world: RoomWorld) -> None:
        producer = Producer(world.bootstrap, network=world.network, clock=world.clock)
        await producer.send("orders", b"1", partition=0)
        world.network.cut(world.hosts[1], "client-1")
        delivery = producer.send("orders", b"2", partition=0)
        closing = asyncio.get_running_loop().create_task(producer.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert delivery.exception() is not None
        await producer.close(timeout_ms=1000)
        assert delivery.done()
        with pytest.raises(KafkaError, match="closed"):
            producer.send("orders", b"3", partition=0)
        world.network.heal()

    on_a_machine(work)


def test_an_admin_that_is_closed_opens_no_connection() -> None:
    async def work(world: RoomWorld) -> None:
        admin = Admin(world.bootstrap, network=world.network)
        assert await admin.topics.list()
        before = admin.metrics()
        assert before["admin.client.connection.count"] == before["admin.client.connection.creation.total"] == 1
        assert before["admin.client.request.total"] >= 1
        await admin.close()
        for call in (admin.topics.list, admin.describe_cluster, lambda: admin.groups.describe("g")):
            with pytest.raises(FatalError, match="the admin client is closed"):
                await call()
        assert admin.metrics() == {**before, "admin.client.connection.count": 0}
        await admin.close()

    on_a_machine(work)


def test_an_admin_that_is_closed_while_it_connects_leaves_no_connection() -> None:
    async def work(world: RoomWorld) -> None:
        admin = Admin(world.bootstrap, network=world.network)
        asking = asyncio.get_running_loop().create_task(admin.topics.list())
        await asyncio.sleep(0)
        await admin.close()
        with pytest.raises(FatalError, match="the admin client is closed"):
            await asking
        assert admin.metrics()["admin.client.connection.count"] == 0

    on_a_machine(work)


def test_an_admin_on_connections_of_others_leaves_them_open() -> None:
    async def work(world: RoomWorld) -> None:
        async with Cluster.connect(world.bootstrap, network=world.network) as cluster:
            async with Admin(cluster) as admin:
                await admin.topics.list()
            assert cluster.connection_count == 1
            await Admin(cluster).topics.list()
            assert cluster.connection_creations == 1

    on_a_machine(work)
