"""● A transactional client like Java's and librdkafka's: it adds, sends, commits offsets, ends, and tries again until it knows the outcome.

A request without an answer is sent again on a new connection.  A client never guesses an outcome.  After an answer that fences it, or when
it is told to die, the client stops, and a successor takes over with InitProducerId.  With version 1 a client adds partitions itself and
keeps its epoch, but takes a new one after it gave up on a record (KIP-360).  With version 2 it leaves the adding to the broker and gets a
new epoch at every end.

`Session._work` of a subclass does the work of a transaction: `client.py` in schedules, `proof/transactions/clients.py` in a simulated node.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from moldau.errors import ErrorCode
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.clock import EPOCH_MS
from moldau.types import TopicPartition
from proof.transactions.schedules.notebook import Attempt, Fate, Notebook
from proof.transactions.schedules.wire import Lost, Make

RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
ABORTABLE: Final = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})
FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
BACKOFF_S: Final = 0.05
PATIENCE_S: Final = 200.0
"""Long enough for everything that ends by itself."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The request versions of one transaction.version."""

    produce: int
    end_txn: int
    txn_offset_commit: int


VERSIONS: Final = {1: Versions(produce=11, end_txn=4, txn_offset_commit=4), 2: Versions(produce=12, end_txn=5, txn_offset_commit=5)}
ADD_PARTITIONS_VERSION: Final = 3
ADD_OFFSETS_VERSION: Final = 4
INIT_VERSION: Final = 5


class Dead(Exception):
    """The client is fenced, or ends without a word."""


class MustAbort(Exception):
    """The transaction cannot be committed any more."""


class Line(Protocol):
    """One connection to the broker."""

    @property
    def is_given_up(self) -> bool:
        """Whether the client gave the connection up."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the broker closed the connection."""
        ...

    async def ask(self, make: Make, version: int) -> Any:
        """Send a request and wait for the answer.  Errors: Lost."""

    def give_up(self) -> None: ...


class Lines(Protocol):
    def connect(self) -> Line: ...


@dataclass(slots=True, kw_only=True)
class Habits:
    """The habits of a client, with their chances."""

    version: int
    has_one_connection: bool
    """True: one connection for all on one broker, as in Java.  False: one a coordinator and one for producing, as in librdkafka."""
    timeout_ms: int = 5_000
    transactions: int = 5
    abort_chance: float = 0.25
    give_up_chance: float = 0.2
    """The chance that a record or offset without an answer is given up instead of sent again."""
    crash_chance: float = 0.01
    """The chance that a request without an answer is the client's last one."""
    pause_chance: float = 0.02
    """The chance of a pause within a transaction that is longer than its time-out."""


@dataclass(slots=True)
class Identity:
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


class Session:
    """One life of a client, from `init` on."""

    retriable = RETRIABLE

    def __init__(self, transactional_id: str, habits: Habits, lines: Lines, notebook: Notebook, choice: random.Random) -> None:
        self.transactional_id: Final = transactional_id
        self.habits: Final = habits
        self._versions: Final = VERSIONS[habits.version]
        self._lines: Final = lines
        self._notebook: Final = notebook
        self._choice: Final = choice
        self._loop: Final = asyncio.get_running_loop()
        self._identity = Identity()
        self._open_lines: dict[str, Line] = {}
        self._added: set[TopicPartition | str] = set()
        self._needs_epoch = False
        self._life = 0

    @property
    def identity(self) -> tuple[int, int]:
        return self._identity.producer_id, self._identity.epoch

    @property
    def group(self) -> str:
        return f"group-of-{self.transactional_id}"

    async def init(self) -> None:
        """Errors: Dead."""
        await self._init(Identity())
        self._life = self._notebook.take_over(self.transactional_id, self._loop.time())

    async def transaction(self) -> None:
        """Run one transaction, committed or aborted.  Errors: Dead."""
        attempt = self._begin()
        try:
            await self._work(attempt)
            if self._choice.random() < self.habits.abort_chance:
                await self._end(attempt, is_commit=False)
            else:
                await self._end(attempt, is_commit=True)
        except MustAbort:
            self._notebook.count("given up")
            await self._end(attempt, is_commit=False)
        if self._needs_epoch and self.habits.version == 1:
            await self._init(self._identity)
        self._needs_epoch = False

    def _begin(self) -> Attempt:
        self._added = set()
        return self._notebook.begin(self.transactional_id, self.habits.version)

    async def _work(self, attempt: Attempt) -> None:
        """Do the work of the transaction.  Errors: Dead, MustAbort."""
        raise NotImplementedError

    def vanish(self) -> None:
        """End the process.  Requests on its connections may still arrive."""
        for line in self._open_lines.values():
            line.give_up()

    # the requests of a transaction

    async def _init(self, known: Identity) -> None:
        def make() -> InitProducerIdRequest:
            return InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.habits.timeout_ms,
                producer_id=known.producer_id,
                producer_epoch=known.epoch,
            )

        response = await self._ask("coordinator", make, INIT_VERSION, code_of=lambda said: said.error_code)
        self._identity = Identity(response.producer_id, response.producer_epoch)
        self._notebook.count("init")

    async def _add(self, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        producer_id, epoch = self.identity

        def make() -> AddPartitionsToTxnRequest:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=each.topic, partitions=[each.partition]) for each in partitions],
            )

        await self._ask(
            "coordinator",
            make,
            ADD_PARTITIONS_VERSION,
            code_of=lambda said: said.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        self._added |= set(partitions)

    async def _send_all(self, attempt: Attempt, values: Iterable[tuple[TopicPartition, Sequence[int]]]) -> None:
        """Send to several partitions at once."""
        results = await asyncio.gather(*(self._send(attempt, partition, those) for partition, those in values), return_exceptions=True)
        for wrong in results:
            if isinstance(wrong, BaseException):
                raise wrong

    async def _send(self, attempt: Attempt, partition: TopicPartition, values: Sequence[int]) -> None:
        identity = self._identity
        producer_id, epoch = self.identity
        sequence = identity.sequences.get(partition, 0)
        identity.sequences[partition] = sequence + len(values)
        self._added.add(partition)

        def make() -> ProduceRequest:
            batch = build_batch(
                [NewRecord(EPOCH_MS, None, value.to_bytes(8, "big")) for value in values],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            data = PartitionProduceData(index=partition.partition, records=memoryview(batch))
            return ProduceRequest(
                transactional_id=self.transactional_id,
                acks=-1,
                timeout_ms=1000,
                topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
            )

        response = await self._ask(
            "produce",
            make,
            self._versions.produce,
            code_of=lambda said: said.responses[0].partition_responses[0].error_code,
            may_give_up=True,
        )
        base_offset = response.responses[0].partition_responses[0].base_offset
        attempt.acknowledged(partition, values, base_offset, self._loop.time())

    async def _commit_offset_of(self, attempt: Attempt, source: TopicPartition, offset: int) -> None:
        producer_id, epoch = self.identity
        if self.habits.version == 1 and self.group not in self._added:

            def make_add() -> AddOffsetsToTxnRequest:
                return AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=self.group
                )

            await self._ask("coordinator", make_add, ADD_OFFSETS_VERSION, code_of=lambda said: said.error_code)
        self._added.add(self.group)

        def make() -> TxnOffsetCommitRequest:
            partition = TxnOffsetCommitRequestPartition(partition_index=source.partition, committed_offset=offset, committed_metadata="")
            return TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=self.group,
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=[TxnOffsetCommitRequestTopic(name=source.topic, partitions=[partition])],
            )

        await self._ask(
            "group",
            make,
            self._versions.txn_offset_commit,
            code_of=lambda said: said.topics[0].partitions[0].error_code,
            may_give_up=True,
        )
        attempt.offset = offset

    async def _end(self, attempt: Attempt, *, is_commit: bool) -> None:
        producer_id, epoch = self.identity
        if self.habits.version == 1 and not self._added:
            return  # without an added partition the coordinator knows of no transaction

        def make() -> EndTxnRequest:
            return EndTxnRequest(transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=is_commit)

        if is_commit:
            attempt.fate = Fate.UNKNOWN
        asked_s = self._loop.time()
        response = await self._ask("coordinator", make, self._versions.end_txn, code_of=lambda said: said.error_code)
        if is_commit or self.habits.version == 1:  # with version 2 an abort succeeds although the coordinator has aborted before
            attempt.was_open_until_s = asked_s
        if is_commit:
            attempt.fate = Fate.COMMITTED
        self._notebook.count("committed" if is_commit else "aborted")
        if self.habits.version == 2:
            self._identity = Identity(response.producer_id, response.producer_epoch)

    # asking

    async def _ask(
        self, to: str, make: Make, version: int, *, code_of: Callable[[Any], int], may_give_up: bool = False, is_read: bool = False
    ) -> Any:
        """Ask until there is an answer without an error.  Errors: Dead, MustAbort."""
        patience_s = self._loop.time() + PATIENCE_S
        while True:
            asked_s = self._loop.time()
            try:
                response = await self._line(to).ask(make, version)
            except Lost:
                if self._choice.random() < self.habits.crash_chance:
                    self.vanish()
                    self._notebook.count("crashed")
                    raise Dead from None
                if may_give_up and self._choice.random() < self.habits.give_up_chance:
                    self._needs_epoch = True
                    raise MustAbort from None
                continue
            code = ErrorCode.of(code_of(response))
            if code is ErrorCode.NONE:
                if self._life and not is_read:
                    self._notebook.check_zombie(self.transactional_id, self._life, type(response).__name__, asked_s)
                return response
            self._notebook.count(f"{type(response).__name__.removesuffix('Response')}: {code.name}")
            if code in ABORTABLE:
                self._needs_epoch = True
                raise MustAbort
            if code in FENCED:
                raise Dead
            if code not in self.retriable:
                self._notebook.violations.append(f"{type(response).__name__} said {code.name}, which no client expects here")
                raise Dead
            if self._loop.time() > patience_s:
                self._notebook.violations.append(f"{type(response).__name__} says {code.name} for {PATIENCE_S:.0f} s")
                raise Dead
            await asyncio.sleep(BACKOFF_S * (0.5 + self._choice.random()))

    def _line(self, to: str) -> Line:
        name = "broker" if self.habits.has_one_connection else to
        line = self._open_lines.get(name)
        if line is None or line.is_given_up or line.is_closed:
            line = self._open_lines[name] = self._lines.connect()
        return line
