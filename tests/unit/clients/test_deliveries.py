"""The deliveries that `send` returns behave as futures, and records without a key share the short way without losing their count."""

import asyncio
import random
from typing import Any

import pytest

from moldau.clients.errors import BufferFull, ClientError
from moldau.clients.producer import Producer
from moldau.clients.producer.delivery import Delivery, Run, delivery_of
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import ProduceRequest
from moldau.types import NO_LEADER, TopicPartition
from proof.clients.model import Seen, Verdict, World

PLACE = TopicPartition("t", 3)


def delivered(count: int) -> tuple[Run, list[Delivery]]:
    run = Run(asyncio.get_running_loop(), count)
    return run, [delivery_of(run, number, 100 + number) for number in range(count)]


async def test_each_delivery_has_its_own_place() -> None:
    run, deliveries = delivered(3)
    assert not deliveries[0].done()
    run.written(PLACE, 10, None, None)
    assert [(one.result().offset, one.result().timestamp) for one in deliveries] == [(10, 100), (11, 101), (12, 102)]
    assert (await deliveries[1]).offset == 11
    assert deliveries[2].exception() is None
    assert not deliveries[2].cancelled()


async def test_as_completed_ends() -> None:
    run, deliveries = delivered(3)
    asyncio.get_running_loop().call_soon(run.written, PLACE, 10, None, None)
    async with asyncio.timeout(5):
        found = [(await one).offset for one in asyncio.as_completed(deliveries)]  # type: ignore[arg-type, type-var]  # as below
    assert sorted(found) == [10, 11, 12]


async def test_a_gather_of_deliveries_that_is_cancelled_ends() -> None:
    _, deliveries = delivered(2)
    gathered = asyncio.gather(*deliveries)
    asyncio.get_running_loop().call_soon(gathered.cancel)
    done, _ = await asyncio.wait((gathered,), timeout=5)
    assert done
    with pytest.raises(asyncio.CancelledError):
        gathered.result()
    assert all(one.cancelled() for one in deliveries)


async def test_a_gather_ends_with_a_delivery_that_was_cancelled() -> None:
    run, deliveries = delivered(2)
    gathered = asyncio.gather(*deliveries, return_exceptions=True)
    deliveries[0].cancel("changed my mind")
    run.written(PLACE, 10, None, None)
    done, _ = await asyncio.wait((gathered,), timeout=5)
    assert done
    cancelled, written = gathered.result()
    assert isinstance(cancelled, asyncio.CancelledError)
    assert written.offset == 11  # type: ignore[union-attr]  # as below


async def test_a_callback_is_given_the_delivery_and_can_be_removed() -> None:
    run, deliveries = delivered(2)
    seen: list[Delivery] = []
    deliveries[0].add_done_callback(seen.append)
    deliveries[1].add_done_callback(seen.append)
    assert deliveries[1].remove_done_callback(seen.append) == 1
    run.written(PLACE, 10, None, None)
    await asyncio.sleep(0)
    assert seen == [deliveries[0]]


async def test_the_usual_ways_to_wait() -> None:
    run, deliveries = delivered(6)
    seen: list[int] = []

    async def awaiting() -> int:
        return (await deliveries[5]).offset

    deliveries[0].add_done_callback(lambda done: seen.append(done.result().offset))
    waiting = [
        asyncio.gather(*deliveries[:2]),
        asyncio.ensure_future(asyncio.wait_for(deliveries[2], 5)),
        asyncio.shield(deliveries[3]),
        asyncio.ensure_future(asyncio.wait([deliveries[4]])),  # type: ignore[type-var]  # the types know real futures only
        asyncio.ensure_future(awaiting()),
    ]
    await asyncio.sleep(0)
    run.written(PLACE, 0, 7, None)
    both, limited, shielded, (done, pending), awaited = await asyncio.gather(*waiting)
    assert [one.offset for one in both] == [0, 1]
    assert (limited.offset, shielded.offset, awaited) == (2, 3, 5)
    assert {one.result().timestamp for one in done} == {7}
    assert not pending
    assert seen == [0]
    assert asyncio.isfuture(deliveries[0])


async def test_a_failure_reaches_those_who_look_and_nobody_else() -> None:
    run, deliveries = delivered(3)
    told: list[Any] = []
    run.call(1, 101, lambda where, error: told.append((where, error)))
    waits = asyncio.gather(deliveries[0], return_exceptions=True)
    error = ClientError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    run.written(PLACE, -1, None, error)
    assert await waits == [error]
    assert told == [(None, error)]
    assert deliveries[2].exception() is error
    with pytest.raises(ClientError, match="too large"):
        await deliveries[1]


async def test_a_cancelled_delivery_stays_cancelled_and_the_others_go_on() -> None:
    run, deliveries = delivered(2)
    told: list[Any] = []
    run.call(0, 100, lambda where, error: told.append(where.offset if where else None))
    assert deliveries[0].cancel()
    assert deliveries[0].done()
    assert deliveries[0].cancelled()
    run.written(PLACE, 0, None, None)
    assert (await deliveries[1]).offset == 1
    assert not deliveries[1].cancel()
    assert told == [0], "the record was sent, and its callback is called"
    with pytest.raises(asyncio.CancelledError):
        deliveries[0].result()


async def test_a_result_that_is_not_there_yet() -> None:
    _, (delivery,) = delivered(1)
    with pytest.raises(asyncio.InvalidStateError):
        delivery.result()
    assert repr(delivery) == "<Delivery pending>"


async def test_deliveries_follow_their_record_into_the_halves_of_a_batch() -> None:
    run, deliveries = delivered(5)
    told: list[Any] = []
    for number in range(5):
        run.call(number, 100 + number, lambda where, error, number=number: told.append((number, where and where.offset)))
    before = asyncio.ensure_future(asyncio.wait_for(deliveries[4], 5))
    await asyncio.sleep(0)
    first, second = run.halves()
    third, fourth = second.halves()
    fourth.written(PLACE, 52, None, None)
    first.written(PLACE, 20, None, None)
    third.written(PLACE, -1, None, ClientError(ErrorCode.MESSAGE_TOO_LARGE, "no"))
    assert (await before).offset == 53
    assert [one.result().offset for one in (*deliveries[:2], *deliveries[3:])] == [20, 21, 52, 53]
    assert isinstance(deliveries[2].exception(), ClientError)
    assert sorted(told) == [(0, 20), (1, 21), (2, None), (3, 52), (4, 53)]


@pytest.mark.parametrize("seed", range(40))
def test_records_without_a_key_in_a_cruel_cluster(seed: int) -> None:
    """Every record is told once and stands where it is said to; each partition keeps the order, and all memory is given back."""
    choice = random.Random(seed)
    world = World(seed)
    for topic in ("t", "u"):
        world.cluster.create(topic, 3)
    left = [choice.choice((None, None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE, "lost")) for _ in range(30)]
    told: dict[int, list[Any]] = {}
    topics: dict[int, str] = {}

    def rule(seen: Seen) -> Verdict | None:
        verdict = left.pop() if isinstance(seen.request, ProduceRequest) and left else None
        if verdict == "lost":
            return Verdict(drop_after=True)
        return None if verdict is None else Verdict(answer=seen.request.refused(verdict))

    world.cluster.rules.append(rule)

    async def work() -> None:
        options: dict[str, Any] = {
            "batch_size": choice.choice((200, 2000, 20_000)),
            "linger_ms": choice.choice((0, 5, 50)),
            "buffer_memory": choice.choice((20_000, 1 << 20, 1 << 26)),
        }
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, **options) as producer:
            number = 0
            deliveries: dict[int, Delivery] = {}
            for _ in range(choice.randint(1, 30)):
                keyed = choice.random() < 0.2
                for _ in range(choice.choice((1, 5, 60))):
                    topic = topics[number] = choice.choice(("t", "t", "t", "u"))
                    value = b"%d " % number + bytes(choice.choice((0, 10, 150)))
                    key = b"k" if keyed and choice.random() < 0.5 else None
                    while True:
                        try:
                            deliveries[number] = producer.send(
                                topic, value, key=key, on_delivery=lambda *end, number=number: told.setdefault(number, []).append(end)
                            )
                            break
                        except BufferFull:
                            await producer.drain()
                    number += 1
                if choice.random() < 0.2:
                    world.cluster.partition("t", choice.randrange(3)).leader = choice.choice((NO_LEADER, 1, 2, 3))
                if choice.random() < 0.1:
                    await asyncio.wait([deliveries[number - 1]], timeout=1)  # type: ignore[type-var]
                await asyncio.sleep(choice.choice((0, 0.003, 0.1)))
            for index in range(3):
                world.cluster.partition("t", index).leader = 1 + index
            await producer.flush()
            assert producer.metrics()["producer.buffer.available.bytes"] == options["buffer_memory"]
            for one, delivery in deliveries.items():
                assert len(told[one]) == 1, f"record {one} was told {len(told[one])} times"
                where, error = told[one][0]
                assert delivery.exception() is error
                if error is not None:
                    # A batch of one record is not split; room may be missing while a partition has no leader.
                    assert error.code is ErrorCode.MESSAGE_TOO_LARGE or isinstance(error, BufferFull), error
                    continue
                assert delivery.result() == where
                stored = world.cluster.partition(where.topic, where.partition).values[where.offset]
                assert stored is not None
                assert where.topic == topics[one]
                assert int(stored.split()[0]) == one

    world.run(work())
    for topic in ("t", "u"):
        for index in range(3):
            numbers = [int(value.split()[0]) for value in world.cluster.partition(topic, index).values if value]
            assert numbers == sorted(set(numbers)), "order is kept, and nothing is there twice"


def test_an_early_failure_is_told_once() -> None:
    world = World()
    world.cluster.create("t", 1)
    told: list[KafkaError | None] = []

    async def work() -> None:
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, max_request_size=1000) as producer:
            delivery = producer.send("t", bytes(2000), on_delivery=lambda where, error: told.append(error))
            assert delivery.done()
            with pytest.raises(ClientError):
                await delivery

    world.run(work())
    assert [error.code for error in told if error] == [ErrorCode.MESSAGE_TOO_LARGE]
