"""● A share group in simulation, from a seed: members and a producer at work while the broker is killed, loses power, is cut off.

    result = ShareSimulation(seed=7).run()
    result.violations          empty when the queue kept its promises

The promises: a record whose acceptance was confirmed is not given to anybody who asks later; a record that was acknowledged to its producer
is delivered to somebody who accepts it, unless it used up its deliveries.  (An acceptance whose answer was lost may hold or not: either is
right.)  One round: faults for two minutes, then calm, in which the members drain the queue.  A seed repeats its faults; which of several
clients' tasks ends first when they are cancelled together may differ from run to run.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.producer import Producer, ProducerOptions
from moldau.clients.share_consumer import Acknowledge, ShareConsumer, ShareConsumerOptions, SharedRecord
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.wire import Request, Response
from moldau.testing.loop import Machine
from moldau.testing.simulation import BROKER, CALM_S, PORT, ROUND_S, Simulation
from moldau.types import TopicPartition

GROUP: Final = "queue"
TOPIC: Final = "jobs"
PARTITIONS: Final = 2
MEMBERS: Final = 3
DELIVERIES: Final = 10
GROUP_RESOURCE: Final = 32
SET: Final = 0
DRAIN_WITHIN_S: Final = 240
PROPERTIES: Final = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.prune.interval.ms": "10000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "10000",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "offsets.topic.num.partitions": "2",
    "group.share.delivery.count.limit": str(DELIVERIES),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "5000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "10000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.assignment.interval.ms": "0",
}
EXPECTED: Final = (OSError, Unreachable, KafkaError, asyncio.TimeoutError)
"""What a client may see while faults strike; it begins again."""

Place = tuple[TopicPartition, int]
R = TypeVar("R", bound=Response)


class Ledger:
    """What all clients were told."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.produced: dict[bytes, None] = {}
        """Values that were acknowledged to the producer, in order."""
        self.accepted: dict[Place, float] = {}
        """Records whose acceptance was confirmed, and when that was known."""
        self.spoken_for: set[Place] = set()
        """Records that somebody accepted, whether or not that was confirmed."""
        self.deliveries: Counter[Place] = Counter()
        self.values: dict[Place, bytes] = {}
        self._violated = violated

    def delivered(self, shared: SharedRecord) -> Place:
        record = shared.record
        place = (TopicPartition(record.topic, record.partition), record.offset)
        self.deliveries[place] += 1
        self._at(place, record.value or b"")
        # What was asked for before may arrive late: whoever asked had lost the record to the one who accepted it.
        if self.accepted.get(place, shared.asked_at) < shared.asked_at:
            self._violated(f"{place} was accepted, and is delivered again, time {shared.delivery_count}")
        return place

    def _at(self, place: Place, value: bytes) -> None:
        """Power cuts take records that were read and not yet acknowledged to their producer: then another may have their place."""
        before = self.values.get(place, value)
        if before != value:
            if before in self.produced:
                self._violated(f"{place} was {before!r}, which was acknowledged, and is {value!r} now")
            self.accepted.pop(place, None)
            self.spoken_for.discard(place)
            self.deliveries[place] = 1
        self.values[place] = value

    def acknowledged(self, partition: TopicPartition, offset: int, now_s: float) -> None:
        self.accepted.setdefault((partition, offset), now_s)

    def left(self) -> list[bytes]:
        """Produced, and neither accepted by anybody nor delivered as often as may be."""
        done = {self.values[place] for place in self.spoken_for}
        worn_out = {self.values[place] for place, count in self.deliveries.items() if count >= DELIVERIES - 1}
        return [value for value in self.produced if value not in done and value not in worn_out]


class ShareSimulation(Simulation):
    """See the module."""

    def __init__(self, seed: int, *, keep_trace: bool = False, verbose: bool = False) -> None:
        super().__init__(seed, properties=PROPERTIES, keep_trace=keep_trace, verbose=verbose)
        self.ledger: Final = Ledger(self._violated)
        self._is_over = False
        self._machines: list[Machine] = []

    async def _run(self) -> None:
        self._format()
        self._start_broker()
        for number in range(MEMBERS + 1):
            machine = Machine(f"client-{number}")
            self.network.add(machine)
            self._machines.append(machine)
        await self.loop.start(self._machines[0], self._prepare())
        end_s = self.loop.time() + ROUND_S
        working = [self.loop.start(self._machines[0], self._produce(end_s, random.Random(self.choice.getrandbits(64))))]
        for number, machine in enumerate(self._machines[1:]):
            working.append(self.loop.start(machine, self._consume(number, random.Random(self.choice.getrandbits(64)))))
        await self._faults(end_s)
        self._disk_recovers()
        self.clock.skew_ms = 0
        for _ in range(DRAIN_WITHIN_S):
            if working[0].done() and not self.ledger.left():
                break
            await asyncio.sleep(1)
        if left := self.ledger.left():
            self._violated(f"{len(left)} records are never accepted: {left[:5]}")
        self._is_over = True
        for number, work in enumerate(working):
            await self._within(work, self.loop.time() + CALM_S, f"client {number} is still busy")
        self.result.done = dict(self.notes.done)

    async def _fault_cut(self) -> None:
        machine = self.choice.choice(self._machines)
        one, other = self.choice.choice(((machine.host, BROKER), (BROKER, machine.host)))
        self.network.cut(one, other, both_ways=self.choice.random() < 0.5)
        await asyncio.sleep(self._a_while())
        self.network.heal()

    # clients

    def _connect(self) -> Cluster:
        return Cluster.connect(f"{BROKER}:{PORT}", network=self.network, client_id="simulated")

    async def _prepare(self) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
        begins = AlterableConfig(name="share.auto.offset.reset", config_operation=SET, value="earliest")
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[begins])
        await self._until_done(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), lambda one: one.topics[0].error_code)
        await self._until_done(
            IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), lambda one: one.responses[0].error_code
        )

    async def _until_done(self, request: Request[R], error_of: Callable[[R], int]) -> None:
        cluster = self._connect()
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        while code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            with suppress(*EXPECTED):
                code = ErrorCode.of(error_of(await cluster.send(request)))
            await asyncio.sleep(0.2)
        cluster.close()

    async def _produce(self, end_s: float, choice: random.Random) -> None:
        """One value after the other; each is known to be written, or nothing is known of it."""
        number = 0
        while self.loop.time() < end_s:
            cluster = self._connect()
            producer = Producer(cluster, ProducerOptions(request_timeout_ms=5_000, delivery_timeout_ms=10_000), clock=self.clock)
            with suppress(*EXPECTED):
                while self.loop.time() < end_s:
                    values = [b"%d" % (number + index) for index in range(choice.choice((1, 1, 5, 40)))]
                    number += len(values)
                    sent = [await producer.send(TOPIC, value, partition=choice.randrange(PARTITIONS)) for value in values]
                    for value, future in zip(values, sent, strict=True):
                        await future
                        self.ledger.produced[value] = None
                        self.notes.done["produced"] += 1
                    await asyncio.sleep(choice.random())
            with suppress(*EXPECTED):
                async with asyncio.timeout(20):
                    await producer.close()
            cluster.close()

    async def _consume(self, number: int, choice: random.Random) -> None:
        """Accepts, releases and forgets; now and then it goes and comes back, with or without a word."""
        life = 0
        while not self._is_over:
            life += 1
            with suppress(*EXPECTED):
                await self._live(f"member-{number}-{life}", choice)
            await asyncio.sleep(0.1)

    async def _live(self, member_id: str, choice: random.Random) -> None:
        cluster = self._connect()
        options = ShareConsumerOptions(accepts_at_next_poll=False, max_records=choice.choice((1, 10, 100)))
        said: dict[Place, Acknowledge] = {}

        def acknowledged(partition: TopicPartition, offsets: list[int], code: ErrorCode) -> None:
            self.notes.done[f"acknowledged: {code.name}"] += len(offsets)
            for offset in offsets:
                if code is ErrorCode.NONE and said.get((partition, offset)) is Acknowledge.ACCEPT:
                    self.ledger.acknowledged(partition, offset, self.loop.time())

        consumer = ShareConsumer(cluster, GROUP, [TOPIC], options, acknowledged, member_id)
        until_s = self.loop.time() + choice.expovariate(1 / 20)
        try:
            while not self._is_over and self.loop.time() < until_s:
                for shared in await consumer.poll(wait_s=0.5):
                    self.notes.done["delivered"] += 1
                    place = self.ledger.delivered(shared)
                    # Mostly accepted, and in the end always, so that the queue runs dry.
                    is_accepted = choice.random() < 0.9 or shared.delivery_count > 3
                    said[place] = Acknowledge.ACCEPT if is_accepted else Acknowledge.RELEASE
                    if is_accepted:
                        self.ledger.spoken_for.add(place)
                    consumer.acknowledge(shared, said[place])
                if choice.random() < 0.5:
                    await consumer.commit()
            if choice.random() < 0.5:
                async with asyncio.timeout(10):
                    await consumer.close()
        finally:
            consumer.abort()
            cluster.close()
