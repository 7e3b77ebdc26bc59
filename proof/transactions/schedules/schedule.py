"""● One schedule: clients, ghosts and faults of one seed, then calm, then the verdict.

outcome = Schedule(seed=7, version=2).run()
outcome.violations         the violations in words
outcome.done               the number of events of each kind
"""

import asyncio
import gc
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from moldau.testing.loop import SimLoop, Stuck
from proof.transactions.schedules.client import INPUT, Producer
from proof.transactions.schedules.notebook import Fence, Notebook, Snapshot
from proof.transactions.schedules.room import DATA, GROUP_OFFSETS, TRANSACTION_STATE, Room, remote_coordinator
from proof.transactions.schedules.session import Dead, Habits
from proof.transactions.schedules.verdict import judge, visible_in
from proof.transactions.schedules.wire import Weather, Wire

WORK_S: Final = 600.0
CALM_S: Final = 40.0
"""Longer than any time-out and any delay."""
TRANSACTION: Final = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


@dataclass(slots=True)
class Outcome:
    seed: int
    version: int
    violations: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)


class Schedule:
    """See the module."""

    def __init__(self, seed: int, *, version: int) -> None:
        self.seed = seed
        self.version = version
        self._choice = random.Random(f"{seed}/{version}")
        self._questions = random.Random(f"{seed}/{version}/questions")
        self.notebook = Notebook()
        self._violations: list[str] = []
        self._offsets: dict[str, int | None] = {}

    def run(self) -> Outcome:
        loop = SimLoop()
        outcome = Outcome(self.seed, self.version)
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            with remote_coordinator(self._question_delay_s):
                loop.run_until_complete(self._run())
            outcome.violations += [f"the loop caught {failure.get('exception') or failure['message']!r}" for failure in loop.failures]
        except Stuck as error:
            outcome.violations.append(f"stuck: {error}")
        finally:
            loop.forget_the_dead()
            loop.close()
            if was_enabled:
                gc.enable()
        outcome.violations += self._violations
        outcome.done.update(self.notebook.done)
        return outcome

    async def _run(self) -> None:
        choice = self._choice
        self.room = Room(random.Random(choice.getrandbits(64)), properties=TRANSACTION)
        weather = Weather(
            slow_chance=choice.choice((0.0, 0.02, 0.1, 0.25)),
            ghost_chance=choice.choice((0.3, 0.9)),
            ghost_s=choice.choice((2.0, 10.0)),
            replay_chance=choice.choice((0.0, 0.1)) if self.version == 2 else 0.0,
        )
        self.wire = Wire(self.room.serve, random.Random(choice.getrandbits(64)), weather, is_replayable=self._is_replayable)
        markers = Weather(
            slow_chance=choice.choice((0.0, 0.1)),
            slow_s=3.0,
            ghost_chance=0.9,
            ghost_s=weather.ghost_s,
            replay_chance=weather.replay_chance,
        )
        self.marker_wire = Wire(self.room.serve, random.Random(choice.getrandbits(64)), markers, is_replayable=self._is_replayable)
        self.room.send_markers_over(self.marker_wire)
        self.ids = ["copier", "billing"][: choice.choice((1, 1, 2))]
        self._offsets = dict.fromkeys(self._groups())
        lives = [asyncio.ensure_future(self._lives(transactional_id)) for transactional_id in self.ids]
        around = asyncio.ensure_future(self._around())
        try:
            async with asyncio.timeout(WORK_S):
                await asyncio.gather(*lives)
        except TimeoutError:
            self._violations.append(f"clients are still busy after {WORK_S:.0f} s")
        around.cancel()
        await self._calm()
        self._violations += self._judged()
        self._count()
        self.room.coordinators.close()

    def _question_delay_s(self) -> float:
        dice = self._questions.random()
        return self._questions.random() * (0.0 if dice < 0.5 else 0.01 if dice < 0.98 else 3.0)

    def _is_replayable(self, request: Any) -> bool:
        """Whether version 2 makes a repeated request safe at any time.

        A repeated InitProducerId fences again, and offset commits within one transaction have no order.
        """
        return not isinstance(request, InitProducerIdRequest | TxnOffsetCommitRequest)

    # clients

    async def _lives(self, transactional_id: str) -> None:
        """Run one client after the other with the same transactional id.  Sometimes an earlier client is not dead."""
        choice = random.Random(self._choice.getrandbits(64))
        left = choice.randint(3, 6)
        habits = Habits(version=self.version, has_one_connection=choice.random() < 0.5, crash_chance=choice.choice((0.0, 0.1)))
        zombies: list[asyncio.Future[None]] = []
        while left > 0:
            producer = Producer(transactional_id, habits, self.wire, self.notebook, random.Random(choice.getrandbits(64)))
            try:
                await producer.init()
                self._fence(producer)
                while left > 0:
                    left -= 1
                    if choice.random() < 0.06:
                        self.notebook.count("zombie")
                        zombies.append(asyncio.ensure_future(self._until_dead(producer)))
                        await asyncio.sleep(choice.random() * 0.1)
                        break
                    await producer.transaction()
            except Dead:
                await asyncio.sleep(choice.random() * 3)
        for zombie in zombies:
            await zombie

    async def _until_dead(self, producer: Producer) -> None:
        try:
            for _ in range(3):
                await producer.transaction()
        except Dead:
            pass

    def _fence(self, producer: Producer) -> None:
        """Note that from now on no client with an older epoch may write."""
        ends = {name: self.room.partition(name).log.log_end_offset for name in (*DATA, GROUP_OFFSETS)}
        self.notebook.fences.append(Fence(*producer.identity, ends))

    # events around the clients

    async def _around(self) -> None:
        choice = random.Random(self._choice.getrandbits(64))
        fails_over = choice.random() < 0.4
        while True:
            await asyncio.sleep(choice.expovariate(1.0))
            self.notebook.snapshots.append(self._snapshot())
            if fails_over and choice.random() < 0.2:
                self.notebook.count("fail-over")
                self.room.fail_over(choice.choice((GROUP_OFFSETS, TRANSACTION_STATE, *DATA)))

    async def _calm(self) -> None:
        """Wait until all requests on their way have arrived and all time-outs have passed."""
        await asyncio.sleep(CALM_S)
        for group in self._groups():
            if not await self.room.answers_offset_fetch(group):
                self._violations.append(f"hanging: nobody says where {group} stands")
        for wire in (self.wire, self.marker_wire):
            if wire.counts.pending:
                self._violations.append(f"{wire.counts.pending} requests are still on their way after {CALM_S:.0f} s of calm")

    # the verdict

    def _snapshot(self) -> Snapshot:
        logs = {name: self.room.partition(name).log for name in DATA}
        shards = self.room.coordinators.groups.active_shards()
        if shards:
            self._offsets = {group: self.room.committed_offset(group, INPUT) for group in self._groups()}
        return Snapshot(
            {name: visible_in(log) for name, log in logs.items()},
            {name: log.last_stable_offset for name, log in logs.items()},
            dict(self._offsets),
        )

    def _groups(self) -> list[str]:
        return [f"group-of-{transactional_id}" for transactional_id in self.ids]

    def _judged(self) -> list[str]:
        closed = self.room.closed_coordinators()
        if closed:
            return [f"the coordinator on {topic} is closed for good" for topic in closed]
        logs = {name: self.room.partition(name).log for name in (*DATA, GROUP_OFFSETS)}
        group_of = dict(zip(self.ids, self._groups(), strict=True))
        found = judge(self.notebook, logs, self._snapshot(), group_of)
        found += [f"hanging: offsets of {group} are pending" for group in self.room.pending_groups(self._groups())]
        found += [f"hanging: {producer} is in a transaction" for producer in self.room.open_producers()]
        return found + self.room.failures

    def _count(self) -> None:
        for wire, name in ((self.wire, ""), (self.marker_wire, "marker ")):
            counts = wire.counts
            for what in ("requests", "timeouts", "ghosts", "replays", "refused"):
                self.notebook.done[f"{name}{what}"] = getattr(counts, what)
