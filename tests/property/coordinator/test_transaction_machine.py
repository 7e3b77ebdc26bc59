"""The transaction coordinator under requests of any order and age, time, lost tails and fail-over, against what must hold at every step.

The reference is the log itself, read as a story.  The epochs of each transactional id only grow.  Every state follows from the one before
by the table.  A decision that was stored never becomes another one.  The story has everything that was answered.
"""

from itertools import pairwise
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.coordinator.outcome import CoordinatorRecord, Outcome, ProducerIdAndEpoch
from moldau.coordinator.txn.config import TransactionConfig
from moldau.coordinator.txn.coordinator import Environment, Markers, TransactionMachine
from moldau.coordinator.txn.state import ALLOWED, COMPLETION, LAST_EPOCH, Transaction, TransactionState, read_record
from moldau.errors import ErrorCode
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.types import TopicPartition
from proof.coordination import Asked, Desk, MemoryLog

IDS = ("copier", "billing")
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0))
TIMEOUT_MS = 60_000
NOBODY = ProducerIdAndEpoch(-1, -1)
WHO = st.sampled_from(IDS)
HOW_OLD = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3])
"""The age of a request, in identities: 0 is what the id holds now."""
END_VERSION = st.sampled_from([4, 5])


def succeeded(asked: Asked, kind: type[InitProducerIdResponse] | type[EndTxnResponse]) -> bool:
    return asked.is_answered and isinstance(asked.answer, kind) and asked.answer.error_code == ErrorCode.NONE


class TransactionsUnderFire(RuleBasedStateMachine):
    @initialize(first_epoch=st.sampled_from([0, 0, LAST_EPOCH - 2]), transaction_version=st.sampled_from([0, 2, 2]))
    def begin(self, first_epoch: int, transaction_version: int) -> None:
        ids = iter(range(1000, 1_000_000))
        environment = Environment(TransactionConfig(), lambda: next(ids, None), lambda: transaction_version)
        self.desk = Desk(lambda: TransactionMachine(environment), MemoryLog(commits_at_once=False))
        self.asked: list[Asked] = []
        self.is_prompt = True
        self.held: dict[str, list[ProducerIdAndEpoch]] = {who: [NOBODY] for who in IDS}
        self.inits: list[tuple[str, ProducerIdAndEpoch, Asked]] = []
        self.given_to: dict[tuple[str, ProducerIdAndEpoch], ProducerIdAndEpoch] = {}
        self.ends: list[tuple[str, ProducerIdAndEpoch, bool, int, Asked]] = []
        if first_epoch:
            worn = [Transaction(who, producer_id=next(ids), producer_epoch=first_epoch, timeout_ms=TIMEOUT_MS) for who in IDS]
            self.desk.ask(lambda _, now_ms: Outcome([each.record() for each in worn]))

    def ask(self, operation: Any) -> Asked:
        asked = self.desk.ask(operation)
        self.asked.append(asked)
        if self.is_prompt:
            self.desk.commit()
        return asked

    def identity(self, who: str, how_old: int) -> ProducerIdAndEpoch:
        held = self.held[who]
        return held[max(0, len(held) - 1 - how_old)]

    # requests, in any order and of any age

    @rule(who=WHO, how_old=HOW_OLD, names_itself=st.booleans())
    def init(self, who: str, how_old: int, names_itself: bool) -> None:
        known = self.identity(who, how_old) if names_itself else NOBODY
        request = InitProducerIdRequest(
            transactional_id=who, transaction_timeout_ms=TIMEOUT_MS, producer_id=known.producer_id, producer_epoch=known.epoch
        )
        before = dict(self.desk.machine.transactions)
        asked = self.ask(lambda token, now_ms: self.desk.machine.init_producer_id(token, request, now_ms))
        self.check_fenced(before)
        self.inits.append((who, known, asked))
        self.hear()

    @rule(who=WHO, how_old=HOW_OLD, partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def add(self, who: str, how_old: int, partitions: set[TopicPartition]) -> None:
        producer = self.identity(who, how_old)
        known = self.desk.machine.transactions.get(who)
        self.ask(lambda token, now_ms: self.desk.machine.add_partitions(token, who, producer, frozenset(partitions), now_ms))
        added = self.desk.machine.transactions.get(who)
        if known is None or producer != (known.producer_id, known.producer_epoch) or known.state in COMPLETION:
            assert added == known, "only the newest epoch adds, and not while the transaction before is being completed"
        else:
            assert added is not None and added.partitions >= partitions and added.state is TransactionState.ONGOING

    @rule(who=WHO, how_old=HOW_OLD)
    def verify(self, who: str, how_old: int) -> None:
        producer = self.identity(who, how_old)
        known = self.desk.machine.transactions.get(who)
        self.desk.commit()
        asked = self.ask(lambda token, _: self.desk.machine.verify_partitions(token, who, producer, frozenset(PARTITIONS)))
        self.desk.commit()
        for partition, code in asked.answer.items():
            is_part = (
                known is not None
                and known.state is TransactionState.ONGOING
                and producer == (known.producer_id, known.producer_epoch)
                and partition in known.partitions
            )
            assert (code is ErrorCode.NONE) == is_part, (partition, code, known)

    @rule(who=WHO, how_old=HOW_OLD, committed=st.booleans(), version=END_VERSION)
    def end(self, who: str, how_old: int, committed: bool, version: int) -> None:
        producer = self.identity(who, how_old)
        request = EndTxnRequest(transactional_id=who, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=committed)
        before = self.desk.machine.transactions.get(who)
        asked = self.ask(lambda token, now_ms: self.desk.machine.end(token, request, version, now_ms))
        after = self.desk.machine.transactions.get(who)
        if before is not None and producer != (before.producer_id, before.producer_epoch):
            assert after == before, "an end of another epoch changes nothing (KAFKA-17754)"
        self.ends.append((who, producer, committed, version, asked))
        self.hear()

    # what happens around them

    @rule(who=WHO, committed=st.booleans(), version=END_VERSION)
    def a_whole_transaction(self, who: str, committed: bool, version: int) -> None:
        """A whole transaction gives later requests a past to be late from."""
        self.add(who, 0, {PARTITIONS[0]})
        self.end(who, 0, committed, version)
        self.log_is_committed()
        self.markers_are_written(latest=True)

    @rule(who=WHO, how_old=st.sampled_from([1, 2]), committed=st.booleans(), version=END_VERSION)
    def an_end_comes_late(self, who: str, how_old: int, committed: bool, version: int) -> None:
        """An end arrives when the next transaction has begun."""
        self.a_whole_transaction(who, committed, 5)
        self.add(who, 0, {PARTITIONS[1]})
        self.end(who, how_old, committed, version)

    @rule(is_prompt=st.booleans())
    def replicas_are_slow_or_not(self, is_prompt: bool) -> None:
        self.is_prompt = is_prompt

    @rule()
    def log_is_committed(self) -> None:
        self.desk.commit()
        self.hear()

    @rule(latest=st.booleans())
    def markers_are_written(self, latest: bool) -> None:
        sent = [each for each in self.desk.sent if isinstance(each, Markers)]
        if sent:
            markers = sent[-1] if latest else sent[0]
            self.ask(lambda _, now_ms: self.desk.machine.markers_written(markers.transactional_id, markers.producer, now_ms))

    @rule(elapsed_ms=st.sampled_from([100, 11_000, TIMEOUT_MS + 11_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        before = dict(self.desk.machine.transactions)
        self.desk.advance(elapsed_ms)
        self.check_fenced(before)
        self.hear()

    def check_fenced(self, before: dict[str, Transaction]) -> None:
        """A producer that lost its transaction is fenced."""
        for who, known in before.items():
            now = self.desk.machine.transactions[who]
            if known.state is TransactionState.ONGOING and now.state is not TransactionState.ONGOING:
                assert now.state is TransactionState.PREPARE_ABORT and now.producer_epoch == known.producer_epoch + 1

    @rule()
    def coordinator_fails_over(self) -> None:
        self.desk.fail_over()
        self.hear()
        self.desk.commit()

    def hear(self) -> None:
        """Clients hold what they learn from answers."""
        for who, known, asked in self.inits:
            if succeeded(asked, InitProducerIdResponse):
                given = ProducerIdAndEpoch(asked.answer.producer_id, asked.answer.producer_epoch)
                is_again = known != NOBODY and self.given_to.get((who, given)) == known
                assert is_again or (who, given) not in self.given_to, f"{given} was given to two producers"
                self.given_to[who, given] = known
                self.hold(who, given)
        self.inits = [each for each in self.inits if not each[2].is_answered]
        for who, _, _, version, asked in self.ends:
            if (
                asked.is_answered
                and isinstance(asked.answer, EndTxnResponse)
                and asked.answer.error_code == ErrorCode.NONE
                and version >= 5
            ):
                self.hold(who, ProducerIdAndEpoch(asked.answer.producer_id, asked.answer.producer_epoch))

    def hold(self, who: str, identity: ProducerIdAndEpoch) -> None:
        if identity not in self.held[who]:
            self.held[who].append(identity)
            self.held[who].sort()

    # what must hold

    def story(self, who: str) -> list[Transaction]:
        told = []
        for entry, _ in self.desk.log.entries:
            assert isinstance(entry, CoordinatorRecord)
            if entry.key.transactional_id == who and entry.value is not None:
                told.append(read_record(entry.key, entry.value))
        return told

    @invariant()
    def the_log_is_the_state(self) -> None:
        assert self.desk.machine.transactions == self.desk.replayed().transactions

    @invariant()
    def every_state_follows_from_the_one_before(self) -> None:
        for who in IDS:
            for before, after in pairwise(self.story(who)):
                assert after.state in ALLOWED[before.state], (before, after)
                if before.state in COMPLETION:
                    assert after.state is COMPLETION[before.state], "what was decided stays decided"
                    assert not after.partitions

    @invariant()
    def epochs_only_grow(self) -> None:
        owners: dict[int, str] = {}
        for who in IDS:
            for each in self.story(who):
                assert owners.setdefault(each.producer_id, who) == who, "a producer id belongs to one transactional id"
            for before, after in pairwise(self.story(who)):
                if before.producer_id == after.producer_id:
                    assert after.producer_epoch >= before.producer_epoch
                else:
                    assert before.producer_epoch >= LAST_EPOCH and after.producer_epoch == 0

    @invariant()
    def markers_go_out_for_what_is_committed(self) -> None:
        committed = self.desk.log.entries[: self.desk.log.committed_offset]
        decided = {
            (told.producer, told.state is TransactionState.PREPARE_COMMIT)
            for entry, _ in committed
            if isinstance(entry, CoordinatorRecord) and entry.value is not None
            for told in [read_record(entry.key, entry.value)]
            if told.state in COMPLETION
        }
        for markers in self.desk.sent:
            assert (markers.producer, markers.is_commit) in decided

    @invariant()
    def one_transaction_of_version_2_has_one_end(self) -> None:
        ended: dict[tuple[str, ProducerIdAndEpoch], set[bool]] = {}
        for who, producer, committed, version, asked in self.ends:
            if (
                version >= 5
                and asked.is_answered
                and isinstance(asked.answer, EndTxnResponse)
                and asked.answer.error_code == ErrorCode.NONE
            ):
                ended.setdefault((who, producer), set()).add(committed)
        assert all(len(ends) == 1 for ends in ended.values()), ended

    @invariant()
    def requests_are_answered_at_most_once(self) -> None:
        assert all(len(asked.answers) <= 1 for asked in self.asked)

    def teardown(self) -> None:
        if hasattr(self, "desk"):
            self.desk.commit()
            # An end that was answered is in the story and has its markers.
            for who, producer, committed, version, asked in self.ends:
                if version >= 5 and succeeded(asked, EndTxnResponse):
                    wanted = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
                    assert any(
                        each.state is wanted and (each.producer_id, each.producer_epoch) == (producer.producer_id, producer.epoch + 1)
                        for each in self.story(who)
                    ), (who, producer, committed)


TestTransactionsUnderFire = TransactionsUnderFire.TestCase
TestTransactionsUnderFire.settings = settings(stateful_step_count=40)
