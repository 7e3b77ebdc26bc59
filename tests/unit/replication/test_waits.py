from dataclasses import dataclass

from moldau.errors import ErrorCode
from moldau.replication.waits import TICK_MS, FetchWait, Parked, ProduceWait, Timeouts


@dataclass
class Slot:
    error_code: int = 0


class Calls:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_what_is_parked_ends_once() -> None:
    calls = Calls()
    parked = Parked(calls)
    parked.finish()
    parked.finish()
    assert calls.count == 1


def test_time_runs_out_in_order_and_not_early() -> None:
    ended: list[str] = []
    timeouts = Timeouts(lambda due_ms: None)
    timeouts.add(Parked(lambda: ended.append("late")), 2000)
    timeouts.add(Parked(lambda: ended.append("soon")), 1000)
    timeouts.expire(999)
    assert ended == []
    timeouts.expire(1000 + TICK_MS)
    assert ended == ["soon"]
    timeouts.expire(2000 + TICK_MS)
    assert ended == ["soon", "late"]
    assert timeouts.next_due_ms() is None


def test_tells_the_shell_only_of_earlier_ends() -> None:
    told: list[int] = []
    timeouts = Timeouts(told.append)
    for due_ms in (800, 1600, 1600, 400, 404):
        timeouts.add(Parked(Calls()), due_ms)
    assert told == [800, 400]
    assert timeouts.next_due_ms() == 400


def test_who_leaves_early_costs_nothing_later() -> None:
    calls = Calls()
    timeouts = Timeouts(lambda due_ms: None)
    for _ in range(1000):
        parked = Parked(calls)
        timeouts.add(parked, 30_000)
        timeouts.discard(parked)
    assert len(timeouts) == 0
    assert timeouts.next_due_ms() == 30_000  # one bucket for all of them, not a thousand entries
    timeouts.expire(40_000)
    assert calls.count == 0


def test_discarding_what_was_never_added_is_nothing() -> None:
    Timeouts(lambda due_ms: None).discard(Parked(Calls()))


def test_a_produce_waits_for_each_of_its_partitions() -> None:
    calls, one, two = Calls(), Slot(), Slot()
    wait = ProduceWait(calls)
    wait.expect(one)
    wait.expect(two)
    wait.settle(two, ErrorCode.NONE)
    assert calls.count == 0
    wait.settle(one, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert calls.count == 1
    assert (one.error_code, two.error_code) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NONE)


def test_a_produce_whose_time_ran_out_says_so_of_what_was_open() -> None:
    calls, settled, open_ = Calls(), Slot(), Slot()
    wait = ProduceWait(calls)
    wait.expect(settled)
    wait.expect(open_)
    wait.settle(settled, ErrorCode.NONE)
    wait.finish()
    wait.settle(open_, ErrorCode.NONE)  # too late: the answer is on its way
    assert calls.count == 1
    assert (settled.error_code, open_.error_code) == (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)


def test_a_fetch_waits_until_there_is_enough() -> None:
    calls = Calls()
    wait = FetchWait(100, calls)
    wait.found(60)
    assert calls.count == 0
    wait.found(40)
    assert calls.count == 1
