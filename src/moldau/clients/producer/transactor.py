"""● A transactional producer's requests to its coordinators, in both versions of the protocol.

Version 1: the client adds partitions and groups to the transaction before it writes.  After an abort with a gap in a sequence
InitProducerId raises the epoch.  Version 2 (KIP-890): writing adds partitions, and EndTxn raises the epoch each time.  The finalized level
of transaction.version decides, and is looked up at each begin.  Called by `producer`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.coordinators import GROUP, MOVED, TRANSACTION, Coordinators
from moldau.clients.errors import ClusterUnreachable, FatalError, error_of
from moldau.clients.group_metadata import GroupMetadata
from moldau.clients.producer.accumulator import Accumulator
from moldau.clients.producer.delivery import Token
from moldau.clients.producer.options import ProducerOptions
from moldau.clients.producer.sender import TRANSACTION_V1_PRODUCE, Batch
from moldau.clients.producer.transactions import State, Transaction
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.protocol.wire import Request, Response
from moldau.types import TopicPartition

R = TypeVar("R", bound=Response)
T = TypeVar("T")
LOG: Final = logging.getLogger(__name__)

FEATURE: Final = "transaction.version"
ADD_PARTITIONS_V1: Final = 3
END_TXN_V1: Final = 4
TXN_OFFSET_COMMIT_V1: Final = 4
AGAIN: Final = MOVED | {ErrorCode.CONCURRENT_TRANSACTIONS}


class Offset(NamedTuple):
    """The offset to read next, with the application's own text beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class Untransacted:
    """The `Permits` of a producer without transactions."""

    max_produce_version: int | None = None

    def may_write(self, topic_partition: TopicPartition) -> bool:
        return True

    def departed(self, batches: Sequence[Batch]) -> None:
        pass

    def failed(self, error: KafkaError) -> KafkaError:
        return error


class Transactor:
    """The `Permits` of a transactional producer."""

    def __init__(self, cluster: Cluster, options: ProducerOptions, accumulator: Accumulator[Token], wake: Callable[[], None]) -> None:
        assert options.transactional_id is not None
        self.transaction: Final = Transaction()
        self.is_v2 = False
        self._id: Final = options.transactional_id
        self._cluster = cluster
        self._options = options
        self._accumulator = accumulator
        self._wake = wake
        self._coordinators = Coordinators(cluster, key_type=TRANSACTION)
        self._groups = Coordinators(cluster, key_type=GROUP)
        self._adding: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ Permits

    @property
    def max_produce_version(self) -> int | None:
        return None if self.is_v2 else TRANSACTION_V1_PRODUCE

    def may_write(self, topic_partition: TopicPartition) -> bool:
        transaction = self.transaction
        if transaction.state not in (State.IN_TRANSACTION, State.COMMITTING):
            return False
        if self.is_v2 or topic_partition in transaction.added:
            return True
        transaction.wanted[topic_partition] = None
        if self._adding is None:
            self._adding = asyncio.get_running_loop().create_task(self._add_wanted())
        return False

    def departed(self, batches: Sequence[Batch]) -> None:
        self.transaction.has_begun_at_coordinator = True

    def failed(self, error: KafkaError) -> KafkaError:
        """Note a failure that stops the transaction.  Returns the error to raise."""
        raised = self.transaction.fail(error)
        self._wake()  # records that wait for the transaction are given up
        return raised

    # ------------------------------------------------------------ what users ask for

    async def initialize(self) -> None:
        """Fence the producer that had the transactional id before, and wait until its transaction is over.  Errors: ClientError."""
        await self._init_producer_id(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self.transaction.enter(State.READY)
        await self._look_up_version()

    async def begin(self) -> None:
        await self._look_up_version()
        self.transaction.enter(State.IN_TRANSACTION)

    async def commit(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Commit.  Errors: AbortableError, FatalError; RetriableError: it is not known how it ended, call it again."""
        transaction = self.transaction
        if transaction.state is not State.COMMITTING:
            if transaction.state is not State.IN_TRANSACTION:
                transaction.enter(State.COMMITTING)
            await flush()
            transaction.enter(State.COMMITTING)
        if transaction.has_begun_at_coordinator:
            await self._end(committed=True)
        transaction.enter(State.READY)

    async def abort(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Abort.  `settle`: gives up batches that have not left, and waits for those that have.  Errors: FatalError; RetriableError: call
        it again.
        """
        transaction = self.transaction
        if transaction.state is not State.ABORTING:
            transaction.enter(State.ABORTING)
        await settle()
        if self._adding is not None:
            await asyncio.gather(self._adding, return_exceptions=True)
        if transaction.has_begun_at_coordinator:
            await self._end(committed=False)
        if self._accumulator.is_out_of_sequence and not self.is_v2:
            accumulator = self._accumulator
            await self._init_producer_id(accumulator.producer_id, accumulator.producer_epoch)
        transaction.enter(State.READY)

    async def send_offsets(self, offsets: Mapping[TopicPartition, Offset], group: GroupMetadata) -> None:
        """Add a group's offsets to the transaction.  Errors: AbortableError, FatalError."""
        self.transaction.check_sendable()
        if not offsets:
            return
        self.transaction.has_begun_at_coordinator = True
        accumulator = self._accumulator
        try:
            if not self.is_v2:
                adding = AddOffsetsToTxnRequest(
                    transactional_id=self._id,
                    producer_id=accumulator.producer_id,
                    producer_epoch=accumulator.producer_epoch,
                    group_id=group.group_id,
                )
                _raise_for(ErrorCode.of((await self._ask(adding, lambda one: one.error_code)).error_code))
                self.transaction.is_known_at_coordinator = True
            await self._commit_offsets(offsets, group)
        except KafkaError as error:
            raise self.failed(error) from None

    # ------------------------------------------------------------ requests

    async def _look_up_version(self) -> None:
        """Errors: KafkaError; ClusterUnreachable."""

        async def level() -> int:
            try:
                node = await self._coordinators.node_of(self._id)
                channel = await self._cluster.channel_to(node.node_id)
            except (OSError, Unreachable):
                self._coordinators.forget(self._id)
                raise
            return channel.level_of(FEATURE)

        self.is_v2 = await self._insist(self._id, level) >= 2

    async def _init_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._options.transaction_timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        response = await self._ask(request, lambda one: one.error_code)
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            raise self.failed(error_of(code, f"transactional id {self._id}: {code.text}"))
        self._accumulator.identify(response.producer_id, response.producer_epoch)
        self._wake()

    async def _end(self, *, committed: bool) -> None:
        accumulator = self._accumulator
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=accumulator.producer_id,
            producer_epoch=accumulator.producer_epoch,
            committed=committed,
        )
        response = await self._ask(request, lambda one: one.error_code, max_version=None if self.is_v2 else END_TXN_V1)
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.INVALID_TXN_STATE and not committed and not self.is_v2 and not self.transaction.is_known_at_coordinator:
            return  # the request that was to begin the transaction never arrived: there is nothing to abort
        if code is not ErrorCode.NONE:
            detail = f"transactional id {self._id}: {code.text}"
            is_lost = code is ErrorCode.INVALID_TXN_STATE  # of a record it says that an abort was first: then EndTxn tells who aborted
            raise self.failed(FatalError(code, detail) if is_lost else error_of(code, detail))
        if self.is_v2 and response.producer_id != NO_PRODUCER_ID:
            accumulator.identify(response.producer_id, response.producer_epoch)

    async def _add_wanted(self) -> None:
        """Version 1: add the partitions that have records, several at a time."""
        try:
            while self.transaction.wanted and self.transaction.state in (State.IN_TRANSACTION, State.COMMITTING):
                partitions = list(self.transaction.wanted)
                await self._add(partitions)
                self.transaction.is_known_at_coordinator = True
                self.transaction.added.update(partitions)
                for one in partitions:
                    self.transaction.wanted.pop(one, None)
                self._wake()
        except (KafkaError, OSError, Unreachable) as error:
            failure = error if isinstance(error, KafkaError) else ClusterUnreachable(str(error))
            self.failed(failure)
        finally:
            self._adding = None

    async def _add(self, partitions: Sequence[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        self.transaction.has_begun_at_coordinator = True
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._accumulator.producer_id,
            v3_and_below_producer_epoch=self._accumulator.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()],
        )

        response = await self._ask(
            request,
            lambda one: _first_error(
                result.partition_error_code for topic in one.results_by_topic_v3_and_below for result in topic.results_by_partition
            ),
            max_version=ADD_PARTITIONS_V1,
        )
        for results in response.results_by_topic_v3_and_below:
            for result in results.results_by_partition:
                _raise_for(ErrorCode.of(result.partition_error_code), f"{results.name}-{result.partition_index}")

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, Offset], group: GroupMetadata) -> None:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), one in offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=one.offset,
                    committed_leader_epoch=one.leader_epoch,
                    committed_metadata=one.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=self._accumulator.producer_id,
            producer_epoch=self._accumulator.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
        )
        response = await self._ask(
            request,
            lambda one: _first_error(each.error_code for topic in one.topics for each in topic.partitions),
            group_id=group.group_id,
            max_version=None if self.is_v2 else TXN_OFFSET_COMMIT_V1,
        )
        for answered in response.topics:
            for each in answered.partitions:
                _raise_for(ErrorCode.of(each.error_code), f"offset of {answered.name}-{each.partition_index}")

    async def _ask(
        self, request: Request[R], error_of_answer: Callable[[R], int], *, group_id: str | None = None, max_version: int | None = None
    ) -> R:
        """Ask the coordinator, again while the answer says so and time is left.  Errors: KafkaError; ClusterUnreachable."""
        coordinators, key = (self._coordinators, self._id) if group_id is None else (self._groups, group_id)

        async def attempt() -> R:
            response = await coordinators.ask(key, request, error_of_answer, max_version=max_version)
            code = ErrorCode.of(error_of_answer(response))
            if code.retriable or code in AGAIN:
                raise KafkaError(code)
            return response

        return await self._insist(key, attempt)

    async def _insist(self, key: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try again while the coordinator cannot be reached, or is not ready, and time is left.  Errors: KafkaError; ClusterUnreachable."""
        last: Exception | None = None
        try:
            async with asyncio.timeout(self._options.max_block_ms / 1000):
                while True:
                    try:
                        return await attempt()
                    except KafkaError as error:
                        if not error.code.retriable and error.code not in AGAIN:
                            raise
                        last = error
                    except (OSError, Unreachable) as error:
                        last = error
                    await asyncio.sleep(self._options.retry_backoff_ms / 1000)
        except TimeoutError:
            within = f"max.block.ms={self._options.max_block_ms}"
            raise ClusterUnreachable(f"the coordinator of {key} does not answer within {within}: {last or 'no answer'}") from None


def _first_error(codes: Iterable[int]) -> int:
    return next((code for code in codes if code), 0)


def _raise_for(code: ErrorCode, what: str = "") -> None:
    if code is not ErrorCode.NONE:
        raise error_of(code, f"{what}: {code.text}" if what else None)
