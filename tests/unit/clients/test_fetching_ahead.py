"""The broker works on the next records while a caller works on the last ones, and none are lost on the way."""

import asyncio

from moldau.clients.consumer import Consumer
from moldau.clients.producer import Producer
from moldau.protocol.messages.fetch import FetchRequest
from moldau.types import TopicPartition
from proof.clients.model import World

HERE = TopicPartition("t", 0)
VALUES = [b"%03d" % number + bytes(500) for number in range(40)]


async def fill(world: World) -> None:
    async with Producer(world.bootstrap, network=world.network, clock=world.clock, batch_size=600) as producer:
        for value in VALUES:
            await producer.send("t", value, partition=0)


def a_consumer(world: World, **given: int) -> Consumer:
    return Consumer(world.bootstrap, network=world.network, clock=world.clock, fetch_max_wait_ms=100, **given)


def test_the_next_fetch_is_on_its_way_when_records_are_handed_out() -> None:
    world = World()
    world.cluster.create("t", 1)

    async def read() -> tuple[int, int]:
        await fill(world)
        async with a_consumer(world, max_partition_fetch_bytes=1200) as consumer:
            await consumer.assign({HERE: 0})
            (first, *_) = await consumer.poll(5)
            asked = consumer.metrics()["consumer.fetch.manager.fetch.total"]
            return first.offsets[0], int(asked)

    assert world.run(read()) == (0, 2)


def test_what_is_fetched_ahead_of_a_caller_who_rests_has_a_bound() -> None:
    world = World()
    world.cluster.create("t", 1)

    async def read() -> float:
        await fill(world)
        async with a_consumer(world, max_partition_fetch_bytes=1200) as consumer:
            await consumer.assign({HERE: 0})
            await consumer.poll(5)
            await asyncio.sleep(60)
            return consumer.metrics()["consumer.fetch.manager.bytes.consumed.total"]

    fetched = world.run(read())
    assert fetched < 3 * 1200 + 1200, f"{fetched} bytes for a caller who asked once"
    assert world.cluster.count(FetchRequest) < 10


def test_a_poll_that_is_cancelled_takes_no_records_with_it() -> None:
    """The poll is cancelled in each turn of the loop."""
    world = World()
    world.cluster.create("t", 1)

    async def read() -> list[bytes]:
        await fill(world)
        found: list[bytes] = []
        async with a_consumer(world, max_partition_fetch_bytes=1200) as consumer:
            await consumer.assign({HERE: 0})
            turns = 0
            while len(found) < len(VALUES):
                polling = asyncio.get_running_loop().create_task(consumer.poll(5))
                turns += 1
                for _ in range(turns % 12):
                    await asyncio.sleep(0)
                polling.cancel()
                try:
                    for records in await polling:
                        found += records.values
                except asyncio.CancelledError:
                    await asyncio.sleep(0.01)
        return found

    assert world.run(read()) == VALUES


def test_a_seek_between_the_decision_to_fetch_and_the_fetch_is_no_error() -> None:
    """The partition is resumed, which decides to fetch, and is sought some turns of the loop later."""
    world = World()
    world.cluster.create("t", 1)

    async def read() -> None:
        await fill(world)
        async with a_consumer(world) as consumer:
            await consumer.assign({HERE: 0})
            for turns in range(5):
                await consumer.poll(5)
                consumer.pause([HERE])
                await asyncio.sleep(1)
                consumer.resume([HERE])
                for _ in range(turns):
                    await asyncio.sleep(0)
                consumer.seek_to_beginning()

    world.run(read())
