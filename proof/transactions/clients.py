"""● Transactional clients of a simulated cluster: copiers read, write and commit offsets, and an auditor reads their output.

Each copier has one partition of the source for itself.  It copies the partition, in transactions of either version, into two partitions
that all copiers share.  A copier dies, is taken over while it lives on, gives up, or pauses beyond its time-out.  It aborts some
transactions, and may leave the last one of a round open.  The auditor reads committed records all the while, from changing offsets, and
puts records without a transaction between them.  When all is calm, only its time-out ends an open transaction.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from moldau.errors import ErrorCode, KafkaError
from moldau.net.transport import Network
from moldau.types import TopicPartition
from proof.cluster.workload import Notes
from proof.transactions.audit import Auditor
from proof.transactions.history import TransactionHistory, check_transactions
from proof.transactions.reading import (
    FETCH_VERSION,
    OFFSET_FETCH_VERSION,
    RETRY_S,
    TransactionClient,
    code_of_fetch,
    code_of_offsets,
    committed_records,
    fetch_request,
    offsets_request,
)
from proof.transactions.schedules.notebook import Attempt, Fate, Place, Snapshot
from proof.transactions.schedules.session import RETRIABLE, Dead, Habits, MustAbort, Session

COPIERS: Final = 2
OUTPUTS: Final = 2
SOURCE_RECORDS: Final = 1500
TRANSACTION_TIMEOUT_MS: Final = 5_000
ABORT_INTERVAL_MS: Final = 1_000
HANGS_AFTER_S: Final = 20.0
"""The time-out, the interval between looks at time-outs, and time enough to write markers."""
LONGEST_PAUSE_S: Final = 1.0
TRANSACTION_PROPERTIES: Final = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(ABORT_INTERVAL_MS),
}


class Copying(Session):
    """One life of a copier."""

    retriable = RETRIABLE | {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.NETWORK_EXCEPTION,
    }

    def __init__(self, copier: "Copier", habits: Habits, choice: random.Random) -> None:
        super().__init__(copier.name, habits, copier, copier.history.notebook, choice)
        self._history: Final = copier.history
        self._source: Final = copier.source
        self._outputs: Final = copier.outputs
        self._position = 0
        self._read: dict[int, int] = {}

    @property
    def is_at_the_end(self) -> bool:
        return self._position >= SOURCE_RECORDS

    async def start(self) -> None:
        """Fence the life before, and begin at the group's committed offset.  Errors: Dead."""
        await self.init()
        request = offsets_request(self.group)
        response = await self._ask("group", lambda: request, OFFSET_FETCH_VERSION, code_of=code_of_offsets, is_read=True)
        committed = [one.committed_offset for topic in response.groups[0].topics for one in topic.partitions]
        self._position = max(committed, default=0)

    async def copy(self) -> None:
        """Copy in one transaction.  If it is not committed, its records are read again.  Errors: Dead."""
        before = self._position
        await self.transaction()
        if self._last.fate is not Fate.COMMITTED:
            self._position = before

    async def leave_open(self) -> None:
        """End a life in the middle of a transaction.  Errors: Dead."""
        with suppress(MustAbort):
            await self._work(self._begin())
        self._notebook.count("left open")
        self.vanish()

    def _begin(self) -> Attempt:
        self._last = super()._begin()
        return self._last

    async def _work(self, attempt: Attempt) -> None:
        for _ in range(self._choice.randint(1, 3)):
            chosen = await self._take(attempt, self._choice.randint(1, 4))
            if self.habits.version == 1:
                await self._add([each for each in chosen if each not in self._added])
            await self._send_all(attempt, chosen.items())
            await self._maybe_pause()
            if self._choice.random() < 0.3:
                await self._commit_offset_of(attempt, self._source, self._position)
        await self._commit_offset_of(attempt, self._source, self._position)

    async def _take(self, attempt: Attempt, count: int) -> dict[TopicPartition, list[int]]:
        """Read the next records of the source.  Returns output partition → the values to write."""
        chosen: dict[TopicPartition, list[int]] = {}
        for _ in range(min(count, SOURCE_RECORDS - self._position)):
            if self._position not in self._read:
                await self._fetch()
            if self._read[self._position] != self._position:
                self._notebook.violations.append(f"{self._source} holds {self._read[self._position]} at {self._position}")
            value = self._notebook.new_value(attempt)
            self._history.sources[value] = Place(self._source, self._position, self._loop.time())
            chosen.setdefault(self._choice.choice(self._outputs), []).append(value)
            self._position += 1
        return chosen

    async def _fetch(self) -> None:
        request = fetch_request([(self._source, self._position)], max_bytes=1)
        response = await self._ask("source", lambda: request, FETCH_VERSION, code_of=code_of_fetch, is_read=True)
        _, records = committed_records(response.responses[0].partitions[0])
        self._read = dict(records)

    async def _maybe_pause(self) -> None:
        dice = self._choice.random()
        if dice < self.habits.pause_chance:
            self._notebook.count("paused")
            await asyncio.sleep(self.habits.timeout_ms / 1000 + 3 * self._choice.random())
        elif dice < 0.3:
            await asyncio.sleep(LONGEST_PAUSE_S * self._choice.random())


class Copier(TransactionClient):
    """One life after the other with the same transactional id.  Sometimes an earlier life is not dead."""

    def begin(self, history: TransactionHistory, source: TopicPartition, outputs: list[TopicPartition]) -> None:
        self.history = history
        self.source = source
        self.outputs = outputs

    async def run(self, until_s: float) -> None:
        choice, zombies = self.choice, []
        while self._loop.time() < until_s:
            life = Copying(self, self._habits(), random.Random(choice.getrandbits(64)))
            try:
                await life.start()
                if life.is_at_the_end:
                    break
                while self._loop.time() < until_s and not life.is_at_the_end:
                    dice = choice.random()
                    if dice < 0.04:
                        self.history.notebook.count("zombie")
                        zombies.append(asyncio.ensure_future(self._until_dead(life)))
                        await asyncio.sleep(choice.random() * 0.3)
                        break
                    if dice < 0.08:
                        await life.leave_open()
                        break
                    await life.copy()
                    await asyncio.sleep(choice.expovariate(2.0))
            except Dead:
                await asyncio.sleep(choice.random() * 2)
        for zombie in zombies:
            await zombie
        await self._last_life()

    async def _last_life(self) -> None:
        if self.choice.random() < 0.7:
            life = Copying(self, self._habits(), random.Random(self.choice.getrandbits(64)))
            with suppress(Dead):
                await life.start()
                await life.leave_open()

    def _habits(self) -> Habits:
        return Habits(
            version=self.choice.choice((1, 2)),
            has_one_connection=self.choice.random() < 0.5,
            timeout_ms=TRANSACTION_TIMEOUT_MS,
            crash_chance=0.05,
        )

    async def _until_dead(self, life: Copying) -> None:
        with suppress(Dead):
            for _ in range(3):
                if not life.is_at_the_end:
                    await life.copy()


class Transactions:
    """All transactional clients of a simulation, round by round."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._round = 0
        self.history = TransactionHistory()
        self.copiers: list[Copier] = []
        self.auditor: Auditor | None = None

    def add(self, number: int, network: Network, address: tuple[str, int], choice: random.Random) -> "Copier | Auditor":
        """Add a client: `COPIERS` copiers first, and then the auditor."""
        if number == COPIERS:
            self.auditor = Auditor("auditor", network, address, choice)
            return self.auditor
        copier = Copier(f"copier-{number}", network, address, choice)
        self.copiers.append(copier)
        return copier

    async def prepare(self) -> None:
        """Make topics with records to copy, and coordinators.  Called on the auditor's machine before faults strike."""
        auditor = self._auditor()
        self._round += 1
        self.history = TransactionHistory()
        outputs = self._outputs
        auditor.begin(self.history, outputs)
        for number, copier in enumerate(self.copiers):
            copier.begin(self.history, TopicPartition(self._source, number), outputs)
        ids = [copier.name for copier in self.copiers]
        groups = list(self._group_of().values())
        await self._at_last(partial(auditor.create, {self._source: COPIERS, self._output: OUTPUTS}, groups, ids))
        for copier in self.copiers:
            await self._at_last(partial(auditor.fill, copier.source, SOURCE_RECORDS))

    async def run(self, client: "Copier | Auditor", until_s: float) -> None:
        await (client.run(until_s, self._notes) if isinstance(client, Auditor) else client.run(until_s))

    async def find_violations(self, until_s: float) -> list[str]:
        """Check everything when all is calm.  Called on the auditor's machine.  Returns the violations in words."""
        auditor, loop = self._auditor(), asyncio.get_running_loop()
        groups = self._group_of()
        hanging = ["nobody knows"]
        while hanging and loop.time() < until_s:
            try:
                hanging = await auditor.what_hangs(list(groups.values()))
            except (OSError, KafkaError) as error:
                hanging = [str(error)]
            await asyncio.sleep(RETRY_S)
        if hanging:
            return [f"hanging {HANGS_AFTER_S:.0f} s after the last copier: {one}" for one in hanging]
        visible, committed = {}, {}
        for partition in self._outputs:
            visible[partition] = await self._at_last(partial(auditor.read_all, partition))
        for group in groups.values():
            committed[group] = await self._at_last(partial(auditor.committed, group))
        for what, count in self.history.notebook.done.items():
            self._notes.done[f"transactions {what}"] += count
        self._notes.done["transactional records visible"] += sum(len(seen) for seen in visible.values())
        self._notes.done["transactional records shown"] += sum(len(sight.records) for sight in self.history.sights)
        found = check_transactions(self.history, Snapshot(visible, {}, committed), groups)
        await self._at_last(partial(auditor.delete, [self._source, self._output]))
        return found

    async def _at_last(self, what: Callable[[], Awaitable[Any]]) -> Any:
        """Try again and again until it succeeds.  The caller has a time-out."""
        while True:
            try:
                return await what()
            except (OSError, KafkaError):
                await asyncio.sleep(RETRY_S)

    def _auditor(self) -> Auditor:
        assert self.auditor is not None, "no clients were added"
        return self.auditor

    def _group_of(self) -> dict[str, str]:
        return {copier.name: f"group-of-{copier.name}" for copier in self.copiers}

    @property
    def _source(self) -> str:
        return f"source-{self._round}"

    @property
    def _output(self) -> str:
        return f"output-{self._round}"

    @property
    def _outputs(self) -> list[TopicPartition]:
        return [TopicPartition(self._output, partition) for partition in range(OUTPUTS)]
