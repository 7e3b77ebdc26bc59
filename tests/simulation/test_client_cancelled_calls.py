"""Each call of a client is cancelled at each of its awaits; the client must go on or close, and tell each outcome once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import pytest

from moldau.clients.consumer import Consumer
from moldau.clients.errors import AbortableError
from moldau.clients.producer import Producer
from moldau.clients.share import Acknowledge, ShareConsumer, SharedRecord
from moldau.types import TopicPartition
from proof.clients.broker_room import RoomWorld
from proof.clients.cancelling import When, cancelled_at
from proof.transactions.schedules.verdict import visible_in

ONE: Final = TopicPartition("orders", 0)
MOST_AWAITS: Final = 80
RECORDS: Final = 6
MARKERS_TAKE_S: Final = 1.0
PROTOCOLS: Final[list[dict[str, Any]]] = [
    {"group_protocol": "consumer"},
    {"partition_assignment_strategy": "range"},
    {"partition_assignment_strategy": "cooperative-sticky"},
]
Cancel = Callable[[Awaitable[Any]], Awaitable[bool]]
Try = Callable[[RoomWorld, Cancel], Coroutine[Any, Any, None]]
each_moment = pytest.mark.parametrize("when", When)


def at_each_await(try_one: Try, when: When, **options: Any) -> None:
    """Try a call in a world of its own for each of its awaits.  There has to be one."""
    for place in range(1, MOST_AWAITS):
        world = RoomWorld(place, **options)
        came_so_far: list[bool] = []

        async def cancel(call: Awaitable[Any], place: int = place, came_so_far: list[bool] = came_so_far) -> bool:
            came_so_far.append(await cancelled_at(call, place, when))
            return came_so_far[-1]

        async def work(world: RoomWorld = world, cancel: Cancel = cancel) -> None:
            try:
                await world.start(world.machine("client"), try_one(world, cancel))
            finally:
                world.close()

        try:
            world.run(work(), within_s=120)
        except BaseException as error:
            error.add_note(f"cancelled at await {place}, {when.value}")
            raise
        if not came_so_far[-1]:
            assert place > 1
            return
    raise AssertionError("the call has more awaits than are tried")


class Deliveries:
    """Counts what a producer tells of each record."""

    def __init__(self, producer: Producer) -> None:
        self.told: Counter[int] = Counter()
        self._producer = producer
        self._count = 0

    def send(self) -> Any:
        number, self._count = self._count, self._count + 1
        return self._producer.send(ONE.topic, number.to_bytes(8, "big"), partition=ONE.partition, on_delivery=partial(self._tell, number))

    def _tell(self, number: int, *_: object) -> None:
        self.told[number] += 1

    def check(self) -> None:
        assert self.told == dict.fromkeys(range(self._count), 1)


def numbers(world: RoomWorld) -> list[int]:
    return [int.from_bytes(value or b"", "big") for _, value in world.records_of(ONE)]


def a_producer(world: RoomWorld, **options: Any) -> Producer:
    return Producer(world.bootstrap, network=world.network, clock=world.clock, request_timeout_ms=2000, **options)


async def filled(world: RoomWorld) -> None:
    async with a_producer(world) as producer:
        for number in range(RECORDS):
            producer.send(ONE.topic, b"%d" % number, partition=ONE.partition)


@each_moment
def test_a_delivery(when: When) -> None:
    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        async with a_producer(world) as producer:
            deliveries = Deliveries(producer)
            await cancel(deliveries.send())
            await deliveries.send()
        deliveries.check()
        assert numbers(world) in ([0, 1], [1])  # a record that waits for its topic is given up

    at_each_await(try_one, when)


@each_moment
def test_flush(when: When) -> None:
    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        async with a_producer(world, linger_ms=5, batch_size=60) as producer:
            deliveries = Deliveries(producer)
            for _ in range(RECORDS):
                deliveries.send()
            await cancel(producer.flush())
            deliveries.send()
            await producer.flush()
            deliveries.check()
        assert numbers(world) == list(range(RECORDS + 1))

    at_each_await(try_one, when)


@each_moment
def test_the_start_and_the_end_of_a_producer(when: When) -> None:
    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        producer = a_producer(world, linger_ms=5, batch_size=60)
        deliveries = Deliveries(producer)

        async def live() -> None:
            async with producer:
                for _ in range(RECORDS):
                    deliveries.send()

        await cancel(live())
        await producer.close()
        deliveries.check()
        assert numbers(world) == sorted(set(numbers(world)))

    at_each_await(try_one, when)


@each_moment
@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_in_a_block(version: int, when: When) -> None:
    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        async with a_producer(world, transactional_id="t") as producer:
            deliveries = Deliveries(producer)

            async def transact() -> None:
                async with producer.transaction():
                    await asyncio.gather(deliveries.send(), deliveries.send())
                    await producer.send_offsets({ONE: 1}, "group")

            was_cancelled = await cancel(transact())
            async with producer.transaction():
                last = deliveries.send()
            deliveries.check()
        await asyncio.sleep(MARKERS_TAKE_S)
        seen = [value for _, value in visible_in(world.room.partition(ONE).log)]
        assert seen[-1] == int.from_bytes(world.records_of(ONE)[-1][1] or b"", "big")
        assert last.exception() is None
        assert seen[:-1] in ([0, 1], []), seen
        assert was_cancelled or seen[:-1] == [0, 1]
        assert world.room.committed_offset("group", ONE) == (1 if seen[:-1] else None)
        assert world.room.open_producers() == []

    at_each_await(try_one, when, transaction_version=version)


@each_moment
@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_that_is_called_again(version: int, when: When) -> None:
    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        async with a_producer(world, transactional_id="t") as producer:
            deliveries = Deliveries(producer)
            for _ in range(2):
                await producer.begin_transaction()
                deliveries.send()
                deliveries.send()
                if not await cancel(producer.commit_transaction()):
                    continue
                try:
                    await producer.commit_transaction()
                except AbortableError:
                    await producer.abort_transaction()
            deliveries.check()
        await asyncio.sleep(MARKERS_TAKE_S)
        assert [value for _, value in visible_in(world.room.partition(ONE).log)] == [0, 1, 2, 3]
        assert world.room.open_producers() == []

    at_each_await(try_one, when, transaction_version=version)


def a_consumer(world: RoomWorld, **options: Any) -> Consumer:
    return Consumer(
        world.bootstrap,
        network=world.network,
        clock=world.clock,
        group_id="readers",
        topics=[ONE.topic],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
        fetch_max_wait_ms=200,
        request_timeout_ms=2000,
        **options,
    )


async def read(consumer: Consumer, upto: int, seen: list[int]) -> None:
    async with asyncio.timeout(30):
        while len(seen) < upto:
            for records in await consumer.poll(0.5):
                seen += records.offsets


@each_moment
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: next(iter(one.values())))
def test_poll(protocol: dict[str, Any], when: When) -> None:
    """Records that a cancelled poll had taken are handed out by the next one."""

    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        await filled(world)
        async with a_consumer(world, max_poll_records=2, **protocol) as consumer:
            seen: list[int] = []

            async def poll() -> None:
                while not seen:
                    for records in await consumer.poll(0.5):
                        seen.extend(records.offsets)

            await cancel(poll())
            await read(consumer, RECORDS, seen)
            assert seen == list(range(RECORDS))

    at_each_await(try_one, when)


@each_moment
def test_the_next_record(when: When) -> None:
    """A record that a cancelled `anext` had taken is the next one."""

    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        await filled(world)
        async with a_consumer(world) as consumer:
            seen: list[int] = []

            async def two() -> None:
                records = aiter(consumer)
                for _ in range(2):
                    seen.append((await anext(records)).offset)

            await cancel(two())
            async with asyncio.timeout(30):
                async for record in consumer:
                    seen.append(record.offset)
                    if len(seen) == RECORDS:
                        break
            assert seen == list(range(RECORDS))

    at_each_await(try_one, when)


@each_moment
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: next(iter(one.values())))
def test_commit_and_close(protocol: dict[str, Any], when: When) -> None:
    """Whoever comes next goes on where the commit says."""

    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        await filled(world)
        consumer = a_consumer(world, **protocol)
        await read(consumer, RECORDS, [])

        async def end() -> None:
            await consumer.commit({ONE: 3})
            await consumer.close()

        await cancel(end())
        await consumer.close()
        committed = world.room.committed_offset("readers", ONE)
        assert committed in (3, None)
        async with a_consumer(world, **protocol) as another:
            seen: list[int] = []
            await read(another, RECORDS - (committed or 0), seen)
            assert seen == list(range(committed or 0, RECORDS))

    at_each_await(try_one, when)


@each_moment
def test_a_share_consumer(when: When) -> None:
    """No record is lost, whatever call was cancelled; the records of the cancelled calls may come twice."""

    async def try_one(world: RoomWorld, cancel: Cancel) -> None:
        await filled(world)
        options: dict[str, Any] = {"network": world.network, "fetch_max_wait_ms": 200, "request_timeout_ms": 2000}
        one = ShareConsumer(world.bootstrap, "workers", [ONE.topic], share_acknowledgement_mode="explicit", **options)
        accepted: set[int] = set()

        def accept(consumer: ShareConsumer, found: list[SharedRecord]) -> None:
            for shared in found:
                consumer.acknowledge(shared, Acknowledge.ACCEPT)
                accepted.add(shared.record.offset)

        async def work() -> None:
            while not accepted:
                accept(one, await one.poll(wait_s=0.5))
            await one.commit()
            await one.close()

        await cancel(work())
        await one.close()
        async with ShareConsumer(world.bootstrap, "workers", [ONE.topic], share_acknowledgement_mode="explicit", **options) as another:
            async with asyncio.timeout(30):
                while len(accepted) < RECORDS:
                    accept(another, await another.poll(wait_s=0.5))
                await another.commit()

    at_each_await(try_one, when, share_group={"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": 3000})
