"""Records one by one: what is handed out, what counts as done, and what a loop that is left early gives back."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from moldau.clients.consumer import Consumer
from moldau.clients.errors import FatalError
from moldau.clients.producer import Producer
from moldau.types import TopicPartition
from proof.clients.model import World

PARTITIONS = [TopicPartition("t", index) for index in range(3)]
PER_PARTITION = 40


def iterating(work: Callable[[Consumer], Awaitable[Any]], **options: Any) -> Any:
    world = World()
    world.cluster.create("t", len(PARTITIONS))

    async def run() -> Any:
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, batch_size=300) as producer:
            for number in range(PER_PARTITION * len(PARTITIONS)):
                producer.send("t", b"%d" % number, partition=number % len(PARTITIONS))
        async with Consumer(world.bootstrap, network=world.network, clock=world.clock, **options) as consumer:
            await consumer.assign(dict.fromkeys(PARTITIONS, 0))
            return await work(consumer)

    return world.run(run())


def done(consumer: Consumer) -> dict[TopicPartition, int]:
    """What a commit without offsets would say."""
    work = consumer._work
    done = {**work._positions.offsets(), **(work._commits.done() if work._stream() is not None else {})}
    return {one: offset for one, (offset, _) in done.items()}


@pytest.mark.parametrize("max_poll_records", [1, 7, 500])
def test_a_loop_that_is_left_loses_nothing(max_poll_records: int) -> None:
    async def work(consumer: Consumer) -> list[int]:
        seen: list[int] = []
        for count in (3, 1, 25, 60):
            left = count
            async for record in consumer:
                seen.append(int(record.value))
                left -= 1
                if not left:
                    break
            handed_out = dict.fromkeys(PARTITIONS, 0)
            for number in seen:
                handed_out[PARTITIONS[number % 3]] = number // 3 + 1
            assert done(consumer) == handed_out
            await asyncio.sleep(1)
            assert done(consumer) == handed_out, "records that nobody has seen are not done, however much time goes by"
        while len(seen) < PER_PARTITION * 3:
            for records in await consumer.poll(1.0):
                seen += [int(value) for value in records.values]
        return seen

    seen = iterating(work, max_poll_records=max_poll_records)
    assert sorted(seen) == list(range(PER_PARTITION * 3))
    for index in range(3):
        of_partition = [number for number in seen if number % 3 == index]
        assert of_partition == sorted(of_partition)


@pytest.mark.parametrize("max_poll_records", [1, 7, 500])
def test_a_record_is_done_when_the_next_one_is_asked_for(max_poll_records: int) -> None:
    async def work(consumer: Consumer) -> None:
        handed_out = dict.fromkeys(PARTITIONS, 0)
        last: TopicPartition | None = None
        count = 0
        async for record in consumer:
            if last is not None:
                handed_out[last] += 1
            last = TopicPartition(record.topic, record.partition)
            assert record.offset == handed_out[last]
            assert done(consumer) == handed_out
            count += 1
            if count == PER_PARTITION * 3:
                break

    iterating(work, max_poll_records=max_poll_records)


def test_a_seek_within_the_loop() -> None:
    async def work(consumer: Consumer) -> list[int]:
        seen: list[int] = []
        async for record in consumer:
            if record.partition == 0:
                seen.append(record.offset)
                if seen == [0, 1, 2]:
                    consumer.seek(PARTITIONS[0], 30)
                if record.offset == 39:
                    break
        return seen

    assert iterating(work) == [0, 1, 2, *range(30, 40)]


def test_a_partition_that_is_given_up_within_the_loop() -> None:
    async def work(consumer: Consumer) -> set[int]:
        later: list[int] = []
        async for record in consumer:
            if not later and record.partition == 0:
                await consumer.assign([PARTITIONS[1]])
                later.append(-1)
            elif later:
                later.append(record.partition)
                if record.partition == 1 and record.offset == PER_PARTITION - 1:
                    break
        return set(later)

    assert iterating(work) == {-1, 1}


def test_only_one_loop_at_a_time() -> None:
    async def work(consumer: Consumer) -> None:
        async with aclosing(consumer.__aiter__()) as stream:
            await anext(stream)
            with pytest.raises(FatalError, match="iterated over already"):
                aiter(consumer)
            with pytest.raises(FatalError, match="poll or iterate"):
                await consumer.poll()
        assert await consumer.poll()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    iterating(work)


def test_an_error_in_the_loop_ends_it_and_the_next_one_goes_on() -> None:
    async def work(consumer: Consumer) -> None:
        try:
            async for _ in consumer:
                raise RuntimeError("the application failed")
        except RuntimeError:
            async for record in consumer:
                assert record.offset == 1
                break

    iterating(work)


def test_records_whose_values_cannot_be_read_do_not_stop_the_rest() -> None:
    def even(value: bytes) -> int:
        if int(value) % 2:
            raise ValueError("odd")
        return int(value)

    async def work(consumer: Consumer) -> list[Any]:
        found = []
        async for record in consumer:
            found.append((record.value, record.error is not None))
            if len(found) == PER_PARTITION * 3:
                return found
        raise AssertionError

    found = iterating(work, value_deserializer=even)
    assert all(isinstance(value, bytes) == failed for value, failed in found)
    assert sum(failed for _, failed in found) == PER_PARTITION * 3 // 2


def test_what_a_poll_returned_to_nobody_comes_again_and_is_not_done() -> None:
    async def work(consumer: Consumer) -> list[int]:
        seen: list[int] = []
        while len(seen) < PER_PARTITION * 3:
            before = done(consumer)
            consumer.take_back(await consumer.poll(1.0, max_records=17))
            assert done(consumer) == before
            for records in await consumer.poll(1.0, max_records=10):
                seen += [int(value) for value in records.values]
        return seen

    seen = iterating(work)
    assert sorted(seen) == list(range(PER_PARTITION * 3))
    for index in range(3):
        of_partition = [number for number in seen if number % 3 == index]
        assert of_partition == sorted(of_partition)
