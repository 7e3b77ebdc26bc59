"""A transaction's block that is cancelled or fails leaves a producer that can begin the next one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from moldau.clients.errors import AbortableError, RetriableError
from moldau.clients.producer import Producer
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.types import TopicPartition
from proof.clients.broker_room import BOOTSTRAP, RoomWorld
from proof.clients.model import Verdict
from proof.transactions.schedules.verdict import visible_in

HERE = TopicPartition("orders", 0)
Work = Callable[[Producer], Awaitable[None]]


class OnPurpose(Exception):
    pass


def committed(world: RoomWorld, work: Work, **options: Any) -> list[int]:
    """The values that readers of committed records see in the end, once nothing is open."""

    async def client() -> None:
        async with Producer(BOOTSTRAP, network=world.network, clock=world.clock, transactional_id="one", **options) as producer:
            await work(producer)

    async def run() -> list[int]:
        await world.start(world.machine("client"), client())
        log = world.room.partition(HERE).log
        assert log.last_stable_offset == log.log_end_offset
        world.room.coordinators.close()
        return [value for _, value in visible_in(log)]

    return world.run(run(), within_s=30)


def answer_late(world: RoomWorld, request: type[Any], delay_s: float) -> None:
    """Answer the first such request late."""
    verdicts = iter([Verdict(delay_s=delay_s)])
    world.rules.append(lambda key: next(verdicts, None) if key == request.API_KEY else None)


@pytest.fixture(params=[1, 2])
def world(request: pytest.FixtureRequest) -> RoomWorld:
    return RoomWorld(7, transaction_version=request.param)


async def send(producer: Producer, value: bytes) -> None:
    await producer.send(HERE.topic, value, partition=HERE.partition)


async def give_up(producer: Producer) -> None:
    async with producer.transaction():
        await send(producer, b"\x01")
        raise OnPurpose


def test_a_commit_that_is_cancelled_on_its_way_is_finished(world: RoomWorld) -> None:
    async def work(producer: Producer) -> None:
        answer_late(world, EndTxnRequest, 1.5)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0), producer.transaction():
                await send(producer, b"\x01")
        async with producer.transaction():
            await send(producer, b"\x02")

    assert committed(world, work) == [1, 2]


def test_an_abort_that_is_cancelled_is_finished_before_the_next_transaction(world: RoomWorld) -> None:
    async def work(producer: Producer) -> None:
        answer_late(world, EndTxnRequest, 1.5)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await give_up(producer)
        async with producer.transaction():
            await send(producer, b"\x02")

    assert committed(world, work) == [2]


def test_a_commit_of_unknown_end_is_told_and_can_be_repeated(world: RoomWorld) -> None:
    async def work(producer: Producer) -> None:
        answer_late(world, EndTxnRequest, 1.5)
        with pytest.raises(RetriableError):
            async with producer.transaction():
                await send(producer, b"\x01")
        await producer.commit_transaction()
        async with producer.transaction():
            await send(producer, b"\x02")

    assert committed(world, work, max_block_ms=1000) == [1, 2]


def test_an_abort_that_failed_keeps_the_blocks_own_error_and_is_repeated_by_the_next_begin(world: RoomWorld) -> None:
    async def work(producer: Producer) -> None:
        answer_late(world, EndTxnRequest, 1.5)
        with pytest.raises(OnPurpose):
            await give_up(producer)
        async with producer.transaction():
            await send(producer, b"\x02")

    assert committed(world, work, max_block_ms=1000) == [2]


def test_a_producer_that_is_closed_aborts_what_is_open(world: RoomWorld) -> None:
    async def work(producer: Producer) -> None:
        await producer.begin_transaction()
        await send(producer, b"\x01")

    assert committed(world, work) == []


@pytest.mark.parametrize("topic", ["no-such-topic", HERE.topic])
def test_a_record_that_never_got_a_place_keeps_its_transaction_from_being_committed(world: RoomWorld, topic: str) -> None:
    """The topic is not there, or there is no partition of that number.  A delivery that is awaited then fails at once."""

    async def two_records(producer: Producer) -> None:
        async with producer.transaction():
            producer.send(topic, b"\x09", partition=99)
            await send(producer, b"\x01")

    async def work(producer: Producer) -> None:
        with pytest.raises(AbortableError):
            await two_records(producer)
        async with producer.transaction():
            await send(producer, b"\x02")

    assert committed(world, work, max_block_ms=1000) == [2]


def test_a_record_whose_delivery_is_cancelled_while_it_waits_is_told_to_its_callback(world: RoomWorld) -> None:
    told: list[object] = []

    async def two_records(producer: Producer) -> None:
        async with producer.transaction():
            producer.send(HERE.topic, b"\x01", partition=0, on_delivery=lambda where, error: told.append(error)).cancel()
            await send(producer, b"\x02")

    async def work(producer: Producer) -> None:
        with pytest.raises(AbortableError):
            await two_records(producer)

    assert committed(world, work) == []
    assert len(told) == 1
