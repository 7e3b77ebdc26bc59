"""◇ The transactional ids of one partition of `__transaction_state`: the machine that `runtime.Shard` runs.

    InitProducerId ─▶ Empty ─add partitions─▶ Ongoing ─EndTxn─▶ PrepareCommit ─all markers written─▶ CompleteCommit
                                                 └─EndTxn, time-out, fencing─▶ PrepareAbort ─────────▶ CompleteAbort

A transaction is decided when its Prepare record is committed; only then are the markers sent (`Outcome.sends`), and they are sent again
after a fail-over until all are written.  Since every decision is replayed at once, two requests of one producer never see a state in
between, and a request of an older transaction is recognised by its epoch (KIP-890).

Source: TransactionCoordinator, TransactionStateManager; KIP-98, 360, 447, 588, 664, 890.  Called by `server/coordinators/coordinators.py`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from moldau.coordinator.hard_state import Soft
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, ProducerIdAndEpoch, Reply, Timer, Token, answer
from moldau.coordinator.txn.config import TransactionConfig
from moldau.coordinator.txn.records import TransactionLogKey
from moldau.coordinator.txn.state import COMPLETION, EPOCH_BUMP_SINCE, IDLE, LAST_EPOCH, Transaction, TransactionState, read_record
from moldau.errors import ErrorCode
from moldau.protocol.messages.describe_transactions import TopicData
from moldau.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.list_transactions import TransactionState as ListedTransaction
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

EPOCH_BUMP_REQUEST_SINCE: Final = 5
"""The EndTxn version whose clients take the new epoch from the answer: they speak transaction.version 2."""


@dataclass(slots=True, frozen=True)
class Markers:
    """The markers that the leaders of `partitions` are to write."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    is_commit: bool
    partitions: frozenset[TopicPartition]
    client_version: int


@dataclass(slots=True)
class Environment:
    """Shared by all shards of a node."""

    config: TransactionConfig
    next_producer_id: Callable[[], int | None]
    """Gives a producer id that was never given out, or None while the next block is on its way."""
    transaction_version: Callable[[], int]
    """The finalized level of transaction.version."""


class TransactionMachine:
    """Hard state: `transactions`; the pending markers are derived from them."""

    _continued: Soft[dict[str, ProducerIdAndEpoch]]
    """By transactional id, the producer as it was when InitProducerId named it, or when its transaction ended with the next epoch.

    There is none after an InitProducerId that began anew, nor after a fail-over, as in Kafka.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment: Final = environment
        self.transactions: dict[str, Transaction] = {}
        self._continued = {}

    # -- the machine ----------------------------------------------------------------------------------------------------------

    def replay(self, offset: int, record: CoordinatorRecord, producer: ProducerIdAndEpoch | None) -> None:
        key, value = record
        assert isinstance(key, TransactionLogKey), key
        if value is None:
            self.transactions.pop(key.transactional_id, None)
            self._continued.pop(key.transactional_id, None)
        else:
            self.transactions[key.transactional_id] = read_record(key, value)

    def replay_end_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        """Do nothing: no record here is part of a transaction, but a client that may write markers can write one here."""

    def on_loaded(self, now_ms: int) -> Outcome:
        outcome = Outcome(timers=[self._abort_timer(now_ms), self._expiry_timer(now_ms)])
        for transaction in self.transactions.values():
            if transaction.state in COMPLETION:
                outcome.sends.append(_markers_of(transaction))
        return outcome

    def on_unloaded(self) -> list[Token]:
        return []

    # -- decisions ------------------------------------------------------------------------------------------------------------

    def init_producer_id(self, token: Token, request: InitProducerIdRequest, now_ms: int) -> Outcome:
        """Give a producer id with an epoch that fences all earlier ones; an open transaction is aborted first.

        Errors: INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS (try again), COORDINATOR_LOAD_IN_PROGRESS (no id
        at hand).
        """
        transactional_id = request.transactional_id
        assert transactional_id, "ids without a transactional id are handed out by the broker itself"
        timeout_ms = request.transaction_timeout_ms
        if not 0 < timeout_ms <= self.environment.config.max_timeout_ms:
            return _refuse_init(token, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if request.producer_id != NO_PRODUCER_ID else None
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return self._first_producer_id(token, transactional_id, timeout_ms, now_ms)
        if transaction.state in COMPLETION:
            return _refuse_init(token, ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not _may_come_from(transaction, expected):
            return _refuse_init(token, ErrorCode.PRODUCER_FENCED)
        if transaction.state is TransactionState.ONGOING:
            outcome = self._fence_and_abort(transaction, now_ms)
            if outcome is None:
                return _refuse_init(token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            outcome.replies.append(Reply(token, _init_failed(ErrorCode.CONCURRENT_TRANSACTIONS)))
            return outcome
        return self._next_epoch(token, transaction, expected, timeout_ms, now_ms)

    def _first_producer_id(self, token: Token, transactional_id: str, timeout_ms: int, now_ms: int) -> Outcome:
        producer_id = self.environment.next_producer_id()
        if producer_id is None:
            return _refuse_init(token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        transaction = Transaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=0,
            timeout_ms=timeout_ms,
            previous_producer_id=producer_id,
            updated_ms=now_ms,
        )
        return _initialised(token, transaction)

    def _next_epoch(
        self, token: Token, transaction: Transaction, expected: ProducerIdAndEpoch | None, timeout_ms: int, now_ms: int
    ) -> Outcome:
        changes: dict[str, object] = {
            "timeout_ms": timeout_ms,
            "partitions": frozenset(),
            "start_ms": -1,
            "updated_ms": now_ms,
            "previous_producer_id": transaction.producer_id,
        }
        if expected is not None and expected != transaction.producer and transaction.producer_epoch != NO_PRODUCER_EPOCH:
            if self._continued.get(transaction.transactional_id) == expected and _follows(transaction, expected):
                # It did not hear of that epoch: the answer to this request, or to the end of its transaction, was lost (KIP-360), or the
                # coordinator aborted its transaction.
                return _initialised(token, transaction.moved(TransactionState.EMPTY, **changes))
            return _refuse_init(token, ErrorCode.PRODUCER_FENCED)
        if not transaction.is_epoch_exhausted:
            self._note_continued(transaction.transactional_id, expected)
            return _initialised(token, transaction.moved(TransactionState.EMPTY, producer_epoch=transaction.producer_epoch + 1, **changes))
        producer_id = self.environment.next_producer_id()
        if producer_id is None:
            return _refuse_init(token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._note_continued(transaction.transactional_id, expected)
        return _initialised(token, transaction.moved(TransactionState.EMPTY, producer_id=producer_id, producer_epoch=0, **changes))

    def _note_continued(self, transactional_id: str, expected: ProducerIdAndEpoch | None) -> None:
        if expected is None:
            self._continued.pop(transactional_id, None)
        else:
            self._continued[transactional_id] = expected

    def add_partitions(
        self,
        token: Token,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        now_ms: int,
        *,
        client_version: int = 0,
    ) -> Outcome:
        """Add partitions.  Replies with one ErrorCode for all: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or
        NONE.

        `client_version`: the transaction.version of the client, 2 if the broker adds on the client's behalf.
        """
        known = self.transactions.get(transactional_id)
        if known is not None and known.state in COMPLETION:
            # The state is checked before the id, as in `end`.
            return answer(token, ErrorCode.CONCURRENT_TRANSACTIONS)
        error, transaction = self._open_for(transactional_id, producer)
        if transaction is None:
            return answer(token, error)
        if transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
            return answer(token, ErrorCode.NONE)
        return Outcome([transaction.added(partitions, now_ms, client_version).record()], [Reply(token, ErrorCode.NONE)])

    def verify_partitions(
        self, token: Token, transactional_id: str, producer: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> Outcome:
        """Verify partitions.

        Replies with one ErrorCode per partition: TRANSACTION_ABORTABLE for one outside of the transaction (KIP-890).
        """
        error, transaction = self._open_for(transactional_id, producer)
        if transaction is None:
            return answer(token, dict.fromkeys(partitions, error))
        # The answer is a dictionary, so the order of the request does not matter.
        return answer(
            token,
            {each: ErrorCode.NONE if each in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in sorted(partitions)},
        )

    def _open_for(self, transactional_id: str, producer: ProducerIdAndEpoch) -> tuple[ErrorCode, Transaction | None]:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, None
        if transaction.producer_epoch != producer.epoch:
            return ErrorCode.PRODUCER_FENCED, None
        if transaction.state in COMPLETION:
            return ErrorCode.CONCURRENT_TRANSACTIONS, None
        return ErrorCode.NONE, transaction

    def end(self, token: Token, request: EndTxnRequest, api_version: int, now_ms: int) -> Outcome:
        """Commit or abort.  The answer comes when that is decided, before the markers are written.

        Errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, COORDINATOR_LOAD_IN_PROGRESS.
        """
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            return _refuse_end(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        client_version = EPOCH_BUMP_SINCE if api_version >= EPOCH_BUMP_REQUEST_SINCE else 0
        if transaction.state in COMPLETION and client_version >= EPOCH_BUMP_SINCE:
            # The state is checked before the id: the client may have the next id already, which counts only when every marker is written.
            return _refuse_end(token, ErrorCode.CONCURRENT_TRANSACTIONS)
        asker = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        is_retry = client_version >= EPOCH_BUMP_SINCE and _was_ended_by(transaction, asker)
        if transaction.producer_id != asker.producer_id and not is_retry:
            return _refuse_end(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != asker.epoch and not is_retry:
            return _refuse_end(token, ErrorCode.PRODUCER_FENCED)
        if transaction.state in COMPLETION:
            return _refuse_end(token, ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction.state is TransactionState.ONGOING:
            return self._end_decided(token, transaction, is_commit=request.committed, client_version=client_version, now_ms=now_ms)
        was_commit = transaction.state is TransactionState.COMPLETE_COMMIT
        is_done_already = transaction.state is not TransactionState.EMPTY and request.committed == was_commit
        if is_done_already and (is_retry or client_version < EPOCH_BUMP_SINCE):
            return answer(token, _end_succeeded(transaction))
        if not request.committed and client_version >= EPOCH_BUMP_SINCE and not is_retry:
            # An abort before any write still moves the client to a new epoch.
            return self._end_decided(token, transaction, is_commit=False, client_version=client_version, now_ms=now_ms)
        return _refuse_end(token, ErrorCode.INVALID_TXN_STATE)

    def _end_decided(self, token: Token, transaction: Transaction, *, is_commit: bool, client_version: int, now_ms: int) -> Outcome:
        next_producer_id = self._next_id_after(transaction, client_version)
        if next_producer_id is None:
            return _refuse_end(token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        ended = transaction.ended(is_commit=is_commit, client_version=client_version, next_producer_id=next_producer_id, now_ms=now_ms)
        if client_version >= EPOCH_BUMP_SINCE:
            self._continued[transaction.transactional_id] = transaction.producer
        return Outcome([ended.record()], [Reply(token, _end_succeeded(ended))], sends=[_markers_of(ended)])

    def markers_written(self, transactional_id: str, producer: ProducerIdAndEpoch, now_ms: int) -> Outcome:
        """Note that every marker of that end is acknowledged."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state not in COMPLETION or transaction.producer != producer:
            return Outcome()
        return Outcome([transaction.completed(now_ms).record()])

    # -- time-outs ------------------------------------------------------------------------------------------------------------

    def abort_timed_out(self, now_ms: int) -> Outcome:
        outcome = Outcome(timers=[self._abort_timer(now_ms)], is_atomic=False)
        for transaction in list(self.transactions.values()):
            if transaction.state is TransactionState.ONGOING:
                elapsed_ms = now_ms - transaction.start_ms
                if elapsed_ms > transaction.timeout_ms:
                    outcome += self._fence_and_abort(transaction, now_ms) or Outcome()
        return outcome

    def expire(self, now_ms: int) -> Outcome:
        """Forget transactional ids that were not used for long."""
        outcome = Outcome(timers=[self._expiry_timer(now_ms)], is_atomic=False)
        for transaction in self.transactions.values():
            elapsed_ms = now_ms - transaction.updated_ms
            if transaction.state in IDLE and elapsed_ms >= self.environment.config.transactional_id_expiration_ms:
                outcome.records.append(CoordinatorRecord(TransactionLogKey(transactional_id=transaction.transactional_id), None))
        return outcome

    def _fence_and_abort(self, transaction: Transaction, now_ms: int) -> Outcome | None:
        """Raise the epoch, so that the producer's own requests are refused from now on, and abort the transaction.  None when this takes a
        new producer id, and none is at hand.

        In a cluster of version 2 this is an abort of version 2, whatever the producer speaks: it may ask for the raised epoch by the one
        that it had, until another one asks for an epoch.  Before, the epoch above the last is used only here.  A log with another use of
        it must not keep other transactions from being aborted.
        """
        version = EPOCH_BUMP_SINCE if self.environment.transaction_version() >= EPOCH_BUMP_SINCE else 0
        next_producer_id = self._next_id_after(transaction, version)
        if next_producer_id is None:
            return None
        if version >= EPOCH_BUMP_SINCE:
            self._continued[transaction.transactional_id] = transaction.producer
        fenced = replace(transaction, producer_epoch=min(transaction.producer_epoch, LAST_EPOCH) + (version < EPOCH_BUMP_SINCE))
        ended = fenced.ended(is_commit=False, client_version=version, next_producer_id=next_producer_id, now_ms=now_ms)
        return Outcome([ended.record()], sends=[_markers_of(ended)])

    def _next_id_after(self, transaction: Transaction, client_version: int) -> int | None:
        """The producer id that takes over with the end of this transaction: NO_PRODUCER_ID if it goes on; None if none is at hand."""
        needs_new_id = client_version >= EPOCH_BUMP_SINCE and transaction.is_epoch_exhausted
        return self.environment.next_producer_id() if needs_new_id else NO_PRODUCER_ID

    def _abort_timer(self, now_ms: int) -> Timer:
        return Timer("abort-timed-out", now_ms + self.environment.config.abort_interval_ms, self.abort_timed_out)

    def _expiry_timer(self, now_ms: int) -> Timer:
        return Timer("expire-transactional-ids", now_ms + self.environment.config.expiry_interval_ms, self.expire)

    # -- administration -------------------------------------------------------------------------------------------------------

    def describe(self, token: Token, transactional_id: str) -> Outcome:
        """One id's part of a DescribeTransactions.  Errors: TRANSACTIONAL_ID_NOT_FOUND."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return answer(token, not_described(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
        by_topic: dict[str, list[int]] = {}
        for partition in sorted(transaction.partitions):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        described = DescribedTransaction(
            error_code=ErrorCode.NONE,
            transactional_id=transactional_id,
            transaction_state=transaction.state.title,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()],
        )
        return answer(token, described)

    def list_transactions(self, token: Token, request: ListTransactionsRequest, matches: Callable[[str], bool], now_ms: int) -> Outcome:
        """Reply with a list of `ListedTransaction`.  `matches`: the request's pattern for transactional ids."""
        listed = [
            ListedTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.title,
            )
            for transaction in self._filtered(request, now_ms)
            if matches(transaction.transactional_id)
        ]
        return answer(token, listed)

    def _filtered(self, request: ListTransactionsRequest, now_ms: int) -> Iterable[Transaction]:
        for transaction in self.transactions.values():
            is_of_state = not request.state_filters or transaction.state.title in request.state_filters
            is_of_producer = not request.producer_id_filters or transaction.producer_id in request.producer_id_filters
            elapsed_ms = now_ms - transaction.start_ms
            is_running_long = request.duration_filter < 0 or (transaction.start_ms >= 0 and elapsed_ms > request.duration_filter)
            if is_of_state and is_of_producer and is_running_long:
                yield transaction


def _may_come_from(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Whether a producer that names itself holds the transactional id, or held it until its epochs were used up (KIP-360)."""
    if transaction.producer_epoch == NO_PRODUCER_EPOCH or producer.producer_id == transaction.producer_id:
        return True
    return producer.producer_id == transaction.previous_producer_id and producer.epoch >= LAST_EPOCH


def _was_ended_by(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Whether the last end bumped the epoch that the request still carries: its answer was lost and it is asked again.

    This never holds for an open transaction: there the old epoch marks a late request of the transaction before, which must not end this
    one (KAFKA-17754).
    """
    if not transaction.bumps_epoch or transaction.state in (TransactionState.ONGOING, TransactionState.EMPTY):
        return False
    return _follows(transaction, producer)


def _follows(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Whether the transactional id holds the epoch that comes right after this one, maybe with the next producer id."""
    if producer.producer_id == transaction.producer_id:
        return producer.epoch + 1 == transaction.producer_epoch
    took_over = transaction.producer_epoch == 0 and producer.epoch == LAST_EPOCH
    return took_over and producer.producer_id == transaction.previous_producer_id


def _markers_of(transaction: Transaction) -> Markers:
    return Markers(
        transactional_id=transaction.transactional_id,
        producer=transaction.producer,
        is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
        partitions=transaction.partitions,
        client_version=transaction.client_version,
    )


def _initialised(token: Token, transaction: Transaction) -> Outcome:
    return Outcome([transaction.record()], [Reply(token, _init_succeeded(transaction))])


def _init_succeeded(transaction: Transaction) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)


def _init_failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


def _refuse_init(token: Token, error: ErrorCode) -> Outcome:
    return answer(token, _init_failed(error))


def _end_succeeded(transaction: Transaction) -> EndTxnResponse:
    """The answer, with the id and epoch of the client's next transaction."""
    if transaction.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=transaction.next_producer_id, producer_epoch=0)
    return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)


def _refuse_end(token: Token, error: ErrorCode) -> Outcome:
    return answer(token, EndTxnResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH))


def not_described(transactional_id: str, error: ErrorCode) -> DescribedTransaction:
    """The part of a DescribeTransactions that has only an error."""
    return DescribedTransaction(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
