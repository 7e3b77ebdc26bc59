"""● Lives with transactions: counters on our own clients, beside the producers of every life.

A counter writes the next number into both partitions of a topic, and commits the number after it as the offset of a group, all in one
transaction; some transactions are given up.  Then its machine dies, or another counter takes its transactional id while it still lives.
A reader of committed records reads on all the time.  Replicas of the coordinators' partitions are moved, too.

    python -m proof.fleet --count --seeds 100

What must hold: a counter finds the number of the last transaction whose commit returned, or of a later one; the committed records of a
counter are 0, 1, 2, … in both partitions, for the reader at every moment and in the logs at the end; no transaction stays open.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from moldau.clients.cluster import Unreachable
from moldau.clients.consumer import Consumer
from moldau.clients.errors import Fenced
from moldau.clients.producer import Producer
from moldau.errors import KafkaError
from moldau.testing.loop import Machine
from moldau.types import TopicPartition
from proof.fleet.clients import PARTITIONS, RETRY_AFTER_S, THINK_S, TOPIC, Apart, Operator
from proof.fleet.fleet import COMPACTING, Fleet
from proof.fleet.life import FAULTS, Fault, Life, User
from proof.transactions.schedules.verdict import visible_in

NUMBERS: Final = "numbers"
OUTPUTS: Final = tuple(TopicPartition(NUMBERS, number) for number in range(PARTITIONS))
COUNTERS: Final = 2
TRANSACTION_TIMEOUT_MS: Final = 4000
COUNTER_BITS: Final = 48
GIVEN_UP: Final = 1 << 40
"""Added to the number of a transaction that is given up: nobody may see it."""


class OnPurpose(Exception):
    """A counter changes its mind."""


class Tally:
    """The knowledge of one counter that outlives its machines.  `acknowledged`: the numbers whose commit returned."""

    kind = "counted"

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.acknowledged: Final[list[int]] = []
        self.next_tried = 0
        """The number after the last one for which a transaction was begun."""
        self.newest: Counter | None = None
        self.is_to_end = False

    def __repr__(self) -> str:
        return f"counter {self.number}"

    @property
    def next_sure(self) -> int:
        return self.acknowledged[-1] + 1 if self.acknowledged else 0


class Counter(Apart):
    """One machine that counts for a tally."""

    def __init__(self, fleet: Fleet, tally: Tally, host: str) -> None:
        super().__init__(fleet, host)
        self.tally: Final = tally
        self.id: Final = f"counter-{tally.number}"
        tally.newest = self

    async def run(self) -> None:
        while not self.tally.is_to_end:
            try:
                await self._live()
            except Fenced:
                if self.tally.newest is not self:
                    return
            except (KafkaError, OSError, Unreachable):
                pass
            await asyncio.sleep(RETRY_AFTER_S)

    async def _live(self) -> None:
        timeouts: dict[str, Any] = {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, "delivery_timeout_ms": 10_000, "max_block_ms": 10_000}
        async with Producer(**self.options(), transactional_id=self.id, **timeouts) as producer:
            number = await self._next_number()
            while not self.tally.is_to_end:
                number = await self._count(producer, number)
                await asyncio.sleep(self.chance.expovariate(1 / THINK_S))

    async def _next_number(self) -> int:
        reading: dict[str, Any] = {"group_id": self.id, "isolation_level": "read_committed", "default_api_timeout_ms": 10_000}
        async with Consumer(**self.options(), **reading) as consumer:
            found = (await consumer.committed([OUTPUTS[0]]))[OUTPUTS[0]]
        number = 0 if found is None else found.offset
        tally = self.tally
        if tally.newest is self and not tally.next_sure <= number <= tally.next_tried:
            self.fleet.on_wrong(f"{tally} finds {number}; {tally.next_sure} is sure, {tally.next_tried} was tried")
        return number

    async def _count(self, producer: Producer, number: int) -> int:
        """The number after this transaction.  Errors: ClientError; then nobody knows whether it was committed."""
        is_given_up = self.chance.random() < 0.2
        value = self.tally.number << COUNTER_BITS | (GIVEN_UP if is_given_up else 0) | number
        self.tally.next_tried = max(self.tally.next_tried, number + 1)
        with suppress(OnPurpose):
            async with producer.transaction():
                for where in OUTPUTS:
                    producer.send(where.topic, value.to_bytes(8, "big"), partition=where.partition)
                if not is_given_up:
                    await producer.send_offsets({OUTPUTS[0]: number + 1}, self.id)
                if self.chance.random() < 0.1:
                    await asyncio.sleep(self.chance.choice((0.5, TRANSACTION_TIMEOUT_MS / 1000 + 2)))
                if is_given_up:
                    raise OnPurpose
            self.tally.acknowledged.append(number)
            return number + 1
        return number


class Reader(Apart):
    """A reader of committed records.  It begins again where it was.  `acknowledged`: the offsets behind what it got."""

    kind = "polls with records"

    def __init__(self, fleet: Fleet, host: str) -> None:
        super().__init__(fleet, host)
        self.acknowledged: Final[list[int]] = []
        self.is_to_end = False
        self.positions: Final = dict.fromkeys(OUTPUTS, 0)
        self._next: Final = {(where, counter): 0 for where in OUTPUTS for counter in range(COUNTERS)}

    def __repr__(self) -> str:
        return "the reader"

    async def run(self) -> None:
        while not self.is_to_end:
            with suppress(KafkaError, OSError, Unreachable):
                async with Consumer(
                    **self.options(), isolation_level="read_committed", auto_offset_reset="none", fetch_max_wait_ms=500
                ) as consumer:
                    await consumer.assign(self.positions)
                    while not self.is_to_end:
                        await self._read(consumer)
            await asyncio.sleep(RETRY_AFTER_S)

    async def _read(self, consumer: Consumer) -> None:
        for records in await consumer.poll(0.5):
            where = TopicPartition(records.topic, records.partition)
            for offset, value in zip(records.offsets, records.values, strict=True):
                self._take(where, offset, int.from_bytes(value, "big"))
            self.acknowledged.append(self.positions[where])

    def _take(self, where: TopicPartition, offset: int, value: int) -> None:
        counter, number = value >> COUNTER_BITS, value & ((1 << COUNTER_BITS) - 1)
        expected = self._next[where, counter]
        if offset < self.positions[where] or number != expected:
            self.fleet.on_wrong(f"the reader gets {number} of counter {counter} in {where} at {offset}, and {expected} comes next")
        self.positions[where] = offset + 1
        self._next[where, counter] = expected + 1


class CountingOperator(Operator):
    """An operator who moves the replicas of any topic."""

    async def create_topics(self) -> None:
        await super().create_topics()
        await self.create_topic(NUMBERS)

    def _some_topic(self) -> str:
        return self.chance.choice((TOPIC, NUMBERS, "__transaction_state", "__consumer_offsets"))


class Counting(Life):
    """See the module."""

    properties = COMPACTING

    def _new_operator(self) -> Operator:
        return CountingOperator(self.fleet)

    def _faults(self) -> Sequence[Fault]:
        return (*FAULTS, Counting._counter_dies, Counting._counter_succeeds)

    def __init__(self, seed: int, **more: Any) -> None:
        super().__init__(seed, **more)
        self.tallies: Final = [Tally(number) for number in range(COUNTERS)]
        self.reader: Final = Reader(self.fleet, "10.0.4.1")
        self.counters: Final[dict[Counter, asyncio.Task[None]]] = {}
        """Every counter that ever was, and its work."""

    def _begin_more_work(self) -> None:
        self.working.append(self.loop.start(self.reader.machine, self.reader.run()))
        for tally in self.tallies:
            self._count_anew(tally)

    def _count_anew(self, tally: Tally) -> None:
        counter = Counter(self.fleet, tally, f"10.0.3.{len(self.counters) + 1}")
        self.counters[counter] = task = self.loop.start(counter.machine, counter.run())
        self.working.append(task)

    async def _counter_dies(self) -> None:
        counter = self.chance.choice(self.tallies).newest
        if counter is None or not counter.machine.is_alive:
            return
        self.working.remove(self.counters[counter])
        self.loop.kill(counter.machine)
        self.fleet.network.crash(counter.machine, silently=self.chance.random() < 0.5)
        self.loop.call_later(self._a_while(), self._count_anew, counter.tally)

    async def _counter_succeeds(self) -> None:
        """Let a new counter take the transactional id of one that lives."""
        self._count_anew(self.chance.choice(self.tallies))

    def _users(self) -> Sequence[User]:
        return [*self.producers, *self.tallies, self.reader]

    def _machines(self) -> list[Machine]:
        return [*super()._machines(), self.reader.machine, *(counter.machine for counter in self.counters)]

    def _check_records(self) -> None:
        super()._check_records()
        for where in OUTPUTS:
            log = self._log_of(where)
            if log.last_stable_offset != log.log_end_offset:
                self._wrong(f"{where} is stable up to {log.last_stable_offset} only, and ends at {log.log_end_offset}")
                return
            visible = [value for _, value in visible_in(log)]
            for tally in self.tallies:
                mine = [value & ((1 << COUNTER_BITS) - 1) for value in visible if value >> COUNTER_BITS == tally.number]
                if mine != list(range(len(mine))) or not tally.next_sure <= len(mine) <= tally.next_tried:
                    self._wrong(f"{tally} has counted {mine} in {where}; {tally.next_sure} is sure, {tally.next_tried} was tried")
