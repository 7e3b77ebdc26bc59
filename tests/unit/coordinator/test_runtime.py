"""The runtime alone, on a register that remembers what was written to it."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.coordinator.outcome import PIECE_RECORDS, CoordinatorRecord, Outcome, ProducerIdAndEpoch, Reply, Timer, Token
from moldau.coordinator.runtime import FIRED_AT_ONCE, Shard, ShardState
from moldau.errors import ErrorCode


class Asked:
    """A token that remembers its answer."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def reply(self, message: Any) -> None:
        self.answers.append(message)

    def refuse(self, code: ErrorCode) -> None:
        self.answers.append(code)


class Log:
    """A log that commits and fails when the test says so."""

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.committed_offset = 0
        self.failure: ErrorCode | None = None
        self.watched: list[int] = []
        self.is_dropped = False
        self.most_records = 1_000_000

    def watch(self, end_offset: int) -> None:
        self.watched.append(end_offset)

    def drop(self) -> None:
        self.is_dropped = True

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def append(
        self, records: list[CoordinatorRecord], producer: ProducerIdAndEpoch | None, guard: object | None, now_ms: int
    ) -> int | ErrorCode:
        if self.failure is not None:
            return self.failure
        if len(records) > self.most_records:
            return ErrorCode.MESSAGE_TOO_LARGE
        self.records += records
        return len(self.records)


class Register:
    """The smallest machine: keys and values."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.offsets: list[int] = []
        self.waiting: list[Token] = []

    def put(self, token: Token, key: str, value: int) -> Callable[[int], Outcome]:
        return lambda now_ms: Outcome([CoordinatorRecord(key, value)], [Reply(token, "written")])

    def get(self, token: Token, key: str) -> Callable[[int], Outcome]:
        return lambda now_ms: Outcome(replies=[Reply(token, self.values.get(key))])

    def replay(self, offset: int, record: CoordinatorRecord, producer: ProducerIdAndEpoch | None) -> None:
        self.offsets.append(offset)
        self.values[record.key] = record.value  # type: ignore[assignment]

    def replay_end_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        raise AssertionError("no transactions here")

    def on_loaded(self, now_ms: int) -> Outcome:
        return Outcome()

    def on_unloaded(self) -> list[Token]:
        return self.waiting


def a_shard(log: Log) -> Shard[Register]:
    shard = Shard(Register(), log, on_send=lambda send: None)
    shard.activate(0)
    return shard


def test_a_write_is_answered_when_it_is_committed_and_a_read_of_it_not_before() -> None:
    log, write, read = Log(), Asked(), Asked()
    shard = a_shard(log)
    shard.run(shard.machine.put(write, "a", 1), 0)
    shard.run(shard.machine.get(read, "a"), 0)
    assert write.answers == read.answers == []
    log.committed_offset = 1
    shard.release()
    assert (write.answers, read.answers) == (["written"], [1])


def test_a_read_with_nothing_in_flight_is_answered_at_once() -> None:
    read = Asked()
    shard = a_shard(Log())
    shard.run(shard.machine.get(read, "a"), 0)
    assert read.answers == [None]


def test_a_read_behind_what_others_appended_waits_for_it_and_no_longer() -> None:
    """A transaction's marker is appended beside the shard: nothing else would release the reads that wait behind it."""
    log, written, read = Log(), Asked(), Asked()
    shard = a_shard(log)
    shard.run(shard.machine.put(written, "a", 1), 0)
    log.committed_offset = 1
    shard.release()
    log.records.append(CoordinatorRecord("marker", None))
    shard.run(shard.machine.get(read, "a"), 0)
    shard.run(shard.machine.get(Asked(), "a"), 0)
    assert (read.answers, log.watched) == ([], [2])
    log.committed_offset = 2
    shard.release()
    assert read.answers == [1]


def test_what_need_not_be_atomic_may_be_more_than_a_batch_holds() -> None:
    log, asked = Log(), Asked()
    log.most_records = PIECE_RECORDS
    shard = a_shard(log)
    records = [CoordinatorRecord(f"{number}", number) for number in range(3 * PIECE_RECORDS + 1)]
    shard.run(lambda now_ms: Outcome(records, [Reply(asked, "done")], is_atomic=False), 0)
    assert shard.machine.offsets == list(range(len(records)))
    log.committed_offset = len(records) - 1
    shard.release()
    assert not asked.answers
    log.committed_offset = len(records)
    shard.release()
    assert asked.answers == ["done"]
    shard.run(lambda now_ms: Outcome(records, [Reply(asked, "done")]), 0)
    assert asked.answers == ["done", ErrorCode.MESSAGE_TOO_LARGE]


def test_a_failed_append_changes_nothing_and_sends_everyone_away() -> None:
    log, parked, failed, waiting = Log(), Asked(), Asked(), Asked()
    shard = a_shard(log)
    shard.run(shard.machine.put(parked, "a", 1), 0)
    shard.machine.waiting = [waiting]
    log.failure = ErrorCode.NOT_LEADER_OR_FOLLOWER
    shard.run(shard.machine.put(failed, "a", 2), 0)
    assert parked.answers == failed.answers == waiting.answers == [ErrorCode.NOT_COORDINATOR]
    assert shard.machine.values == {"a": 1}
    assert shard.state is ShardState.CLOSED and log.is_dropped
    assert shard.refusal is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_what_is_wrong_with_one_batch_fails_alone(code: ErrorCode) -> None:
    """The batch may be a huge one, or have offsets of a transaction that ended while its coordinator was asked about it."""
    log, failed = Log(), Asked()
    shard = a_shard(log)
    log.failure = code
    shard.run(shard.machine.put(failed, "a", 2), 0)
    assert failed.answers == [code]
    assert shard.state is ShardState.ACTIVE
    assert shard.machine.values == {}


def test_timers_run_when_due_in_order_and_a_replaced_one_only_once() -> None:
    shard, fired = a_shard(Log()), []

    def set_timer(key: str, due_ms: int) -> None:
        def fire(now_ms: int) -> Outcome:
            fired.append((key, due_ms, now_ms))
            return Outcome()

        shard.run(lambda now_ms: Outcome(timers=[Timer(key, due_ms, fire)]), 0)

    set_timer("a", 30)
    set_timer("b", 10)
    set_timer("c", 20)
    set_timer("b", 25)
    shard.run(lambda now_ms: Outcome(timers=[Timer("c")]), 0)
    assert shard.next_due_ms() == 25
    shard.fire(24)
    assert fired == []
    shard.fire(30)
    assert fired == [("b", 25, 30), ("a", 30, 30)]
    assert shard.next_due_ms() is None


def test_timers_go_by_the_clock_that_does_not_jump() -> None:
    shard, fired = a_shard(Log()), []

    def fire(now_ms: int) -> Outcome:
        fired.append(now_ms)
        return Outcome()

    shard.run(lambda now_ms: Outcome(timers=[Timer("session", now_ms + 100, fire)]), 5_000, 7)
    assert shard.next_due_ms() == 107
    shard.fire(3_000_000, 50)
    assert fired == [], "the wall clock was set forward"
    shard.fire(1_000, 107)
    assert fired == [1_000]


@given(st.lists(st.tuples(st.integers(0, 20), st.one_of(st.none(), st.integers(0, 100)))), st.integers(0, 120))
def test_timers_agree_with_a_dictionary(steps: list[tuple[int, int | None]], now_ms: int) -> None:
    shard, model, fired = a_shard(Log()), {}, []

    def fire_of(key: int) -> Callable[[int], Outcome]:
        def fire(_: int) -> Outcome:
            fired.append(key)
            return Outcome()

        return fire

    for key, due_ms in steps:
        timer = Timer(key) if due_ms is None else Timer(key, due_ms, fire_of(key))
        shard.run(lambda _, timer=timer: Outcome(timers=[timer]), 0)
        model.pop(key, None)
        if due_ms is not None:
            model[key] = due_ms
    assert shard.next_due_ms() == (min(model.values()) if model else None)
    shard.fire(now_ms)
    assert sorted(fired) == sorted(key for key, due_ms in model.items() if due_ms <= now_ms)


@given(st.lists(st.one_of(st.tuples(st.just("put"), st.sampled_from("abc"), st.integers()), st.just("commit"))))
def test_what_was_answered_is_what_a_replay_of_the_committed_log_holds(steps: list[Any]) -> None:
    log, asked = Log(), []
    shard = a_shard(log)
    for step in steps:
        if step == "commit":
            log.committed_offset = log.end_offset
            shard.release()
            continue
        _, key, value = step
        asked.append(Asked())
        shard.run(shard.machine.put(asked[-1], key, value), 0)
    assert sum(len(token.answers) for token in asked) == log.committed_offset
    loaded = Shard(Register(), log, on_send=lambda send: None)
    for offset, record in enumerate(log.records):
        loaded.load(offset, record)
    assert loaded.machine.values == shard.machine.values
    assert loaded.machine.offsets == shard.machine.offsets


def test_many_timers_that_are_due_together_are_run_a_few_at_a_time() -> None:
    """The loop serves others in between: each timer may cost a millisecond, and there may be thousands."""
    shard = a_shard(Log())
    fired: list[int] = []

    def note(number: int) -> Outcome:
        fired.append(number)
        return Outcome()

    timers = [Timer(number, 10, lambda now_ms, number=number: note(number)) for number in range(3 * FIRED_AT_ONCE)]  # type: ignore[misc]
    shard.run(lambda now_ms: Outcome(timers=timers), 0)
    for turn in range(1, 4):
        assert shard.next_due_ms() == 10
        shard.fire(10)
        assert fired == list(range(turn * FIRED_AT_ONCE))
    assert shard.next_due_ms() is None
