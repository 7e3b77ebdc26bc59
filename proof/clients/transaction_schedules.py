"""● Transactional producers of our client under schedules of faults around a real broker; each from a seed.

A writer fills a source.  Copiers consume, transform and produce: one transaction has the copies of a poll in two partitions, and the
group's offsets.  A seed decides the version of the transactions, and whether copiers share a transactional id, where a new one fences the
one before, or a group.  Copiers die, are replaced while they live, rest longer than their transaction may take, change their minds, are
cancelled.  Connections break before or after a request took effect, answers are late, the broker goes away, its coordinators load anew,
the wall clock jumps.  Then there is calm.

    python -m proof.clients.transaction_schedules 0 10000     # seeds; prints each violation with the seed that shows it

What must hold: each committed record of the source is in both outputs once, in order; a transaction whose commit returned is visible as a
whole, and one that was given up is not visible at all; every record's delivery is reported once, before its transaction or its producer
ends; no transaction and no offset stays open; the group's offset is behind the last record.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final

from moldau.clients.cluster import Unreachable
from moldau.clients.consumer import Consumer
from moldau.clients.errors import AbortableError, Fenced, RetriableError
from moldau.clients.producer import Delivery, Producer
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.loop import Machine
from moldau.types import TopicPartition
from proof.clients.broker_room import RoomWorld
from proof.clients.compression import SlowCompression
from proof.clients.group_schedules import PROTOCOLS
from proof.clients.plants import TRANSACTION_PLANTS
from proof.clients.room_schedule import RoomSchedule
from proof.clients.seeds import run_seeds
from proof.transactions.schedules.room import DATA, GROUP_OFFSETS, TRANSACTION_STATE
from proof.transactions.schedules.verdict import visible_in

GROUP: Final = "copiers"
SOURCE: Final = TopicPartition("payments", 0)
OUTPUTS: Final = (TopicPartition("orders", 0), TopicPartition("orders", 1))
CALM_S: Final = 90
TRANSACTION_TIMEOUT_MS: Final = 4000
MOST_SKEW_MS: Final = 3_000_000
"""Brokers refuse records from more than an hour ahead."""
MISUSE: Final = "the producer is "


class OnPurpose(Exception):
    """A copier changes its mind."""


class Fate(Enum):
    UNKNOWN = "of unknown fate"
    COMMITTED = "committed"
    ABORTED = "given up"


@dataclass(slots=True)
class Attempt:
    """One transaction of one client.  `sent`: the values, by partition."""

    number: int
    fate: Fate = Fate.UNKNOWN
    sent: dict[TopicPartition, list[int]] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    told: Counter[int] = field(default_factory=Counter)

    def send(self, producer: Producer, where: TopicPartition, content: int) -> None:
        value = self.number << 32 | content
        told = partial(self._tell, len(self.deliveries))
        delivery = producer.send(where.topic, value.to_bytes(8, "big"), partition=where.partition, on_delivery=told)
        self.deliveries.append(delivery)
        self.sent.setdefault(where, []).append(value)

    def _tell(self, place: int, *_: object) -> None:
        self.told[place] += 1


class Client:
    """A machine with a transactional producer, which begins another life when its producer can do no more."""

    def __init__(self, schedule: "TransactionSchedule", machine: Machine, transactional_id: str, choice: random.Random) -> None:
        self.machine = machine
        self.is_leaving = False
        self._id = transactional_id
        self._schedule = schedule
        self._choice = choice
        self._random = random.Random(f"{schedule.seed} {machine.host}")
        self._compression = random.Random(f"{schedule.seed} {machine.host}")
        self._attempts: list[Attempt] = []

    async def run(self) -> None:
        while not self.is_leaving:
            try:
                async with AsyncExitStack() as stack:
                    await self._live(stack)
            except Fenced:
                self._schedule.done["fenced"] += 1
                if self._has_successor():
                    return
            except (KafkaError, OSError, Unreachable) as error:
                self._note(error)
            self._all_told("a life")
            await asyncio.sleep(0.2)

    async def _live(self, stack: AsyncExitStack) -> None:
        raise NotImplementedError

    def _has_successor(self) -> bool:
        return False

    def _note(self, error: Exception) -> None:
        name = error.code.name if isinstance(error, KafkaError) else ""
        self._schedule.done[f"{type(error).__name__} {name}"] += 1
        if isinstance(error, KafkaError) and MISUSE in (error.detail or ""):
            self._schedule.say(f"{self.machine.host}: {error.detail}")

    async def _producer(self, stack: AsyncExitStack) -> Producer:
        choice, world = self._choice, self._schedule.world
        producer = Producer(
            world.bootstrap,
            network=world.network,
            clock=world.clock,
            random=self._random,
            transactional_id=self._id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            batch_size=choice.choice((60, 200, 20_000)),
            linger_ms=choice.choice((0, 0, 20)),
            request_timeout_ms=choice.choice((500, 2000)),
            delivery_timeout_ms=choice.choice((3000, 20_000)),
            max_block_ms=choice.choice((2000, 20_000)),
            compression_type=self._compression.choice(("none", "none", "gzip")),
            off_loop=SlowCompression(self._compression, large=100),
        )
        return await stack.enter_async_context(producer)

    async def _rest_or_give_up(self) -> None:
        choice = self._choice
        if self._schedule.is_wild and choice.random() < 0.05:
            await asyncio.sleep(choice.choice((1, TRANSACTION_TIMEOUT_MS / 1000 + 3)))
        if choice.random() < 0.15:
            raise OnPurpose

    async def _transact(self, producer: Producer, fill: Callable[[Attempt, Producer], Awaitable[None]]) -> Attempt:
        """One transaction.  Errors: those after which the producer has to be replaced, or the fate is unknown."""
        schedule, choice = self._schedule, self._choice
        attempt = schedule.attempt()
        self._attempts.append(attempt)
        is_to_commit = is_cancelled = False
        limit_s = choice.choice((0.0, 0.005, 0.05, 0.5)) if schedule.is_wild and choice.random() < 0.1 else None
        try:
            async with asyncio.timeout(limit_s), producer.transaction():
                await fill(attempt, producer)
                is_to_commit = True
        except OnPurpose:
            attempt.fate = Fate.ABORTED
        except AbortableError as error:
            attempt.fate = Fate.ABORTED
            self._note(error)
        except TimeoutError:
            is_cancelled = True
            schedule.done["cancelled"] += 1
            attempt.fate = Fate.UNKNOWN if is_to_commit else Fate.ABORTED
        except RetriableError as error:
            self._note(error)
            attempt.fate = Fate.UNKNOWN if is_to_commit else Fate.ABORTED
            if is_to_commit:
                await self._commit_again(producer, attempt)
        except (KafkaError, OSError, Unreachable) as error:
            attempt.fate = Fate.UNKNOWN if is_to_commit else Fate.ABORTED
            if not isinstance(error, Fenced):
                schedule.say(f"{self.machine.host}: a transaction ended with {error!r}")
            raise
        else:
            attempt.fate = Fate.COMMITTED
        if not is_cancelled:
            self._all_told("a transaction")
        schedule.done[attempt.fate.name] += 1
        return attempt

    async def _commit_again(self, producer: Producer, attempt: Attempt) -> None:
        while True:
            try:
                await producer.commit_transaction()
            except RetriableError:
                await asyncio.sleep(0.1)
            except AbortableError:
                await self._abort(producer)
                attempt.fate = Fate.ABORTED
                return
            else:
                attempt.fate = Fate.COMMITTED
                return

    async def _abort(self, producer: Producer) -> None:
        while True:
            try:
                return await producer.abort_transaction()
            except RetriableError:
                await asyncio.sleep(0.1)

    def _all_told(self, what: str) -> None:
        for attempt in self._attempts:
            for place, delivery in enumerate(attempt.deliveries):
                if not delivery.done() or attempt.told[place] != 1:
                    self._schedule.say(f"{self.machine.host}: a delivery is told {attempt.told[place]} times at the end of {what}")
            if attempt.fate is Fate.COMMITTED and any(delivery.exception() for delivery in attempt.deliveries):
                self._schedule.say(f"{self.machine.host}: a transaction is committed without a record whose delivery failed")
        self._attempts.clear()


class Writer(Client):
    """Fills the source: one record to five a transaction, some of which are given up."""

    async def _live(self, stack: AsyncExitStack) -> None:
        choice, schedule = self._choice, self._schedule
        producer = await self._producer(stack)
        while schedule.left_to_write:
            schedule.left_to_write -= 1
            await self._transact(producer, self._fill)
            await asyncio.sleep(choice.choice((0, 0.05, 0.5, 1.0)))
        self.is_leaving = True

    async def _fill(self, attempt: Attempt, producer: Producer) -> None:
        for content in range(self._choice.randint(1, 5)):
            attempt.send(producer, SOURCE, content)
        await self._rest_or_give_up()


class Copier(Client):
    """Copies the source into both outputs.  With a group its consumer is a member, else it reads from the group's offset by assignment."""

    def __init__(self, schedule: "TransactionSchedule", machine: Machine, choice: random.Random) -> None:
        self._protocol = schedule.protocol
        super().__init__(schedule, machine, "copier" if self._protocol is None else machine.host, choice)

    def _has_successor(self) -> bool:
        """A copier that is fenced without one was too slow: its transaction timed out."""
        return self._protocol is None and self._schedule.newest is not self

    async def _live(self, stack: AsyncExitStack) -> None:
        choice, world = self._choice, self._schedule.world
        producer = await self._producer(stack)
        options: dict[str, Any] = {} if self._protocol is None else {"topics": [SOURCE.topic], "session_timeout_ms": 6000, **self._protocol}
        consumer = Consumer(
            world.bootstrap,
            network=world.network,
            clock=world.clock,
            random=self._random,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            heartbeat_interval_ms=1000,
            max_poll_interval_ms=8000,
            max_poll_records=choice.choice((1, 7, None)),
            fetch_max_wait_ms=500,
            request_timeout_ms=2000,
            default_api_timeout_ms=10_000,
            **options,
        )
        stack.push_async_callback(consumer.close)
        if self._protocol is None:
            committed = (await consumer.committed([SOURCE]))[SOURCE]
            await consumer.assign({SOURCE: 0 if committed is None else committed.offset})
        while not self.is_leaving:
            await self._copy(producer, consumer)

    async def _copy(self, producer: Producer, consumer: Consumer) -> None:
        try:
            batches = await consumer.poll(0.5)
        except KafkaError as error:
            self._note(error)
            await asyncio.sleep(0.1)
            return
        found = [offset for records in batches for offset in records.offsets]
        if not found:
            return
        attempt = await self._transact(producer, partial(self._fill, offsets=found, consumer=consumer))
        if attempt.fate is not Fate.COMMITTED and SOURCE in consumer.assignment:
            if attempt.fate is Fate.UNKNOWN:
                raise RetriableError(ErrorCode.NONE, "begin again at the group's offset")
            consumer.seek(SOURCE, found[0])

    async def _fill(self, attempt: Attempt, producer: Producer, *, offsets: Sequence[int], consumer: Consumer) -> None:
        for offset in offsets:
            for where in OUTPUTS:
                attempt.send(producer, where, offset)
            if self._choice.random() < 0.1:
                await asyncio.sleep(self._choice.choice((0, 0.02, 0.3)))
        await self._rest_or_give_up()
        group = GROUP if self._protocol is None else consumer
        await producer.send_offsets({SOURCE: offsets[-1] + 1}, group)


class TransactionSchedule(RoomSchedule):
    """One seed.  `run` returns the violations."""

    kinds: Sequence[str] = ("die", "succeed", "reset", "cut", "broker", "coordinator", "clock")
    """What may happen, each as often as it stands here."""

    def __init__(self, seed: int, *, broker_count: int = 1) -> None:
        self.seed = seed
        choice = random.Random(seed)
        moving = (GROUP_OFFSETS, TRANSACTION_STATE, *DATA)
        world = RoomWorld(seed, transaction_version=choice.choice((1, 2)), broker_count=broker_count, moving=moving)
        self.protocol = choice.choice((None, *PROTOCOLS))
        self.left_to_write = choice.randint(3, 9)
        super().__init__(choice, world)
        self._attempts: list[Attempt] = []
        self.newest: Copier | None = None
        self._copiers: list[tuple[Copier, asyncio.Task[None]]] = []

    def attempt(self) -> Attempt:
        self._attempts.append(Attempt(len(self._attempts) + 1))
        return self._attempts[-1]

    # ------------------------------------------------------------ what happens

    def _new_copier(self) -> None:
        machine = self.world.machine("copier")
        self.newest = copier = Copier(self, machine, random.Random(self.choice.getrandbits(64)))
        self._copiers.append((copier, self.world.start(machine, copier.run())))

    async def _work(self) -> None:
        machine = self.world.machine("writer")
        self._new_copier()
        writer = Writer(self, machine, "writer", random.Random(self.choice.getrandbits(64)))
        writing = self.world.start(machine, writer.run())
        around = asyncio.get_running_loop().create_task(self._around())
        await writing
        await asyncio.sleep(self.choice.choice((0, 2, 5)))
        around.cancel()
        await asyncio.wait([around])
        self._calm_down()
        if all(copier is not self.newest or task.done() for copier, task in self._copiers):
            self._new_copier()  # the newest may have died a moment ago, and fenced the others before
        for _ in range(CALM_S):
            await asyncio.sleep(1)
            if self._is_settled():
                break
        for copier, _ in self._copiers:
            copier.is_leaving = True
        await asyncio.sleep(15)
        self._say_which_do_not_end(self._copiers)
        self._check()
        self._copiers.clear()
        self._attempts.clear()
        self.world.close()

    async def _around(self) -> None:
        choice, world = self.choice, self.world
        while True:
            await asyncio.sleep(choice.uniform(0.2, 2.0))
            kind = choice.choice(self.kinds)
            living = [each for each in self._copiers if not each[1].done()]
            self.done[kind] += 1
            if kind == "die" and living:
                self._copiers.remove(self._kill_one(living))
                await asyncio.sleep(choice.choice((0, 1)))
                self._new_copier()
            elif kind == "succeed" and len(living) < 3:
                self._new_copier()
            elif kind == "coordinator":
                world.load_anew(TRANSACTION_STATE)
            elif kind == "clock":
                world.clock.skew_ms = choice.randint(-MOST_SKEW_MS, MOST_SKEW_MS)
            else:
                await self._strike(kind, living, cuts_s=(0.5, 3, 6))

    # ------------------------------------------------------------ what must hold

    def _visible(self, one: TopicPartition) -> list[tuple[int, int]]:
        return visible_in(self.world.room.partition(one).log)

    def _is_settled(self) -> bool:
        wanted = len(self._visible(SOURCE))
        return all(len(self._visible(one)) >= wanted for one in OUTPUTS) and not self._open_parts()

    def _open_parts(self) -> list[str]:
        room = self.world.room
        found = [str(one) for one in (SOURCE, *OUTPUTS) if (log := room.partition(one).log).last_stable_offset != log.log_end_offset]
        open_producers = self.world.room_of(TRANSACTION_STATE).open_producers()
        return [*found, *room.pending_groups([GROUP]), *map(str, open_producers)]

    def _check(self) -> None:
        for part in self._open_parts():
            self.say(f"{part} is still in a transaction after the calm")
        source = [offset for offset, _ in self._visible(SOURCE)]
        self.done["records"] += len(source)
        seen = {one: [value for _, value in self._visible(one)] for one in (SOURCE, *OUTPUTS)}
        for one in OUTPUTS:
            copied = [value & 0xFFFFFFFF for value in seen[one]]
            if copied != source:
                self.say(f"{one} has copies of {copied}, and the source has {source}")
        for attempt in self._attempts:
            for one, values in attempt.sent.items():
                count = len(set(values) & set(seen[one]))
                if count not in {Fate.COMMITTED: (len(values),), Fate.ABORTED: (0,)}.get(attempt.fate, (0, len(values))):
                    self.say(f"{count} of {len(values)} records in {one} are visible of a transaction {attempt.fate.value}")
        committed = self.world.room.committed_offset(GROUP, SOURCE)
        if committed != (source[-1] + 1 if source else None):
            self.say(f"the group's offset is {committed}, and the last record is {source[-1:]}")


if __name__ == "__main__":
    raise SystemExit(run_seeds(TransactionSchedule, TRANSACTION_PLANTS))
