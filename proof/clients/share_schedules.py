"""● Share consumers of one group, and a producer, under schedules of faults around a real broker; each from a seed.

Members accept, release, reject and renew, in the implicit and the explicit mode.  They come, leave, die and rest longer than their locks
last.  The other faults are those of `group_schedules`.

    python -m proof.clients.share_schedules 0 10000     # seeds; prints each violation with the seed that shows it

What must hold: a record whose acceptance or rejection was confirmed is in no answer to a later fetch; no record is delivered more often
than allowed; an offset always has the same value; each record is accepted or rejected by some member in the end; the callback tells each
acknowledgement of a member that closes.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final

from moldau.clients.cluster import Unreachable
from moldau.clients.errors import ClientError
from moldau.clients.producer import Producer
from moldau.clients.share import Acknowledge, ShareConsumer, SharedRecord
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.loop import Machine
from moldau.types import TopicPartition
from proof.clients.broker_room import RoomWorld
from proof.clients.plants import SHARE_PLANTS
from proof.clients.room_schedule import RoomSchedule
from proof.clients.seeds import run_seeds
from proof.transactions.schedules.room import DATA, GROUP_OFFSETS, SHARE_STATE

GROUP: Final = "workers"
TOPIC: Final = "orders"
PARTITIONS: Final = tuple(one for one in DATA if one.topic == TOPIC)
DELIVERIES: Final = 10
LOCK_S: Final = 3.0
CALM_S: Final = 60
GROUP_VALUES: Final[dict[str, Any]] = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": int(LOCK_S * 1000),
    "share.delivery.count.limit": DELIVERIES,
}
FINAL: Final = frozenset({Acknowledge.ACCEPT, Acknowledge.REJECT})
Place = tuple[TopicPartition, int]


class Member:
    """One share consumer, and what it said and was told."""

    def __init__(self, schedule: "ShareSchedule", machine: Machine, choice: random.Random) -> None:
        self.machine = machine
        self.is_leaving = False
        self._schedule = schedule
        self._choice = choice
        self._is_explicit = choice.random() < 0.6
        self._said: dict[Place, Acknowledge] = {}
        self._told: set[Place] = set()
        self._handed_out: list[Place] = []

    async def live(self) -> None:
        schedule, choice = self._schedule, self._choice
        consumer = ShareConsumer(
            schedule.world.bootstrap,
            GROUP,
            [TOPIC],
            None,
            self._on_acknowledged,
            self.machine.host,
            network=schedule.world.network,
            share_acknowledgement_mode="explicit" if self._is_explicit else "implicit",
            share_acquire_mode=choice.choice(("batch_optimized", "record_limit")),
            max_poll_records=choice.choice((1, 5, 500)),
            fetch_max_wait_ms=choice.choice((100, 500)),
            request_timeout_ms=2000,
        )
        while not self.is_leaving:
            try:
                await self._turn(consumer)
            except (KafkaError, OSError, Unreachable) as error:
                schedule.done[type(error).__name__] += 1
                await asyncio.sleep(0.1)
        await consumer.close()
        for place in self._said.keys() - self._told:
            schedule.say(f"{self.machine.host} was never told of its acknowledgement of {place}")

    async def _turn(self, consumer: ShareConsumer) -> None:
        choice, schedule = self._choice, self._schedule
        self._accept_implicitly()
        for shared in await consumer.poll(wait_s=1.0):
            place = schedule.delivered(self.machine.host, shared)
            kind = choice.choices(list(Acknowledge)[1:], (70, 15, 5, 10))[0] if schedule.is_wild else Acknowledge.ACCEPT
            if kind is Acknowledge.RENEW and self._is_explicit:
                self._said.pop(place, None)  # what was said of an earlier delivery is not what the renewal's answer confirms
                consumer.acknowledge(shared, kind)
                await consumer.commit()
                kind = Acknowledge.ACCEPT
            if kind is Acknowledge.RENEW or (kind is Acknowledge.ACCEPT and not self._is_explicit):
                self._handed_out.append(place)
                continue
            self._say(place, kind)
            consumer.acknowledge(shared, kind)
        if schedule.is_wild and choice.random() < 0.03:
            await asyncio.sleep(choice.choice((1.0, LOCK_S + 1)))
        if choice.random() < 0.3:
            self._accept_implicitly()
            await consumer.commit()

    def _accept_implicitly(self) -> None:
        for place in self._handed_out:
            self._say(place, Acknowledge.ACCEPT)
        self._handed_out.clear()

    def _say(self, place: Place, kind: Acknowledge) -> None:
        self._said[place] = kind
        self._told.discard(place)
        if kind in FINAL:
            self._schedule.ended.add(place)

    def _on_acknowledged(self, one: TopicPartition, offsets: list[int], code: ErrorCode) -> None:
        for offset in offsets:
            self._told.add((one, offset))
            if code is ErrorCode.NONE and self._said.get((one, offset)) in FINAL:
                self._schedule.confirmed.setdefault((one, offset), self._schedule.world.loop.time())


class ShareSchedule(RoomSchedule):
    """One seed.  `run` returns the violations."""

    kinds: Sequence[str] = ("join", "leave", "die", "reset", "cut", "broker")
    """What may happen, each as often as it stands here."""

    def __init__(self, seed: int, *, broker_count: int = 1) -> None:
        world = RoomWorld(seed, share_group=GROUP_VALUES, broker_count=broker_count, moving=(GROUP_OFFSETS, SHARE_STATE, *DATA))
        super().__init__(random.Random(seed), world)
        self.ended: set[Place] = set()
        self.confirmed: dict[Place, float] = {}
        self._seen: dict[Place, bytes | None] = {}
        self._members: list[tuple[Member, asyncio.Task[None]]] = []

    def delivered(self, host: str, shared: SharedRecord) -> Place:
        record = shared.record
        place = (TopicPartition(record.topic, record.partition), record.offset)
        self.done["delivered"] += 1
        if self._seen.setdefault(place, record.value) != record.value:
            self.say(f"{place} is now {record.value!r} and was {self._seen[place]!r}")
        if shared.delivery_count > DELIVERIES:
            self.say(f"{place} is delivered to {host} for the time {shared.delivery_count}")
        if self.confirmed.get(place, shared.asked_at) < shared.asked_at:
            self.say(f"{place} was confirmed at {self.confirmed[place]:.3f} s, and {host} got it by a fetch at {shared.asked_at:.3f} s")
        return place

    # ------------------------------------------------------------ what happens

    def _join(self) -> None:
        machine = self.world.machine("member")
        member = Member(self, machine, random.Random(self.choice.getrandbits(64)))
        self._members.append((member, self.world.start(machine, member.live())))

    async def _work(self) -> None:
        for _ in range(self.choice.randint(1, 2)):
            self._join()
        writing = self.world.start(self.world.machine("writer"), self._write())
        around = asyncio.get_running_loop().create_task(self._around())
        await writing
        around.cancel()
        await asyncio.wait([around])
        self._calm_down()
        if not any(not member.is_leaving for member, _ in self._members):
            self._join()
        for _ in range(CALM_S):
            await asyncio.sleep(1)
            if not self._left():
                break
        for member, _ in self._members:
            member.is_leaving = True
        await asyncio.sleep(15)
        self._say_which_do_not_end(self._members)
        for place in self._left():
            self.say(f"{place} was neither accepted nor rejected by anybody")
        self.done["records"] = len(self._seen)
        self._members.clear()
        self.world.close()

    def _left(self) -> list[Place]:
        return [(one, offset) for one in PARTITIONS for offset, _ in self.world.records_of(one) if (one, offset) not in self.ended]

    async def _write(self) -> None:
        choice, world = self.choice, self.world
        async with Producer(world.bootstrap, network=world.network, clock=world.clock, batch_size=200, request_timeout_ms=1000) as producer:
            for number in range(choice.randint(5, 25)):
                one = choice.choice(PARTITIONS)
                try:
                    producer.send(one.topic, b"%d" % number, partition=one.partition)
                except ClientError:
                    self.done["refused"] += 1
                await asyncio.sleep(choice.choice((0, 0.05, 0.5)))

    async def _around(self) -> None:
        choice = self.choice
        while True:
            await asyncio.sleep(choice.uniform(0.2, 2.0))
            kind = choice.choice(self.kinds)
            living = [each for each in self._members if not each[0].is_leaving]
            self.done[kind] += 1
            if kind == "join" and len(living) < 3:
                self._join()
            elif kind == "leave" and living:
                choice.choice(living)[0].is_leaving = True
            elif kind == "die" and living:
                self._members.remove(self._kill_one(living))
            else:
                await self._strike(kind, living, cuts_s=(0.5, 4), absences_s=(0.0, 0.5, 2.0))


if __name__ == "__main__":
    raise SystemExit(run_seeds(ShareSchedule, SHARE_PLANTS))
