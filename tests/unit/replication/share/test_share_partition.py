"""The records that a member gets of a share partition, case by case; the machine of rules looks at everything together."""

import pytest

from moldau.errors import ErrorCode
from moldau.replication.share.decision import AcknowledgedRange, AcquiredRange, DeathCause, Decision, LogBatch, Refusal, StateBatch
from moldau.replication.share.in_flight import AcknowledgeType, RecordState
from moldau.replication.share.partition import WRITE_AGAIN_MS, SharePartition
from moldau.replication.share.rules import ShareRules

LOCK_MS = 30_000
ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)


def log_of(*sizes: int, start: int = 0) -> list[LogBatch]:
    batches = []
    for size in sizes:
        batches.append(LogBatch(start, start + size - 1))
        start += size
    return batches


def fetch(
    partition: SharePartition,
    log: list[LogBatch],
    member: str = "anna",
    *,
    most: int = 500,
    batch_size: int = 500,
    limit: bool = False,
    now_ms: int = 0,
) -> list[AcquiredRange]:
    offset = partition.next_fetch_offset(now_ms)
    window = [batch for batch in log if batch.last_offset >= offset]
    return partition.acquire(
        member, window, fetch_offset=offset, max_records=most, batch_size=batch_size, is_record_limit=limit, now_ms=now_ms
    )


def say(partition: SharePartition, kind: AcknowledgeType, first: int, last: int, member: str = "anna", *, now_ms: int = 0) -> Decision:
    decision = partition.acknowledge(member, [AcknowledgedRange(first, last, [kind])], now_ms)
    assert isinstance(decision, Decision), decision
    partition.settle(decision, is_written=True, now_ms=now_ms)
    return decision


def states(partition: SharePartition) -> list[tuple[int, int, str, int]]:
    return [(run.first, run.last, run.state.name, run.delivery_count) for run in partition.runs()]


def test_whole_batches_of_the_log_are_acquired_until_there_are_enough_records() -> None:
    partition, log = SharePartition(0, ShareRules()), log_of(4, 4, 4)
    assert fetch(partition, log, most=5) == [(0, 7, 1)]
    assert fetch(partition, log, "ben", most=5) == [(8, 11, 1)]
    assert fetch(partition, log, "cleo") == []


def test_with_a_record_limit_not_one_more() -> None:
    partition, log = SharePartition(0, ShareRules()), log_of(4, 4, 4)
    assert fetch(partition, log, most=5, limit=True) == [(0, 4, 1)]
    assert fetch(partition, log, "ben", most=2, limit=True) == [(5, 6, 1)]
    assert states(partition) == [(0, 4, "ACQUIRED", 1), (5, 6, "ACQUIRED", 1), (7, 7, "AVAILABLE", 0)]


def test_what_is_acquired_is_told_in_batches_of_the_wanted_size() -> None:
    partition = SharePartition(0, ShareRules())
    assert fetch(partition, log_of(3, 3, 3, 3, 1), batch_size=5) == [(0, 5, 1), (6, 11, 1), (12, 12, 1)]


def test_no_more_records_than_locks() -> None:
    partition, log = SharePartition(0, ShareRules(max_record_locks=6)), log_of(*[2] * 10)
    assert fetch(partition, log) == [(0, 5, 1)]
    assert not partition.can_acquire(0)
    assert fetch(partition, log, "ben") == []
    say(partition, RELEASE, 2, 3)
    assert partition.can_acquire(0)
    assert fetch(partition, log, "ben") == [(2, 3, 2)]
    say(partition, ACCEPT, 0, 1)
    assert fetch(partition, log, "ben") == [(6, 7, 1)]


def test_a_record_that_was_delivered_often_comes_in_smaller_portions_and_alone_the_last_time() -> None:
    partition, log = SharePartition(0, ShareRules(delivery_count_limit=5)), log_of(8)
    for count in (1, 2, 3):
        assert fetch(partition, log) == [(0, 7, count)]
        say(partition, RELEASE, 0, 7)
    assert fetch(partition, log) == [(0, 3, 4)]
    assert fetch(partition, log, "ben") == [(4, 7, 4)]
    say(partition, RELEASE, 0, 3)
    assert fetch(partition, log) == [(0, 0, 5)]
    assert fetch(partition, log) == [(1, 1, 5)]
    assert say(partition, RELEASE, 0, 1).batches == [(0, 1, RecordState.ARCHIVED, 5)]
    assert partition.start_offset == 2


def test_suspicious_records_do_not_come_with_others() -> None:
    partition, log = SharePartition(0, ShareRules(delivery_count_limit=4)), log_of(2, 2)
    fetch(partition, log, most=2)
    say(partition, RELEASE, 0, 1)
    assert fetch(partition, log, most=2) == [(0, 1, 2)]
    say(partition, RELEASE, 0, 1)
    assert fetch(partition, log) == [(0, 0, 3)], "half of the batch, and nothing of the next"


@pytest.mark.parametrize(
    ("first", "last", "kinds", "code"),
    [
        (0, 9, [ACCEPT], ErrorCode.INVALID_REQUEST),
        (8, 9, [ACCEPT], ErrorCode.INVALID_REQUEST),
        (4, 7, [ACCEPT], ErrorCode.INVALID_RECORD_STATE),
        (2, 5, [ACCEPT], ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_what_a_member_does_not_hold_it_cannot_acknowledge(first: int, last: int, kinds: list[int], code: ErrorCode) -> None:
    partition, log = SharePartition(0, ShareRules()), log_of(4, 4)
    fetch(partition, log, most=4)
    fetch(partition, log, "ben", most=4)
    before = states(partition)
    refusal = partition.acknowledge("anna", [AcknowledgedRange(first, last, kinds)], 0)
    assert isinstance(refusal, Refusal)
    assert refusal.code == code
    assert states(partition) == before


def test_a_request_is_refused_as_a_whole() -> None:
    partition = SharePartition(0, ShareRules())
    fetch(partition, log_of(4))
    refusal = partition.acknowledge("anna", [AcknowledgedRange(0, 1, [ACCEPT]), AcknowledgedRange(1, 2, [ACCEPT])], 0)
    assert isinstance(refusal, Refusal)
    assert [run.state for run in partition.runs()] == [RecordState.ACQUIRED] * len(list(partition.runs()))
    assert partition.delivery_complete_count == 0


def test_what_is_being_written_is_left_alone_and_goes_back_when_it_cannot_be() -> None:
    partition, log = SharePartition(0, ShareRules()), log_of(4)
    fetch(partition, log)
    decision = partition.acknowledge("anna", [AcknowledgedRange(0, 3, [ACCEPT, RELEASE, REJECT, GAP])], 0)
    assert isinstance(decision, Decision)
    assert decision.batches == [
        (0, 0, RecordState.ACKNOWLEDGED, 1),
        (1, 1, RecordState.AVAILABLE, 1),
        (2, 2, RecordState.ARCHIVED, 1),
        (3, 3, RecordState.ARCHIVED, 1),
    ]
    assert partition.start_offset == 0
    assert fetch(partition, log, "ben") == []
    assert isinstance(partition.acknowledge("anna", [AcknowledgedRange(1, 1, [ACCEPT])], 0), Refusal)
    partition.settle(decision, is_written=False, now_ms=0)
    assert {run.member_id for run in partition.runs()} == {"anna"}
    say(partition, ACCEPT, 0, 3)
    assert (partition.start_offset, partition.next_offset, partition.delivery_complete_count) == (4, 4, 0)


def test_locks_end_and_can_be_renewed() -> None:
    partition, log = SharePartition(0, ShareRules(record_lock_duration_ms=LOCK_MS)), log_of(4)
    fetch(partition, log)
    assert partition.next_due_ms() == LOCK_MS
    say(partition, RENEW, 0, 1, now_ms=20_000)
    assert partition.expire(LOCK_MS).batches == [(2, 3, RecordState.AVAILABLE, 1)]
    assert fetch(partition, log, "ben", now_ms=LOCK_MS) == [(2, 3, 2)]
    assert partition.expire(20_000 + LOCK_MS).batches == [(0, 1, RecordState.AVAILABLE, 1)]
    assert isinstance(partition.acknowledge("anna", [AcknowledgedRange(0, 1, [ACCEPT])], 0), Refusal)


def test_a_lock_that_ends_while_an_acknowledgement_is_written_ends_when_that_fails() -> None:
    partition, log = SharePartition(0, ShareRules(record_lock_duration_ms=LOCK_MS)), log_of(4)
    fetch(partition, log)
    decision = partition.acknowledge("anna", [AcknowledgedRange(0, 3, [ACCEPT])], 0)
    assert isinstance(decision, Decision)
    assert partition.expire(LOCK_MS).batches == []
    partition.settle(decision, is_written=False, now_ms=LOCK_MS)
    assert partition.expire(LOCK_MS).batches == []
    assert partition.expire(LOCK_MS + WRITE_AGAIN_MS).batches == [(0, 3, RecordState.AVAILABLE, 1)]


def test_renewing_can_be_forbidden() -> None:
    partition = SharePartition(0, ShareRules(is_renewing_allowed=False))
    fetch(partition, log_of(4))
    assert isinstance(partition.acknowledge("anna", [AcknowledgedRange(0, 1, [RENEW])], 0), Refusal)


def test_a_retry_waits_longer_each_time() -> None:
    rules = ShareRules(delivery_count_limit=10, retry_delay_ms=1_000, retry_max_delay_ms=3_000)
    partition, log, now_ms = SharePartition(0, rules), log_of(1), 0
    for wait_ms in (1_000, 2_000, 3_000, 3_000):
        assert fetch(partition, log, now_ms=now_ms)
        say(partition, RELEASE, 0, 0, now_ms=now_ms)
        assert fetch(partition, log, now_ms=now_ms + wait_ms - 1) == []
        now_ms += wait_ms
        assert partition.expire(now_ms).is_freeing


def test_the_dead_are_told_with_the_cause() -> None:
    partition, log = SharePartition(0, ShareRules(delivery_count_limit=2, has_dead_letters=True)), log_of(4)
    fetch(partition, log)
    assert say(partition, REJECT, 1, 1).dead == [(1, 1, 1, DeathCause.REJECTED)]
    assert say(partition, GAP, 2, 2).dead == []
    say(partition, RELEASE, 0, 0)
    fetch(partition, log, now_ms=100)
    ended = partition.expire(100 + LOCK_MS)
    assert ended.dead == [(0, 0, 2, DeathCause.DELIVERIES_EXHAUSTED)]
    assert next(run.first for run in partition.runs()) == 0, "the record is not done before it is with the dead letters"
    partition.settle(ended, is_written=True, now_ms=100 + LOCK_MS)
    assert partition.start_offset == 3


def test_records_of_aborted_transactions_are_done() -> None:
    partition = SharePartition(0, ShareRules())
    log = log_of(2, 3, 2)
    got = partition.acquire(
        "anna", log, fetch_offset=0, max_records=10, batch_size=10, is_record_limit=False, now_ms=0, aborted=[LogBatch(2, 4)]
    )
    assert got == [(0, 1, 1), (5, 6, 1)]
    assert partition.delivery_complete_count == 3


def test_what_the_log_has_not_any_more_is_done() -> None:
    partition, log = SharePartition(0, ShareRules()), log_of(2, 2, 2)
    fetch(partition, log)
    say(partition, RELEASE, 0, 5)
    assert fetch(partition, [log[2]]) == [(4, 5, 2)]
    assert partition.start_offset == 4


def test_deleted_records_are_nobodys() -> None:
    partition, log = SharePartition(0, ShareRules()), log_of(4, 4)
    fetch(partition, log)
    say(partition, ACCEPT, 2, 5)
    assert partition.log_start_moved(4)
    assert (partition.start_offset, partition.delivery_complete_count) == (6, 0)
    decision = partition.acknowledge("anna", [AcknowledgedRange(0, 3, [ACCEPT])], 0)
    assert isinstance(decision, Decision)
    assert not decision.batches
    assert partition.log_start_moved(20)
    assert partition.next_fetch_offset(0) == 20


def test_a_new_leader_begins_with_what_was_written() -> None:
    stored = [StateBatch(12, 13, RecordState.ACKNOWLEDGED, 1), StateBatch(16, 17, RecordState.AVAILABLE, 3)]
    partition = SharePartition.restored(10, stored, ShareRules(), state_epoch=2)
    assert partition is not None
    assert states(partition) == [(10, 11, "AVAILABLE", 0), (12, 13, "ACKNOWLEDGED", 1), (14, 15, "AVAILABLE", 0), (16, 17, "AVAILABLE", 3)]
    assert partition.delivery_complete_count == 2
    assert fetch(partition, log_of(10, start=10)) == [(10, 11, 1), (14, 15, 1)], "the record delivered three times comes by itself"
    assert SharePartition.restored(14, stored, ShareRules(), state_epoch=2) is None
