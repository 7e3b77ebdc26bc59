"""● A transactional client as Java's and librdkafka's are: it adds, sends, commits offsets, ends, and tries again until it knows.

A request without an answer is sent again on a new connection.  What a client may not know it never guesses: after an answer that fences it,
or when it is told to die, it stops; somebody else takes over with InitProducerId.  Version 1 adds partitions itself and keeps its epoch,
but takes a new one when it gave up on a record (KIP-360); version 2 leaves the adding to the broker and takes a new epoch at every end.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

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
from moldau.testing.txn_schedules.notebook import Attempt, Fate, Notebook
from moldau.testing.txn_schedules.room import DATA
from moldau.testing.txn_schedules.wire import Link, Lost, Make, Wire
from moldau.types import TopicPartition

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
"""Long enough for anything that comes to an end by itself."""
INPUT: Final = TopicPartition("orders", 0)
"""Whose offsets are committed."""


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


@dataclass(slots=True, kw_only=True)
class Habits:
    """What a client does how often."""

    version: int
    has_one_connection: bool
    """As Java's for everything on one broker; librdkafka has one a coordinator and one for producing."""
    timeout_ms: int = 5_000
    transactions: int = 5
    abort_chance: float = 0.25
    give_up_chance: float = 0.2
    """Of a record or offset without an answer to be given up instead of sent again."""
    crash_chance: float = 0.01
    """Of any request without an answer to be the client's last."""
    pause_chance: float = 0.02
    """Of a pause within a transaction that is longer than its time-out."""


@dataclass(slots=True)
class Identity:
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


class Producer:
    """One life of a client, from `init` on."""

    def __init__(self, transactional_id: str, habits: Habits, wire: Wire, notebook: Notebook, choice: random.Random) -> None:
        self.transactional_id: Final = transactional_id
        self.habits: Final = habits
        self._versions: Final = VERSIONS[habits.version]
        self._wire: Final = wire
        self._notebook: Final = notebook
        self._choice: Final = choice
        self._identity = Identity()
        self._links: dict[str, Link] = {}
        self._open: Attempt | None = None
        self._added: set[TopicPartition | str] = set()
        self._needs_epoch = False

    @property
    def identity(self) -> tuple[int, int]:
        return self._identity.producer_id, self._identity.epoch

    @property
    def group(self) -> str:
        return f"group-of-{self.transactional_id}"

    async def init(self) -> None:
        """Errors: Dead."""
        await self._init(Identity())

    async def transaction(self) -> None:
        """One, committed or aborted.  Errors: Dead."""
        attempt = self._open = self._notebook.begin(self.transactional_id, self.habits.version)
        self._added = set()
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

    # a transaction

    async def _work(self, attempt: Attempt) -> None:
        partitions = self._choice.sample(DATA, self._choice.randint(1, len(DATA)))
        if self.habits.version == 1 and self._choice.random() < 0.5:
            await self._add(partitions)
        for _ in range(self._choice.randint(1, 3)):
            chosen = self._choice.sample(partitions, self._choice.randint(1, len(partitions)))
            if self.habits.version == 1:
                await self._add([each for each in chosen if each not in self._added])
            results = await asyncio.gather(*(self._produce(attempt, each) for each in chosen), return_exceptions=True)
            for wrong in results:
                if isinstance(wrong, BaseException):
                    raise wrong
            await self._maybe_pause()
            if self._choice.random() < 0.3:
                await self._commit_offset(attempt)
                await self._maybe_pause()

    async def _maybe_pause(self) -> None:
        if self._choice.random() < self.habits.pause_chance:
            self._notebook.count("paused")
            await asyncio.sleep(self.habits.timeout_ms / 1000 + 3 * self._choice.random())

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

    async def _add(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        identity = self._identity
        producer_id, epoch = identity.producer_id, identity.epoch

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

    async def _produce(self, attempt: Attempt, partition: TopicPartition) -> None:
        identity = self._identity
        producer_id, epoch = identity.producer_id, identity.epoch
        sequence = identity.sequences.get(partition, 0)
        values = [self._notebook.new_value(attempt) for _ in range(self._choice.randint(1, 2))]
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

        await self._ask(
            "produce",
            make,
            self._versions.produce,
            code_of=lambda said: said.responses[0].partition_responses[0].error_code,
            may_give_up=True,
        )
        attempt.values.setdefault(partition, []).extend(values)

    async def _commit_offset(self, attempt: Attempt) -> None:
        identity = self._identity
        producer_id, epoch = identity.producer_id, identity.epoch
        offset = attempt.number * 10 + (0 if attempt.offset is None else attempt.offset % 10 + 1)
        if self.habits.version == 1 and self.group not in self._added:

            def make_add() -> AddOffsetsToTxnRequest:
                return AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=self.group
                )

            await self._ask("coordinator", make_add, ADD_OFFSETS_VERSION, code_of=lambda said: said.error_code)
        self._added.add(self.group)

        def make() -> TxnOffsetCommitRequest:
            partition = TxnOffsetCommitRequestPartition(partition_index=INPUT.partition, committed_offset=offset, committed_metadata="")
            return TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=self.group,
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=[TxnOffsetCommitRequestTopic(name=INPUT.topic, partitions=[partition])],
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
        identity = self._identity
        producer_id, epoch = identity.producer_id, identity.epoch
        if self.habits.version == 1 and not self._added:
            return

        def make() -> EndTxnRequest:
            return EndTxnRequest(transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=is_commit)

        if is_commit:
            attempt.fate = Fate.UNKNOWN
        response = await self._ask("coordinator", make, self._versions.end_txn, code_of=lambda said: said.error_code)
        if is_commit:
            attempt.fate = Fate.COMMITTED
        self._notebook.count("committed" if is_commit else "aborted")
        if self.habits.version == 2:
            self._identity = Identity(response.producer_id, response.producer_epoch)

    # asking

    async def _ask(self, to: str, make: Make, version: int, *, code_of: Callable[[Any], int], may_give_up: bool = False) -> Any:
        """The answer without an error.  Errors: Dead, MustAbort."""
        loop = asyncio.get_running_loop()
        patience_s = loop.time() + PATIENCE_S
        while True:
            try:
                response = await self._link(to).ask(make, version)
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
                return response
            self._notebook.count(f"{type(response).__name__.removesuffix('Response')}: {code.name}")
            if code in ABORTABLE:
                self._needs_epoch = True
                raise MustAbort
            if code in FENCED:
                raise Dead
            if code not in RETRIABLE:
                self._notebook.violations.append(f"{type(response).__name__} said {code.name}, which no client expects here")
                raise Dead
            if loop.time() > patience_s:
                self._notebook.violations.append(f"{type(response).__name__} says {code.name} for {PATIENCE_S:.0f} s")
                raise Dead
            await asyncio.sleep(BACKOFF_S * (0.5 + self._choice.random()))

    def _link(self, to: str) -> Link:
        name = "broker" if self.habits.has_one_connection else to
        link = self._links.get(name)
        if link is None or link.is_given_up or link.is_closed:
            link = self._links[name] = self._wire.connect()
        return link

    def vanish(self) -> None:
        """The process is gone; what its connections carry may still arrive."""
        for link in self._links.values():
            link.give_up()
