"""The producer against a model of a cluster that can be cruel: order, no loss, no duplicate, and every delivery told once."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.clients.errors import BufferFull, ClientError, ClusterUnreachable, DeliveryTimedOut, FatalError, RetriableError
from moldau.clients.options import OptionError
from moldau.clients.producer import Producer
from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.protocol.records.compression import Codec
from moldau.types import NO_LEADER
from proof.clients.compression import SlowCompression
from proof.clients.model import Seen, Verdict, World

Work = Callable[[Producer], Awaitable[Any]]


def producing(world: World, work: Work, **options: Any) -> Any:
    async def run() -> Any:
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, **options) as producer:
            return await work(producer)

    return world.run(run())


def a_world(*, partitions: int = 1, seed: int = 0) -> World:
    world = World(seed)
    world.cluster.create("t", partitions)
    return world


def fails(*codes: ErrorCode, drop: str = "") -> Callable[[Seen], Verdict | None]:
    """The next produce requests end with these errors, one after the other."""
    left = list(codes)

    def rule(seen: Seen) -> Verdict | None:
        if not isinstance(seen.request, ProduceRequest) or not left:
            return None
        code = left.pop(0)
        if code is ErrorCode.NETWORK_EXCEPTION:
            return Verdict(drop_before=drop == "before", drop_after=drop != "before")
        return Verdict(answer=seen.request.refused(code))

    return rule


def test_a_record_arrives_and_its_place_is_told() -> None:
    world = a_world()

    async def work(producer: Producer) -> Any:
        first = await producer.send("t", b"a", key=b"k", headers={"h": b"1"}, timestamp_ms=5)
        return first, await producer.send("t", "text")

    first, second = producing(world, work)
    assert (first.topic, first.partition, first.offset, first.timestamp, second.offset) == ("t", 0, 0, 5, 1)
    assert world.cluster.partition("t", 0).values == [b"a", b"text"]


def test_a_record_leaves_with_the_next_turn_and_its_end_is_told_with_its_answer() -> None:
    world = a_world()

    async def work(producer: Producer) -> list[tuple[int, int]]:
        await producer.send("t", b"first")
        channel = await producer.cluster.channel_to(world.cluster.partition("t", 0).leader)
        received, told, seen = channel.received, list[int](), list[tuple[int, int]]()

        def watched(count: int) -> None:
            received(count)
            seen.append((channel.in_flight, len(told)))

        setattr(channel, "received", watched)  # noqa: B010  # mypy allows no assignment to a method
        delivery = producer.send("t", b"second", on_delivery=lambda where, error: told.append(1))
        await asyncio.sleep(0)
        seen.append((channel.in_flight, len(told)))
        await delivery
        return seen

    assert producing(world, work) == [(1, 0), (0, 1)]


def test_no_request_overtakes_those_that_wait_for_the_connection() -> None:
    world = a_world()

    async def work(producer: Producer) -> float:
        await producer.send("t", b"first")
        cluster, loop = producer.cluster, asyncio.get_running_loop()
        (await cluster.channel_to(world.cluster.partition("t", 0).leader)).close()
        connect = cluster._connect

        async def connecting(host: str, port: int) -> Channel:
            channel = await connect(host, port)
            loop.call_soon(producer.send, "t", b"4" + bytes(200))  # ready to leave while two of the three before it wait
            return channel

        cluster._connect = connecting
        for number in range(1, 4):
            producer.send("t", b"%d" % number + bytes(200))
        await producer.flush()
        return producer.metrics()["producer.record.retry.total"]

    assert producing(world, work, batch_size=300) == 0, "the leader refused a batch as out of order"
    assert [value[:1] for value in world.cluster.partition("t", 0).values] == [b"f", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(("options", "partitions"), [({}, [0, 1, 2, 0]), ({"linger_ms": 5}, [0, 0, 0, 0])])
def test_records_that_are_awaited_one_by_one_take_turns_of_the_partitions(options: dict[str, int], partitions: list[int]) -> None:
    world = a_world(partitions=3)

    async def work(producer: Producer) -> list[int]:
        return [(await producer.send("t", b"v")).partition for _ in range(4)]

    assert producing(world, work, **options) == partitions


def test_records_that_are_sent_at_once_share_a_partition() -> None:
    world = a_world(partitions=3)

    async def work(producer: Producer) -> list[set[int]]:
        return [{where.partition for where in await asyncio.gather(*[producer.send("t", b"v") for _ in range(9)])} for _ in range(3)]

    assert producing(world, work) == [{0}, {1}, {2}]


def test_the_end_of_the_block_waits_for_what_nobody_awaited() -> None:
    world = a_world()
    told: list[int] = []

    async def work(producer: Producer) -> None:
        for number in range(100):
            producer.send("t", b"%d" % number, on_delivery=lambda where, error: told.append(where.offset if where else -1))

    producing(world, work)
    assert world.cluster.partition("t", 0).values == [b"%d" % number for number in range(100)]
    assert told == list(range(100))
    assert world.cluster.count(ProduceRequest) < 10


@pytest.mark.parametrize("drop", ["before", "after"])
@pytest.mark.parametrize("seed", range(5))
def test_lost_answers_and_moved_leaders_cost_neither_order_nor_records(drop: str, seed: int) -> None:
    world = a_world(seed=seed)
    lost, moved = ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.cluster.rules.append(fails(lost, moved, lost, lost, moved, moved, lost, drop=drop))

    async def work(producer: Producer) -> None:
        for number in range(300):
            producer.send("t", b"%d" % number)
            if number % 7 == 0:
                await asyncio.sleep(0.01)

    producing(world, work, batch_size=300)
    assert world.cluster.partition("t", 0).values == [b"%d" % number for number in range(300)]


@pytest.mark.parametrize("known", [False, True])
def test_a_leader_that_comes_late_costs_no_order(known: bool) -> None:
    """The leader refuses one batch, and would take the next one for the producer's first: it knows nothing of the producer yet."""
    world = a_world()

    async def work(producer: Producer) -> None:
        if known:
            await producer.send("t", b"known")
        world.cluster.rules.append(fails(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        for number in range(300):
            producer.send("t", b"%d" % number)

    producing(world, work, batch_size=300)
    assert world.cluster.partition("t", 0).values == [b"known"] * known + [b"%d" % number for number in range(300)]


def test_a_batch_refused_for_good_takes_only_itself_down() -> None:
    """The batches behind it are refused as out of order, get sequences of a new epoch, and arrive."""
    world = a_world()
    world.cluster.rules.append(fails(ErrorCode.NONE, ErrorCode.INVALID_RECORD))

    async def work(producer: Producer) -> list[object]:
        await producer.send("t", b"first")
        deliveries = [producer.send("t", b"%d" % number + bytes(200)) for number in range(6)]
        return list(await asyncio.gather(*deliveries, return_exceptions=True))

    # The rule answers the first request, too: with an error code of NONE and without any offset.
    ended = producing(world, work, batch_size=100)
    assert [isinstance(one, ClientError) for one in ended] == [True, False, False, False, False, False]
    values = world.cluster.partition("t", 0).values
    assert [value[:1] for value in values if value] == [b"1", b"2", b"3", b"4", b"5"]


def test_too_large_together_is_not_too_large_alone() -> None:
    world = a_world()
    limit = 700

    def cruel(seen: Seen) -> Verdict | None:
        if isinstance(seen.request, ProduceRequest) and any(
            len(one.records or b"") > limit for topic in seen.request.topic_data for one in topic.partition_data
        ):
            return Verdict(answer=seen.request.refused(ErrorCode.MESSAGE_TOO_LARGE))
        return None

    world.cluster.rules.append(cruel)

    async def work(producer: Producer) -> None:
        for number in range(20):
            producer.send("t", b"%02d" % number + bytes(98))
        await (await producer.send_many("t", [b"m%d" % number + bytes(98) for number in range(10)]))

    producing(world, work)
    values = world.cluster.partition("t", 0).values
    assert [value[:2] for value in values if value] == [b"%02d" % number for number in range(20)] + [
        b"m%d" % number for number in range(10)
    ]


def test_delivery_ends_in_time() -> None:
    world = a_world()
    world.cluster.partition("t", 0).leader = NO_LEADER

    async def work(producer: Producer) -> float:
        began = world.loop.time()
        with pytest.raises(DeliveryTimedOut, match="it was not written"):
            await producer.send("t", b"late")
        return world.loop.time() - began

    assert 2 <= producing(world, work, delivery_timeout_ms=2000, request_timeout_ms=1000) < 2.2


def test_an_answer_that_never_comes_ends_in_time_too() -> None:
    world = a_world()
    world.cluster.rules.append(lambda seen: Verdict(delay_s=1e6) if isinstance(seen.request, ProduceRequest) else None)

    async def work(producer: Producer) -> float:
        began = world.loop.time()
        with pytest.raises(DeliveryTimedOut, match="may have been written"):
            await producer.send("t", b"late")
        return world.loop.time() - began

    assert 2 <= producing(world, work, delivery_timeout_ms=2000, request_timeout_ms=1000) < 2.2


def test_a_topic_that_is_not_there() -> None:
    world = a_world()

    async def work(producer: Producer) -> None:
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send("nothing", b"x")
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send_many("nothing", [b"x"])
        with pytest.raises(ClientError, match="no partition 7"):
            await producer.send("t", b"x", partition=7)
        await producer.send("t", b"x")

    producing(world, work, max_block_ms=1000)


def test_a_topic_that_comes_later_gets_its_records_in_order() -> None:
    world = a_world()

    async def work(producer: Producer) -> None:
        waiting = [producer.send("later", b"%d" % number) for number in range(10)]
        await asyncio.sleep(1)
        world.cluster.create("later", 1)
        await asyncio.gather(*waiting)

    producing(world, work)
    assert world.cluster.partition("later", 0).values == [b"%d" % number for number in range(10)]


def test_many_records_wait_for_their_topic_too() -> None:
    world = a_world()

    async def work(producer: Producer) -> None:
        sending = asyncio.create_task(producer.send_many("later", [b"a", b"b"]))
        await asyncio.sleep(1)
        world.cluster.create("later", 1)
        await (await sending)

    producing(world, work)
    assert world.cluster.partition("later", 0).values == [b"a", b"b"]


def test_no_cluster_at_all() -> None:
    world = a_world()

    async def run() -> None:
        async with Producer("nowhere:9092", network=world.network, clock=world.clock, max_block_ms=3000) as producer:
            with pytest.raises(ClusterUnreachable, match="nowhere"):
                await producer.send("t", b"x")

    world.run(run())


def test_memory_has_an_end() -> None:
    world = a_world()
    world.cluster.rules.append(lambda seen: Verdict(delay_s=5) if isinstance(seen.request, ProduceRequest) else None)

    async def work(producer: Producer) -> int:
        await asyncio.wait([producer.send("t", b"a")], timeout=1)
        taken = 0

        def send_on_and_on() -> None:
            nonlocal taken
            while True:
                producer.send("t", bytes(10_000))
                taken += 1

        with pytest.raises(BufferFull, match="drain"):
            send_on_and_on()
        assert producer.metrics()["producer.buffer.available.bytes"] >= 0
        return taken

    taken = producing(world, work, buffer_memory=1_000_000)
    assert 100 < taken < 200
    assert len(world.cluster.partition("t", 0).values) == taken + 1


def test_a_slow_partition_leaves_room_for_the_others() -> None:
    world = a_world(partitions=3)
    world.cluster.partition("t", 0).leader = NO_LEADER

    async def work(producer: Producer) -> None:
        stuck = [producer.send("t", bytes(10_000), partition=0) for _ in range(80)]
        for _ in range(50):
            await producer.send("t", bytes(10_000), partition=1)
        assert not any(delivery.done() for delivery in stuck)
        world.cluster.move("t", 0, 1)
        await asyncio.gather(*stuck)

    producing(world, work, buffer_memory=1_000_000)


def test_records_without_a_key_avoid_a_partition_without_a_leader() -> None:
    world = a_world(partitions=3)
    world.cluster.partition("t", 1).leader = NO_LEADER

    async def work(producer: Producer) -> None:
        await asyncio.gather(*[producer.send("t", bytes(100)) for _ in range(100)])
        world.cluster.move("t", 1, 1)

    producing(world, work, batch_size=500)
    assert len(world.cluster.partition("t", 0).values) + len(world.cluster.partition("t", 2).values) >= 95


def test_send_many_keeps_order_by_key_and_says_where() -> None:
    world = a_world(partitions=4)
    keys = [b"key %d" % (number % 13) for number in range(1000)]
    values = [b"%d" % number for number in range(1000)]

    async def work(producer: Producer) -> Any:
        return await (await producer.send_many("t", values, keys=keys))

    deliveries = producing(world, work, batch_size=2000)
    assert deliveries.record_count == 1000
    found = {}
    for written in deliveries.written:
        stored = world.cluster.partition("t", written.partition).values
        for place, number in enumerate(written.numbers):
            assert stored[written.base_offset + place] == values[number]
            found[number] = written.partition
    assert sorted(found) == list(range(1000))
    for index in range(4):
        stored_numbers = [int(value) for value in world.cluster.partition("t", index).values if value]
        assert stored_numbers == sorted(stored_numbers)


def test_lists_of_different_lengths() -> None:
    async def work(producer: Producer) -> None:
        with pytest.raises(ValueError, match="keys has 1 entries, values has 2"):
            await producer.send_many("t", [b"a", b"b"], keys=[b"k"])

    producing(a_world(), work)


@pytest.mark.parametrize("acks", [0, 1])
def test_less_than_all_acks(acks: int) -> None:
    world = a_world()

    async def work(producer: Producer) -> Any:
        found = [await producer.send("t", b"%d" % number) for number in range(3)]
        await asyncio.sleep(1)  # nobody says when they have arrived
        return found

    found = producing(world, work, acks=acks)
    assert [where.offset for where in found] == ([-1, -1, -1] if acks == 0 else [0, 1, 2])
    assert world.cluster.partition("t", 0).values == [b"0", b"1", b"2"]


def test_serializers_and_interceptors_that_raise_hang_nobody() -> None:
    class Interceptor:
        def on_send(self, record: Any) -> Any:
            if record.value == "bad":
                raise RuntimeError("on purpose")
            return record._replace(headers=[("seen", b"1")])

        def on_acknowledgement(self, where: object, error: object) -> None:
            raise RuntimeError("on purpose")

    def serialize(value: str) -> bytes:
        if value == "worse":
            raise ValueError("cannot be serialized")
        return value.upper().encode()

    world = a_world()

    async def work(producer: Producer) -> None:
        with pytest.raises(ValueError, match="cannot be"):
            producer.send("t", "worse")
        await producer.send("t", "good")
        await producer.send("t", "bad")

        def callback(where: object, error: object) -> None:
            raise RuntimeError("on purpose")

        await producer.send("t", "last", on_delivery=callback)

    producing(world, work, interceptors=[Interceptor()], value_serializer=serialize)
    assert world.cluster.partition("t", 0).values == [b"GOOD", b"BAD", b"LAST"]


def test_what_cannot_be_a_value() -> None:
    async def work(producer: Producer) -> None:
        with pytest.raises(TypeError, match="value_serializer"):
            producer.send("t", 17)
        with pytest.raises(ClientError, match="max\\.request\\.size"):
            await producer.send("t", bytes(2_000_000))

    producing(a_world(), work)


def test_a_closed_producer_says_so() -> None:
    world = a_world()

    async def run() -> None:
        producer = Producer(world.bootstrap, network=world.network, clock=world.clock)
        await producer.send("t", b"x")
        await producer.close()
        with pytest.raises(FatalError, match="closed"):
            producer.send("t", b"x")

    world.run(run())


def test_cancelled_work_ends_all_deliveries() -> None:
    world = a_world()
    world.cluster.rules.append(lambda seen: Verdict(delay_s=1e5) if isinstance(seen.request, ProduceRequest | MetadataRequest) else None)
    deliveries: list[asyncio.Future[Any]] = []

    async def run() -> None:
        async def inner() -> None:
            async with Producer(world.bootstrap, network=world.network, clock=world.clock) as producer:
                deliveries.append(producer.send("t", b"x"))
                deliveries.append(producer.send("t", b"y"))
                await asyncio.sleep(1e9)

        task = asyncio.get_running_loop().create_task(inner())
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.wait([task])

    world.run(run())
    assert all(isinstance(delivery.exception(), ClientError) for delivery in deliveries)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"linger": 5}, "nearest is linger_ms"),
        ({"batch.sise": 5}, "nearest is batch.size"),
        ({"acks": "some"}, "all, 1 or 0"),
        ({"acks": 1, "enable_idempotence": True}, "acks=all"),
        ({"delivery_timeout_ms": 5}, "30000"),
        ({"compression_type": "rar"}, "zstd"),
        ({"partitioner": "best"}, "murmur2_random"),
        ({"linger_ms": "soon"}, "a number"),
        ({"transactional_id": ""}, "empty"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        Producer("h:1", options)


def test_kafkas_own_spelling() -> None:
    given = {"linger.ms": "7", "compression.type": "zstd", "key.serializer": "org.apache.Anything", "enable.idempotence": "false"}
    options = Producer(options={"bootstrap.servers": "h:1", **given}).options
    assert (options.linger_ms, options.compression_type, options.is_idempotent) == (7, "zstd", False)


@pytest.mark.parametrize("seed", range(5))
def test_requests_that_are_compressed_off_the_loop_leave_in_their_order(seed: int) -> None:
    world = a_world(partitions=2, seed=seed)
    slow = SlowCompression(world.random)
    sent: dict[int, list[bytes]] = {0: [], 1: []}

    async def run() -> dict[str, float]:
        async with Producer(
            world.bootstrap, network=world.network, clock=world.clock, off_loop=slow, compression_type="gzip", batch_size=1000
        ) as producer:
            for number in range(60):
                partition = world.random.randrange(2)
                value = b"%d " % number + bytes(world.random.choice((0, 600)))
                sent[partition].append(value)
                producer.send("t", value, partition=partition)
                await asyncio.sleep(world.random.choice((0, 0.01)))
            await producer.flush()
            return producer.metrics()

    metrics = world.run(run())
    assert {index: world.cluster.partition("t", index).values for index in sent} == sent
    assert slow.count
    assert metrics["producer.record.retry.total"] == 0, "a request overtook another"


def test_a_producer_closes_while_it_compresses() -> None:
    """Whether the batch is lost is told, and a thread that goes on meanwhile harms nobody."""
    world = a_world()

    class Endless:
        large_bytes = dict.fromkeys(Codec, 10)

        async def run(self, work: Callable[[], Any]) -> Any:
            await asyncio.get_running_loop().create_future()

    async def run() -> list[Any]:
        producer = Producer(world.bootstrap, network=world.network, clock=world.clock, off_loop=Endless(), compression_type="zstd")
        await producer.start()
        deliveries = [producer.send("t", bytes(1000)) for _ in range(3)]
        await asyncio.sleep(1)
        deliveries.append(producer.send("t", b"small"))
        await producer.close(timeout_ms=1000)
        return await asyncio.gather(*deliveries, return_exceptions=True)

    assert [type(found) for found in world.run(run())] == [RetriableError] * 4
    assert world.cluster.partition("t", 0).values == []


def test_a_batch_that_cannot_be_compressed_fails_alone() -> None:
    world = a_world()

    class Failing:
        large_bytes = dict.fromkeys(Codec, 500)

        async def run(self, work: Callable[[], Any]) -> Any:
            await asyncio.sleep(0.1)
            raise MemoryError

    async def run() -> list[Any]:
        async with Producer(
            world.bootstrap,
            network=world.network,
            clock=world.clock,
            off_loop=Failing(),
            compression_type="zstd",
            request_timeout_ms=500,
            delivery_timeout_ms=1000,
            enable_idempotence=False,
        ) as producer:
            large = producer.send("t", bytes(1000))
            await asyncio.wait([large])
            return await asyncio.gather(large, producer.send("t", b"small"), return_exceptions=True)

    large, small = world.run(run())
    assert isinstance(large, ClientError)
    assert small.offset == 0


def test_a_producer_shows_the_arguments_of_send_and_refuses_others() -> None:
    producer = Producer("localhost:1")
    declared = list(inspect.signature(Producer.send).parameters.values())
    shown = list(inspect.signature(producer.send).parameters.values())
    assert [(one.name, one.kind, one.default) for one in shown] == [(one.name, one.kind, one.default) for one in declared[1:]]
    with pytest.raises(TypeError, match="color"):
        producer.send("orders", b"tea", color="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        producer.send("orders", b"tea", b"key")  # type: ignore[call-arg, misc]
