"""A share consumer around one broker on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.clients.producer import Producer
from moldau.clients.share import Acknowledge, ShareConsumer
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from moldau.protocol.messages.share_fetch import ShareFetchRequest
from moldau.types import TopicPartition
from proof.clients.broker_room import BOOTSTRAP, RoomWorld
from proof.clients.model import Verdict

EARLIEST = {"share.auto.offset.reset": "earliest"}


def sharing(work: Callable[[RoomWorld, ShareConsumer], Awaitable[None]], **options: Any) -> None:
    world = RoomWorld(7, share_group=EARLIEST)

    async def client() -> None:
        async with ShareConsumer(BOOTSTRAP, "g", ["orders"], network=world.network, **options) as consumer:
            await work(world, consumer)

    async def run() -> None:
        await world.start(world.machine("client"), client())
        world.room.coordinators.close()

    world.run(run(), within_s=120)


async def send(world: RoomWorld, *values: bytes) -> None:
    async with Producer(BOOTSTRAP, network=world.network, clock=world.clock) as producer:
        for value in values:
            await producer.send("orders", value, partition=0)


def test_a_long_poll_goes_on_fetching() -> None:
    async def work(world: RoomWorld, consumer: ShareConsumer) -> None:
        await consumer.poll(wait_s=5)
        loop = asyncio.get_running_loop()
        polling = loop.create_task(consumer.poll(wait_s=60))
        await asyncio.sleep(3)
        began = loop.time()
        await send(world, b"v")
        assert [shared.record.value for shared in await polling] == [b"v"]
        assert loop.time() - began < 2

    sharing(work, fetch_max_wait_ms=500)


def test_a_poll_goes_on_after_connections_that_break() -> None:
    async def work(world: RoomWorld, consumer: ShareConsumer) -> None:
        await send(world, b"v")
        verdicts = iter([Verdict(drop_before=True)] * 3)
        world.rules.append(lambda key: next(verdicts, None) if key == ShareFetchRequest.API_KEY else None)
        assert [shared.record.value for shared in await consumer.poll(wait_s=60)] == [b"v"]

    sharing(work)


def test_a_callback_that_raises_costs_no_record() -> None:
    told: list[ErrorCode] = []

    def on_acknowledged(one: TopicPartition, offsets: list[int], code: ErrorCode) -> None:
        told.append(code)
        raise RuntimeError("on purpose")

    async def work(world: RoomWorld, consumer: ShareConsumer) -> None:
        await send(world, b"1")
        (first,) = await consumer.poll(wait_s=60)
        consumer.acknowledge(first, Acknowledge.ACCEPT)
        await consumer.commit()
        await send(world, b"2")
        (second,) = await consumer.poll(wait_s=60)
        consumer.acknowledge(second, Acknowledge.ACCEPT)
        await send(world, b"3")
        (third,) = await consumer.poll(wait_s=60)
        assert third.record.value == b"3"
        assert told == [ErrorCode.NONE] * 2

    sharing(work, on_acknowledged=on_acknowledged, share_acknowledgement_mode="explicit")


def test_acknowledgements_of_a_broken_connection_are_told() -> None:
    told: list[tuple[list[int], ErrorCode]] = []

    async def work(world: RoomWorld, consumer: ShareConsumer) -> None:
        await send(world, b"1")
        (first,) = await consumer.poll(wait_s=60)
        consumer.acknowledge(first, Acknowledge.ACCEPT)
        world.network.reset("broker")
        while not told:
            for shared in await consumer.poll(wait_s=1):
                consumer.acknowledge(shared, Acknowledge.ACCEPT)
            try:
                await consumer.commit()
            except (OSError, KafkaError):
                await asyncio.sleep(0.1)

    sharing(work, on_acknowledged=lambda one, offsets, code: told.append((offsets, code)), share_acknowledgement_mode="explicit")
    assert told[0][0] == [0]


def test_a_renewal_that_could_not_be_sent_ends_with_the_acknowledgement() -> None:
    """Sent later, its answer would be taken for that of the acknowledgement."""
    told: list[ErrorCode] = []

    async def work(world: RoomWorld, consumer: ShareConsumer) -> None:
        await send(world, b"1")
        (first,) = await consumer.poll(wait_s=60)
        world.rules.append(lambda key: Verdict(drop_before=True) if key == ShareAcknowledgeRequest.API_KEY else None)
        consumer.acknowledge(first, Acknowledge.RENEW)
        with pytest.raises(OSError, match="broke"):
            await consumer.commit()
        world.rules.clear()
        await consumer.poll(wait_s=1)
        consumer.acknowledge(first, Acknowledge.ACCEPT)
        await consumer.poll(wait_s=1)
        await consumer.commit()

    sharing(work, on_acknowledged=lambda one, offsets, code: told.append(code), share_acknowledgement_mode="explicit")
    assert told == [ErrorCode.NONE]


def test_a_share_consumer_that_is_closed_stays_closed() -> None:
    async def work(world: RoomWorld, consumer: ShareConsumer) -> None:
        polling = asyncio.get_running_loop().create_task(consumer.poll(wait_s=1000))
        await asyncio.sleep(3)
        await consumer.close()
        with pytest.raises(KafkaError, match="closed"):
            await polling
        with pytest.raises(KafkaError, match="closed"):
            await consumer.poll()
        assert asyncio.get_running_loop().time() < 30

    sharing(work, fetch_max_wait_ms=500)


def test_what_a_poll_returned_to_nobody_comes_again_and_is_not_accepted() -> None:
    async def work(world: RoomWorld, consumer: ShareConsumer) -> None:
        await send(world, b"1", b"2")
        taken = await consumer.poll(wait_s=60)
        while len(taken) < 2:
            taken += await consumer.poll(wait_s=60)
        consumer.acknowledge(taken[0], Acknowledge.ACCEPT)
        consumer.take_back(taken)
        again = await consumer.poll(wait_s=60)
        assert [(shared.record.value, shared.delivery_count) for shared in again] == [(b"2", 1)]

    sharing(work, share_acknowledgement_mode="explicit")
