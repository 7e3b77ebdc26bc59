"""● A producer and a consumer under schedules of faults, each from a seed.

Brokers die and come back, connections break, answers are lost or late, leaders move, the wall clock jumps, requests are refused.  In some
seeds leaders send the consumer to followers.

    python -m proof.clients.schedules 0 20000          # seeds; prints each violation with the seed that shows it

What must hold, whatever happens: every delivery is reported exactly once; an acknowledged record stands once, at the reported place; a
record that was not acknowledged stands once at most; records of a partition keep the order in which they were sent; the consumer hands out
every record of the log once, in order.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from moldau.clients.consumer import Consumer
from moldau.clients.errors import ClientError
from moldau.clients.producer import Producer, RecordMetadata
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.testing.loop import Stuck
from moldau.types import NO_LEADER, TopicPartition
from proof.clients.compression import SlowCompression
from proof.clients.model import Seen, Verdict, World
from proof.clients.seeds import run_seeds

TOPIC: Final = "t"
QUIET_S: Final = 60
"""The consumer has so long for what was left."""
DOUBLES_SHOW_S: Final = 3.0
"""A record that is handed out twice has to come within so long of the last one."""
REFUSALS: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


@dataclass(slots=True)
class Told:
    """The outcomes of the records, by their numbers."""

    places: dict[int, RecordMetadata] = field(default_factory=dict)
    errors: dict[int, KafkaError] = field(default_factory=dict)
    times: Counter[int] = field(default_factory=Counter)
    partition_of: dict[int, int] = field(default_factory=dict)


class Schedule:
    """One seed.  `violations` is empty when all held."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.choice = random.Random(seed)
        self.world = World(seed, broker_count=self.choice.randint(1, 3))
        self.partitions = self.choice.randint(1, 4)
        self.world.cluster.create(TOPIC, self.partitions)
        followers = random.Random(f"followers of {seed}")
        if followers.random() < 0.3:
            self.world.cluster.followers = followers
        self.violations: list[str] = []
        self.done: Counter[str] = Counter()
        self.told = Told()
        self.consumed: dict[int, list[tuple[int, bytes | None]]] = {index: [] for index in range(self.partitions)}
        self._is_cruel = True
        self._cruelty = self.choice.choice((0.0, 0.05, 0.2, 0.5))
        self.world.cluster.rules.append(self._rule)

    def run(self) -> list[str]:
        try:
            self.world.run(self._work(), within_s=3600)
        except Stuck as error:
            self.violations.append(f"stuck: {error}")
        except TimeoutError:
            self.violations.append("the clients do not end")
        except Exception as error:
            self.violations.append(f"{type(error).__name__}: {error}")
        else:
            self._check()
        return self.violations

    # ------------------------------------------------------------ what happens

    def _rule(self, seen: Seen) -> Verdict | None:
        if not self._is_cruel or self.choice.random() >= self._cruelty:
            return None
        if not isinstance(seen.request, ProduceRequest | FetchRequest | MetadataRequest):
            return Verdict(drop_before=True) if self.choice.random() < 0.3 else None
        kind = self.choice.randrange(5)
        if kind == 0:
            return Verdict(drop_before=True)
        if kind == 1:
            return Verdict(drop_after=True)
        if kind == 2:
            return Verdict(delay_s=self.choice.choice((0.1, 1.0, 5.0)))
        if isinstance(seen.request, ProduceRequest):
            return Verdict(answer=seen.request.refused(self.choice.choice(REFUSALS)))
        return Verdict(drop_after=True)

    async def _faults(self) -> None:
        cluster, world = self.world.cluster, self.world
        while True:
            await asyncio.sleep(self.choice.uniform(0.05, 1.5))
            kind = self.choice.choice(("move", "kill", "reset", "clock", "cut", "leaderless"))
            alive = [node_id for node_id, machine in cluster.machines.items() if machine.is_alive]
            self.done[kind] += 1
            if kind == "move" and alive:
                cluster.move(TOPIC, self.choice.randrange(self.partitions), self.choice.choice(alive))
            elif kind == "kill" and alive:
                node_id = self.choice.choice(alive)
                cluster.kill(node_id, silently=self.choice.random() < 0.5)
                await asyncio.sleep(self.choice.uniform(0.1, 4.0))
                cluster.restart(node_id)
            elif kind == "reset":
                world.network.reset("client", chance=self.choice.random())
            elif kind == "clock":
                world.clock.skew_ms += self.choice.randint(-3_600_000, 3_600_000)
            elif kind == "cut":
                world.network.cut("client", f"broker-{self.choice.choice(list(cluster.machines))}")
                await asyncio.sleep(self.choice.uniform(0.1, 6.0))
                world.network.heal()
            elif kind == "leaderless":
                partition = cluster.partition(TOPIC, self.choice.randrange(self.partitions))
                was, partition.leader = partition.leader, NO_LEADER
                await asyncio.sleep(self.choice.uniform(0.1, 3.0))
                if partition.leader == NO_LEADER and cluster.machines[was].is_alive:
                    partition.leader = was
                elif partition.leader == NO_LEADER:
                    partition.leader = next((one for one, machine in cluster.machines.items() if machine.is_alive), NO_LEADER)
                    partition.leader_epoch += 1

    async def _work(self) -> None:
        choice, world = self.choice, self.world
        options: dict[str, Any] = {
            "batch_size": choice.choice((100, 1000, 20_000)),
            "linger_ms": choice.choice((0, 0, 5, 100)),
            "delivery_timeout_ms": choice.choice((3_000, 8_000, 60_000)),
            "request_timeout_ms": choice.choice((500, 2_000)),
            "max_block_ms": choice.choice((2_000, 60_000)),
            "buffer_memory": choice.choice((50_000, 10_000_000)),
            "compression_type": choice.choice(("none", "none", "lz4")),
        }
        faults = asyncio.get_running_loop().create_task(self._faults())
        consumer = Consumer(world.bootstrap, network=world.network, clock=world.clock, fetch_max_wait_ms=300, request_timeout_ms=2000)
        await consumer.assign({TopicPartition(TOPIC, index): 0 for index in range(self.partitions)})
        reading = asyncio.get_running_loop().create_task(self._read(consumer))
        off_loop = SlowCompression(random.Random(self.seed))
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, off_loop=off_loop, **options) as producer:
            await self._produce(producer)
            faults.cancel()
            await asyncio.wait([faults])
            self._calm_down()
        for _ in range(QUIET_S):
            await asyncio.sleep(1)
            if all(len(self.consumed[index]) >= world.cluster.partition(TOPIC, index).end_offset for index in range(self.partitions)):
                break
        await asyncio.sleep(DOUBLES_SHOW_S)
        reading.cancel()
        await asyncio.wait([reading])
        await consumer.close()

    def _calm_down(self) -> None:
        self._is_cruel = False
        self.world.network.heal()
        cluster = self.world.cluster
        for node_id, machine in list(cluster.machines.items()):
            if not machine.is_alive:
                cluster.restart(node_id)
        for partition in cluster.topics[TOPIC].partitions:
            if partition.leader == NO_LEADER or not cluster.machines[partition.leader].is_alive:
                partition.leader = next(iter(cluster.machines))
                partition.leader_epoch += 1

    async def _produce(self, producer: Producer) -> None:
        choice = self.choice
        deliveries: list[Any] = []
        number = 0
        for _ in range(choice.randint(1, 20)):
            count = choice.randint(1, 12)
            for one in range(number, number + count):
                partition = choice.randrange(self.partitions)
                value = b"%d " % one + bytes(choice.choice((0, 10, 200)))
                self.told.partition_of[one] = partition
                try:
                    delivery = producer.send(TOPIC, value, partition=partition, on_delivery=partial(self._tell, one))
                except ClientError as error:
                    self._tell(one, None, error)
                else:
                    deliveries.append(delivery)
            number += count
            if choice.random() < 0.2:
                await asyncio.wait([choice.choice(deliveries)], timeout=2) if deliveries else None
            await asyncio.sleep(choice.choice((0, 0.01, 0.3)))
        if deliveries:
            await asyncio.wait(deliveries)

    def _tell(self, number: int, where: RecordMetadata | None, error: KafkaError | None) -> None:
        self.told.times[number] += 1
        if where is not None:
            self.told.places[number] = where
        if error is not None:
            self.told.errors[number] = error

    async def _read(self, consumer: Consumer) -> None:
        while True:
            try:
                batches = await consumer.poll(1.0)
            except KafkaError:
                await asyncio.sleep(0.1)
                continue
            for records in batches:
                self.consumed[records.partition] += zip(records.offsets, records.raw_values, strict=True)

    # ------------------------------------------------------------ what must hold

    def _check(self) -> None:
        say, told = self.violations.append, self.told
        self.done["records"] += len(told.partition_of)
        for number in told.partition_of:
            if told.times[number] != 1:
                say(f"record {number} was told {told.times[number]} times")
        stored: Counter[int] = Counter()
        for index in range(self.partitions):
            values = self.world.cluster.partition(TOPIC, index).values
            numbers = [int(value.split(b" ")[0]) for value in values if value is not None]
            stored.update(numbers)
            if numbers != sorted(numbers):
                say(f"partition {index} is out of order: {numbers}")
            consumed = self.consumed[index]
            if consumed != list(enumerate(values)):
                say(f"partition {index} has {len(values)} records, and {len(consumed)} were consumed, or in another order")
            for place, number in enumerate(numbers):
                where = told.places.get(number)
                if where is not None and (where.partition, where.offset) != (index, place) and where.offset != -1:
                    say(f"record {number} was told to be at {where}, and is at {index}, {place}")
        for number in told.partition_of:
            if number in told.places and stored[number] != 1:
                say(f"record {number} was acknowledged and is there {stored[number]} times")
            if stored[number] > 1:
                say(f"record {number} is there {stored[number]} times")


if __name__ == "__main__":
    raise SystemExit(run_seeds(Schedule, {}))
