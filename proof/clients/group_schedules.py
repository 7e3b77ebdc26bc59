"""● Consumers of one group, and a producer, under schedules of faults around a real broker; each from a seed.

Members come, leave, die and rest longer than max.poll.interval.ms allows.  Connections break, answers are lost or late, the broker goes
away and its coordinators load anew, the wall clock jumps.  A seed decides the protocol and the assignor.

    python -m proof.clients.group_schedules 0 10000     # seeds; prints each violation with the seed that shows it

What must hold: no member is handed a record of a partition after the revocation of the partition returned; the records of one ownership
come in order, without a gap, and as they stand in the log; only offsets of records that were handed out are committed; every record is
handed out to some member; once all is calm, the members share the partitions, and each partition has one owner.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.clients.consumer import Consumer
from moldau.clients.consumer.member import RebalanceListener
from moldau.clients.errors import ClientError
from moldau.clients.producer import Producer
from moldau.errors import KafkaError
from moldau.testing.loop import Machine
from moldau.types import TopicPartition
from proof.clients.broker_room import RoomWorld
from proof.clients.plants import CONSUMER_PLANTS
from proof.clients.room_schedule import RoomSchedule
from proof.clients.seeds import run_seeds
from proof.transactions.schedules.room import DATA

GROUP: Final = "readers"
TOPICS: Final = ("orders",)
PARTITIONS: Final = tuple(one for one in DATA if one.topic in TOPICS)
CALM_S: Final = 40.0
PROTOCOLS: Final[Sequence[dict[str, Any]]] = (
    {"group_protocol": "consumer"},
    {"group_protocol": "consumer"},
    {"partition_assignment_strategy": "range"},
    {"partition_assignment_strategy": "cooperative-sticky"},
    {"partition_assignment_strategy": ("range", "cooperative-sticky")},
    {"partition_assignment_strategy": "sticky"},
)


@dataclass(slots=True)
class Ownership:
    """The records that one member was handed of one partition, from its assignment to its revocation."""

    member: str
    offsets: list[int] = field(default_factory=list)


class Member(RebalanceListener):
    """One consumer.  It notes the partitions that it owns, from the calls to its listener alone."""

    def __init__(self, schedule: "GroupSchedule", machine: Machine, choice: random.Random) -> None:
        self.machine = machine
        self.owned: dict[TopicPartition, Ownership] = {}
        self.consumer: Consumer | None = None
        self.is_leaving = False
        self._schedule = schedule
        self._choice = choice

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for one in partitions:
            if one in self.owned:
                self._schedule.say(f"{self.machine.host} is assigned {one}, which it owns")
            self.owned[one] = Ownership(self.machine.host)
            self._schedule.ownerships.setdefault(one, []).append(self.owned[one])
        await asyncio.sleep(self._choice.choice((0, 0, 0.2)))

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await asyncio.sleep(self._choice.choice((0, 0, 0.3)))
        for one in partitions:
            if self.owned.pop(one, None) is None:
                self._schedule.say(f"{self.machine.host} gives up {one}, which it does not own")

    async def live(self) -> None:
        schedule, choice = self._schedule, self._choice
        world = schedule.world
        is_automatic = choice.random() < 0.5
        options = dict(schedule.protocol)
        if choice.random() < 0.5:
            options["max_poll_records"] = choice.choice((1, 7))
        consumer = self.consumer = Consumer(
            world.bootstrap,
            network=world.network,
            clock=world.clock,
            random=random.Random(choice.getrandbits(64)),
            group_id=GROUP,
            topics=TOPICS,
            listener=self,
            auto_offset_reset="earliest",
            enable_auto_commit=is_automatic,
            auto_commit_interval_ms=choice.choice((100, 1000)),
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
            max_poll_interval_ms=8000,
            fetch_max_wait_ms=1000,
            max_partition_fetch_bytes=choice.choice((300, 100_000)),
            request_timeout_ms=2000,
            default_api_timeout_ms=10_000,
            **options,
        )
        while not self.is_leaving:
            await self._turn(consumer, is_automatic=is_automatic)
        await consumer.close()  # `async with` would close a consumer that dies, too

    async def _turn(self, consumer: Consumer, *, is_automatic: bool) -> None:
        choice, schedule = self._choice, self._schedule
        try:
            if choice.random() < 0.1:
                async with asyncio.timeout(choice.choice((0.0, 0.01, 0.1))):
                    batches = await consumer.poll(0.5)
            else:
                batches = await consumer.poll(0.5)
        except TimeoutError:
            return
        except KafkaError as error:
            schedule.done[f"{type(error).__name__} {error.code.name}"] += 1
            await asyncio.sleep(0.1)
            return
        for records in batches:
            self._note(records.topic_partition, list(zip(records.offsets, records.raw_values, strict=True)))
        if schedule.is_wild and choice.random() < 0.02:
            await asyncio.sleep(choice.choice((3, 9, 15)))
        if not is_automatic and batches and choice.random() < 0.7:
            try:
                await consumer.commit()
            except KafkaError:
                await asyncio.sleep(0.05)

    def _note(self, one: TopicPartition, records: list[tuple[int, bytes | None]]) -> None:
        schedule, ownership = self._schedule, self.owned.get(one)
        if ownership is None:
            schedule.say(f"{self.machine.host} is handed {one} at {records[0][0]}, which it does not own")
            return
        for offset, value in records:
            if ownership.offsets and offset != ownership.offsets[-1] + 1:
                schedule.say(f"{self.machine.host} is handed {one} at {offset} after {ownership.offsets[-1]}")
            ownership.offsets.append(offset)
            schedule.seen.setdefault((one, offset), value)
            if schedule.seen[one, offset] != value:
                schedule.say(f"{one} at {offset} is now {value!r} and was {schedule.seen[one, offset]!r}")


class GroupSchedule(RoomSchedule):
    """One seed.  `run` returns the violations."""

    kinds: Sequence[str] = ("join", "leave", "die", "die", "reset", "cut", "broker", "clock")
    """What may happen, each as often as it stands here."""

    def __init__(self, seed: int, *, broker_count: int = 1) -> None:
        choice = random.Random(seed)
        self.protocol = choice.choice(PROTOCOLS)
        super().__init__(choice, RoomWorld(seed, broker_count=broker_count))
        self.ownerships: dict[TopicPartition, list[Ownership]] = {}
        self.seen: dict[tuple[TopicPartition, int], bytes | None] = {}
        self._members: list[tuple[Member, asyncio.Task[None]]] = []

    def run(self) -> list[str]:
        super().run()
        self.done["ownerships"] = sum(map(len, self.ownerships.values()))
        self.done["records"] = len(self.seen)
        return self.violations

    # ------------------------------------------------------------ what happens

    def _join(self) -> None:
        self.done["joined"] += 1
        machine = self.world.machine("member")
        member = Member(self, machine, random.Random(self.choice.getrandbits(64)))
        self._members.append((member, self.world.start(machine, member.live())))

    async def _work(self) -> None:
        writer = self.world.machine("writer")
        for _ in range(self.choice.randint(1, 3)):
            self._join()
        writing = self.world.start(writer, self._write())
        around = asyncio.get_running_loop().create_task(self._around())
        await writing
        around.cancel()
        await asyncio.wait([around])
        self._calm_down()
        if not any(not member.is_leaving for member, _ in self._members):
            self._join()
        await asyncio.sleep(CALM_S)
        self._check()
        for member, _ in self._members:
            member.is_leaving = True
        await asyncio.sleep(15)
        self._say_which_do_not_end(self._members)
        self.world.close()

    async def _write(self) -> None:
        choice, world = self.choice, self.world
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, batch_size=200, request_timeout_ms=1000) as producer:
            for number in range(choice.randint(10, 60)):
                one = choice.choice(PARTITIONS)
                try:
                    producer.send(one.topic, b"%d" % number, partition=one.partition)
                except ClientError:
                    self.done["refused"] += 1
                await asyncio.sleep(choice.choice((0, 0.05, 0.5, 1.0)))

    async def _around(self) -> None:
        choice, world = self.choice, self.world
        while True:
            await asyncio.sleep(choice.uniform(0.2, 5.0))
            kind = choice.choice(self.kinds)
            living = [each for each in self._members if not each[0].is_leaving]
            self.done[kind] += 1
            if kind == "join" and len(living) < 4:
                self._join()
            elif kind == "leave" and living:
                choice.choice(living)[0].is_leaving = True
            elif kind == "die" and living:
                self._members.remove(self._kill_one(living))
            elif kind == "clock":
                world.clock.skew_ms += choice.randint(-3_600_000, 3_600_000)
            else:
                await self._strike(kind, living, cuts_s=(1, 4, 9))

    # ------------------------------------------------------------ what must hold

    def _check(self) -> None:
        owners: Counter[TopicPartition] = Counter()
        for member, _ in self._members:
            if not member.is_leaving:
                owners.update(list(member.owned))
                if member.consumer is not None and set(member.consumer.assignment) != set(member.owned):
                    self.say(f"{member.machine.host} reads {member.consumer.assignment} and was told {sorted(member.owned)}")
        for one in PARTITIONS:
            if owners[one] != 1:
                self.say(f"{one} has {owners[one]} owners after {CALM_S:.0f} s of calm")
            self._compare(one)
            committed = self.world.room.committed_offset(GROUP, one)
            handed = max((each.offsets[-1] + 1 for each in self.ownerships.get(one, []) if each.offsets), default=0)
            if committed is not None and committed > handed:
                self.say(f"{one} is committed up to {committed}, and handed out up to {handed}")

    def _compare(self, one: TopicPartition) -> None:
        for offset, value in self.world.records_of(one):
            if (one, offset) not in self.seen:
                self.say(f"{one} at {offset} was handed out to nobody")
            elif self.seen[one, offset] != value:
                self.say(f"{one} at {offset} is {value!r}, and {self.seen[one, offset]!r} was handed out")


if __name__ == "__main__":
    raise SystemExit(run_seeds(GroupSchedule, CONSUMER_PLANTS))
