"""The transaction coordinator, one transactional id at a time."""

from dataclasses import replace
from typing import Any

import pytest

from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch
from moldau.coordinator.txn.config import TransactionConfig
from moldau.coordinator.txn.coordinator import Environment, Markers, TransactionMachine
from moldau.coordinator.txn.state import ALLOWED, EPOCH_BUMP_SINCE, LAST_EPOCH, Transaction, TransactionState
from moldau.errors import ErrorCode
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.types import TopicPartition
from proof.coordination import Desk, MemoryLog

TIMEOUT_MS = 60_000
ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 3)
V1, V2 = 4, 5
"""EndTxn versions of clients that speak transaction.version 1 and 2."""


class Producer:
    """A producer with the transactional id "copier", and the coordinator it talks to."""

    def __init__(self, *, transaction_version: int = 2, **config: Any) -> None:
        ids = iter(range(1000, 2000))
        environment = Environment(TransactionConfig(**config), lambda: next(ids, None), lambda: transaction_version)
        self.desk = Desk(lambda: TransactionMachine(environment), MemoryLog())
        self.identity = ProducerIdAndEpoch(-1, -1)

    def ask_init(self, expected: ProducerIdAndEpoch = ProducerIdAndEpoch(-1, -1), timeout_ms: int = TIMEOUT_MS) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id="copier",
            transaction_timeout_ms=timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
        )
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.init_producer_id(token, request, now_ms)).answer
        assert isinstance(answer, InitProducerIdResponse)
        return answer

    def init(self) -> ProducerIdAndEpoch:
        answer = self.ask_init()
        assert answer.error_code == ErrorCode.NONE
        self.identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        return self.identity

    def add(self, *partitions: TopicPartition, identity: ProducerIdAndEpoch | None = None, client_version: int = 0) -> ErrorCode:
        who = identity or self.identity
        return self.desk.ask(
            lambda token, now_ms: self.desk.machine.add_partitions(
                token, "copier", who, frozenset(partitions), now_ms, client_version=client_version
            )
        ).answer  # type: ignore[no-any-return]

    def verify(self, *partitions: TopicPartition) -> dict[TopicPartition, ErrorCode]:
        return self.desk.ask(
            lambda token, _: self.desk.machine.verify_partitions(token, "copier", self.identity, frozenset(partitions))
        ).answer  # type: ignore[no-any-return]

    def end(self, *, committed: bool, version: int, identity: ProducerIdAndEpoch | None = None) -> EndTxnResponse:
        who = identity or self.identity
        request = EndTxnRequest(transactional_id="copier", producer_id=who.producer_id, producer_epoch=who.epoch, committed=committed)
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.end(token, request, version, now_ms)).answer
        assert isinstance(answer, EndTxnResponse)
        return answer

    def write_markers(self) -> Markers:
        """The leaders acknowledged every marker sent last."""
        markers = self.desk.sent[-1]
        assert isinstance(markers, Markers)
        self.desk.ask(lambda _, now_ms: self.desk.machine.markers_written("copier", markers.producer, now_ms))
        return markers

    def wear_out(self) -> None:
        """Leaves the producer id as after so many uses that the next epoch is the last."""
        worn = Transaction("copier", producer_id=self.init().producer_id, producer_epoch=LAST_EPOCH - 1, timeout_ms=TIMEOUT_MS)
        self.desk.ask(lambda _, now_ms: Outcome([worn.record()]))

    @property
    def state(self) -> TransactionState:
        return self.desk.machine.transactions["copier"].state


def test_a_transaction_of_version_1_keeps_its_epoch() -> None:
    producer = Producer()
    assert producer.init() == (1000, 0)
    assert producer.add(ORDERS, PAYMENTS) is ErrorCode.NONE
    answer = producer.end(committed=True, version=V1)
    assert (answer.error_code, producer.state) == (ErrorCode.NONE, TransactionState.PREPARE_COMMIT)
    markers = producer.write_markers()
    assert (markers.is_commit, markers.partitions, markers.producer.epoch) == (True, {ORDERS, PAYMENTS}, 0)
    assert producer.state is TransactionState.COMPLETE_COMMIT


def test_a_transaction_of_version_2_moves_on_to_the_next_epoch() -> None:
    producer = Producer()
    producer.init()
    producer.add(ORDERS)
    answer = producer.end(committed=True, version=V2)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 1000, 1)
    assert producer.write_markers().producer.epoch == 1
    assert producer.add(ORDERS) is ErrorCode.PRODUCER_FENCED
    assert producer.add(ORDERS, identity=ProducerIdAndEpoch(1000, 1)) is ErrorCode.NONE


def test_markers_go_out_only_when_the_decision_is_committed() -> None:
    producer = Producer()
    producer.init()
    producer.add(ORDERS)
    producer.desk.log.commit()
    producer.desk.log.commits_at_once = False
    request = EndTxnRequest(transactional_id="copier", producer_id=1000, producer_epoch=0, committed=True)
    asked = producer.desk.ask(lambda token, now_ms: producer.desk.machine.end(token, request, V1, now_ms))
    assert not asked.is_answered
    assert not producer.desk.sent
    producer.desk.commit()
    assert asked.answer.error_code == ErrorCode.NONE
    assert len(producer.desk.sent) == 1


def test_markers_are_sent_again_after_a_fail_over() -> None:
    producer = Producer()
    producer.init()
    producer.add(ORDERS)
    producer.end(committed=True, version=V2)
    producer.desk.sent.clear()
    producer.desk.fail_over()
    assert producer.write_markers().is_commit
    assert producer.state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_asked_again_gets_the_same_answer(version: int, committed: bool) -> None:
    producer = Producer()
    producer.init()
    producer.add(ORDERS)
    first = producer.end(committed=committed, version=version)
    assert producer.end(committed=committed, version=version).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    producer.write_markers()
    assert producer.end(committed=committed, version=version) == first
    assert producer.end(committed=not committed, version=version).error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_a_late_end_of_the_transaction_before_does_not_end_the_next(committed: bool) -> None:
    """KAFKA-17754."""
    producer = Producer()
    old = producer.init()
    producer.add(ORDERS)
    answer = producer.end(committed=True, version=V2)
    producer.write_markers()
    producer.identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
    producer.add(PAYMENTS)
    assert producer.end(committed=committed, version=V2, identity=old).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.state is TransactionState.ONGOING


def test_an_abort_before_the_first_write_moves_the_epoch_on() -> None:
    producer = Producer()
    producer.init()
    assert producer.end(committed=True, version=V2).error_code == ErrorCode.INVALID_TXN_STATE
    answer = producer.end(committed=False, version=V2)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 1)
    producer.write_markers()
    assert producer.end(committed=False, version=V2).error_code == ErrorCode.NONE


def test_an_abort_of_the_next_transaction_waits_for_the_markers_of_the_one_before() -> None:
    producer = Producer()
    producer.init()
    producer.add(ORDERS)
    answer = producer.end(committed=True, version=V2)
    producer.identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
    assert producer.end(committed=False, version=V2).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    producer.write_markers()
    assert producer.end(committed=False, version=V2).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_of_the_other_kind_waits_for_the_markers_too(version: int, committed: bool) -> None:
    producer = Producer()
    producer.init()
    producer.add(ORDERS)
    producer.end(committed=committed, version=version)
    assert producer.end(committed=not committed, version=version).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    producer.write_markers()
    assert producer.end(committed=not committed, version=version).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_producer_that_was_given_its_next_id_waits_until_the_id_before_is_done_with() -> None:
    """The end that uses up the epochs answers with a new id.  The producer may use the new id only when every marker is written."""
    producer = Producer()
    producer.wear_out()
    producer.init()
    producer.add(ORDERS)
    answer = producer.end(committed=True, version=V2)
    producer.identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
    assert producer.identity == (1001, 0)
    assert producer.add(PAYMENTS) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.end(committed=False, version=V2).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.ask_init(producer.identity).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    producer.write_markers()
    assert producer.add(PAYMENTS) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("identity", "error"),
    [
        (ProducerIdAndEpoch(1, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ProducerIdAndEpoch(1000, 7), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_somebody_else_ends_nothing(identity: ProducerIdAndEpoch, error: ErrorCode) -> None:
    producer = Producer()
    producer.init()
    producer.add(ORDERS)
    for version in (V1, V2):
        assert producer.end(committed=True, version=version, identity=identity).error_code == error
    assert producer.add(ORDERS, identity=identity) == error


def test_a_new_producer_fences_the_old_and_aborts_what_it_left_open() -> None:
    producer = Producer()
    old = producer.init()
    producer.add(ORDERS)
    assert producer.ask_init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.ask_init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    markers = producer.write_markers()
    assert (markers.is_commit, markers.producer.epoch) == (False, 1)
    assert producer.init() == (1000, 2)
    assert producer.add(ORDERS, identity=old) is ErrorCode.PRODUCER_FENCED


def test_an_abort_that_is_not_stored_is_tried_again() -> None:
    producer = Producer(abort_interval_ms=10_000)
    producer.init()
    producer.add(ORDERS)
    producer.desk.log.failure = ErrorCode.MESSAGE_TOO_LARGE
    producer.desk.advance(TIMEOUT_MS + 10_000)
    producer.desk.log.failure = None
    assert producer.state is TransactionState.ONGOING
    producer.desk.advance(10_000)
    assert producer.state is TransactionState.PREPARE_ABORT


def test_a_transaction_past_its_time_out_is_aborted() -> None:
    producer = Producer(abort_interval_ms=10_000)
    producer.init()
    producer.add(ORDERS)
    producer.desk.advance(TIMEOUT_MS)
    assert producer.state is TransactionState.ONGOING
    producer.desk.advance(10_000)
    assert producer.state is TransactionState.PREPARE_ABORT
    assert producer.add(PAYMENTS) is ErrorCode.CONCURRENT_TRANSACTIONS
    producer.write_markers()
    assert producer.add(PAYMENTS) is ErrorCode.PRODUCER_FENCED


def timed_out(*, client_version: int = 0, transaction_version: int = 2) -> Producer:
    """A producer whose transaction the coordinator has aborted, because it took too long.  It does not know of that."""
    producer = Producer(transaction_version=transaction_version, abort_interval_ms=10_000)
    producer.init()
    producer.add(ORDERS, client_version=client_version)
    producer.desk.advance(TIMEOUT_MS + 10_000)
    assert producer.write_markers().client_version == transaction_version
    return producer


@pytest.mark.parametrize("client_version", [0, EPOCH_BUMP_SINCE])
def test_a_producer_goes_on_after_a_time_out_whatever_version_it_speaks(client_version: int) -> None:
    producer = timed_out(client_version=client_version)
    identity = producer.identity
    assert producer.end(committed=False, version=V1).error_code == ErrorCode.PRODUCER_FENCED
    for _ in range(2):
        answer = producer.ask_init(identity)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, identity.producer_id, identity.epoch + 1)
    producer.ask_init()
    assert producer.ask_init(identity).error_code == ErrorCode.PRODUCER_FENCED


def test_a_producer_that_aborts_what_timed_out_hears_its_next_epoch() -> None:
    producer = timed_out(client_version=EPOCH_BUMP_SINCE)
    identity = producer.identity
    assert producer.end(committed=True, version=V2).error_code == ErrorCode.INVALID_TXN_STATE
    answer = producer.end(committed=False, version=V2)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, identity.producer_id, identity.epoch + 1)


def test_a_producer_is_fenced_by_a_time_out_in_a_cluster_of_version_0() -> None:
    producer = timed_out(transaction_version=0)
    assert producer.ask_init(producer.identity).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.end(committed=False, version=V2).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.init().epoch == 2


def test_a_log_that_says_too_high_an_epoch_keeps_no_other_transaction_open() -> None:
    producer = Producer(abort_interval_ms=10_000)
    producer.init()
    producer.add(ORDERS)
    transactions = producer.desk.machine.transactions
    transactions |= {"hostile": replace(transactions["copier"], transactional_id="hostile", producer_epoch=(1 << 15) - 1)}
    producer.desk.advance(TIMEOUT_MS + 10_000)
    assert {each.state for each in producer.desk.machine.transactions.values()} == {TransactionState.PREPARE_ABORT}


def test_a_transactional_id_is_forgotten_when_nobody_uses_it() -> None:
    producer = Producer(transactional_id_expiration_ms=1_000_000, expiry_interval_ms=100_000)
    producer.init()
    producer.desk.advance(999_999)
    assert "copier" in producer.desk.machine.transactions
    producer.desk.advance(100_000)
    assert producer.desk.machine.transactions == producer.desk.replayed().transactions == {}


def test_epochs_that_are_used_up_bring_a_new_id() -> None:
    producer = Producer()
    producer.wear_out()
    assert producer.init() == (1000, LAST_EPOCH)
    assert producer.init() == (1001, 0)


def test_a_transaction_at_the_last_epoch_ends_with_a_new_id() -> None:
    producer = Producer()
    producer.wear_out()
    producer.init()
    producer.add(ORDERS)
    answer = producer.end(committed=True, version=V2)
    assert (answer.producer_id, answer.producer_epoch) == (1001, 0)
    assert producer.write_markers().producer.producer_id == 1000
    assert producer.end(committed=True, version=V2) == answer
    producer.identity = ProducerIdAndEpoch(1001, 0)
    assert producer.add(ORDERS) is ErrorCode.NONE


def test_a_producer_that_names_itself_after_its_successor_began_is_fenced() -> None:
    """Before the successor's first write nothing else shows that the epoch above is not the producer's own."""
    producer = Producer()
    zombie = producer.init()
    successor = producer.init()
    assert successor.epoch == zombie.epoch + 1
    assert producer.ask_init(zombie).error_code == ErrorCode.PRODUCER_FENCED


def test_a_producer_recovers_with_its_own_epoch() -> None:
    """KIP-360."""
    producer = Producer()
    identity = producer.init()
    answer = producer.ask_init(identity)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 1)
    assert producer.ask_init(identity).producer_epoch == 1
    producer.ask_init()
    assert producer.ask_init(identity).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("committed", [True, False])
def test_a_producer_recovers_with_the_epoch_that_its_transaction_ended_with(committed: bool) -> None:
    """It never heard of the end, which gave it the next epoch."""
    producer = Producer()
    identity = producer.init()
    producer.add(ORDERS)
    producer.end(committed=committed, version=V2)
    assert producer.ask_init(identity).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    producer.write_markers()
    for _ in range(2):
        answer = producer.ask_init(identity)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, identity.producer_id, identity.epoch + 1)
    producer.ask_init()
    assert producer.ask_init(identity).error_code == ErrorCode.PRODUCER_FENCED


def test_a_producer_recovers_out_of_its_open_transaction() -> None:
    """Its transaction is aborted first.  It never hears of the epoch that this takes, and asks with its own again."""
    producer = Producer()
    identity = producer.init()
    producer.add(ORDERS, client_version=EPOCH_BUMP_SINCE)
    assert producer.ask_init(identity).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    producer.write_markers()
    for _ in range(2):
        answer = producer.ask_init(identity)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, identity.producer_id, identity.epoch + 1)


def test_a_successor_fences_a_producer_out_of_its_open_transaction() -> None:
    producer = Producer()
    zombie = producer.init()
    producer.add(ORDERS, client_version=EPOCH_BUMP_SINCE)
    assert producer.ask_init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    producer.write_markers()
    assert producer.init().epoch == zombie.epoch + 2
    assert producer.ask_init(zombie).error_code == ErrorCode.PRODUCER_FENCED


def fenced_at_the_last_epoch(*, transaction_version: int) -> Producer:
    producer = Producer(transaction_version=transaction_version)
    producer.wear_out()
    producer.identity = ProducerIdAndEpoch(producer.identity.producer_id, LAST_EPOCH)
    assert producer.ask_init(ProducerIdAndEpoch(producer.identity.producer_id, LAST_EPOCH - 1)).producer_epoch == LAST_EPOCH
    assert producer.add(ORDERS) is ErrorCode.NONE
    assert producer.ask_init(producer.identity).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.write_markers().producer.epoch == LAST_EPOCH + 1
    return producer


def test_a_producer_goes_on_with_the_id_that_an_abort_at_its_last_epoch_gave() -> None:
    producer = fenced_at_the_last_epoch(transaction_version=2)
    answer = producer.ask_init(producer.identity)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, producer.identity.producer_id + 1, 0)


def test_the_last_epoch_is_never_given_out_by_an_abort_in_a_cluster_of_version_0() -> None:
    producer = fenced_at_the_last_epoch(transaction_version=0)
    assert producer.ask_init(producer.identity).error_code == ErrorCode.PRODUCER_FENCED


def test_an_abort_at_the_last_epoch_waits_for_a_producer_id() -> None:
    producer = Producer(abort_interval_ms=10_000)
    producer.wear_out()
    producer.identity = ProducerIdAndEpoch(producer.identity.producer_id, LAST_EPOCH)
    producer.ask_init(ProducerIdAndEpoch(producer.identity.producer_id, LAST_EPOCH - 1))
    producer.add(ORDERS)
    environment = producer.desk.machine.environment
    ids, environment.next_producer_id = environment.next_producer_id, lambda: None
    assert producer.ask_init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    producer.desk.advance(TIMEOUT_MS + 10_000)
    assert producer.state is TransactionState.ONGOING
    environment.next_producer_id = ids
    producer.desk.advance(10_000)
    assert producer.state is TransactionState.PREPARE_ABORT


def test_who_held_the_id_before_is_fenced_once_another_producer_has_the_next_one() -> None:
    producer = Producer()
    producer.wear_out()
    zombie = producer.init()
    assert producer.init() == (zombie.producer_id + 1, 0)
    assert producer.ask_init(zombie).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_beyond_the_limit_is_refused(timeout_ms: int) -> None:
    assert Producer().ask_init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_only_partitions_of_the_transaction_are_verified() -> None:
    producer = Producer()
    producer.init()
    producer.add(ORDERS)
    assert producer.verify(ORDERS, PAYMENTS) == {ORDERS: ErrorCode.NONE, PAYMENTS: ErrorCode.TRANSACTION_ABORTABLE}
    producer.end(committed=True, version=V1)
    assert producer.verify(ORDERS) == {ORDERS: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_every_state_can_be_reached_and_left() -> None:
    reachable = {following for each in ALLOWED.values() for following in each}
    assert reachable == set(TransactionState)
    assert [state for state, following in ALLOWED.items() if not following] == [TransactionState.DEAD]
