"""The rolling limit, against brute force and by its laws."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.rolling import DAY_MS, HOUR_MS, Limit, Outcome, Window, judge, pack, unpack

LIMIT = Limit(most=10)
QUARTER_DAYS = st.integers(0, 40).map(lambda quarter: quarter * DAY_MS // 4 + quarter % 3)
EVENTS = st.lists(st.tuples(QUARTER_DAYS | st.integers(0, 3 * DAY_MS), st.integers(0, 12)), max_size=30)


def run(events: list[tuple[int, int]], *, through_text: bool = False) -> list[Outcome]:
    window, outcomes = Window(), []
    for at_ms, amount in events:
        if through_text:
            window = unpack(pack(window))
        window, outcome = judge(LIMIT, window, at_ms, amount)
        outcomes.append(outcome)
    return outcomes


def brute_force(events: list[tuple[int, int]]) -> list[Outcome]:
    """Looks at everything that ever happened, and remembers all of it."""
    outcomes: list[Outcome] = []
    passed: list[tuple[int, int]] = []
    judged: list[int] = []
    for at_ms, amount in events:
        if judged and at_ms < max(judged) - HOUR_MS:
            outcomes.append(Outcome.LATE)
            continue
        judged.append(at_ms)
        if sum(n for t, n in passed if t > at_ms - DAY_MS) + amount > LIMIT.most:
            outcomes.append(Outcome.OVER_LIMIT)
        else:
            outcomes.append(Outcome.PASSED)
            passed.append((at_ms, amount))
    return outcomes


@given(EVENTS)
def test_forgetting_changes_no_verdict(events: list[tuple[int, int]]) -> None:
    assert run(events) == brute_force(events)
    assert run(sorted(events)) == brute_force(sorted(events))


@given(EVENTS, st.lists(st.integers(0, 30), max_size=5))
def test_a_restart_anywhere_changes_no_verdict(events: list[tuple[int, int]], cuts: list[int]) -> None:
    assert run(events, through_text=True) == run(events)


def test_five_and_five_across_midnight_is_one_day() -> None:
    """A tumbling day would let this pass."""
    assert run([(DAY_MS - 1, 6), (DAY_MS + 1, 6)]) == [Outcome.PASSED, Outcome.OVER_LIMIT]


def test_the_window_is_open_at_its_old_end() -> None:
    assert run([(0, 10), (DAY_MS - 1, 1), (DAY_MS, 10)]) == [Outcome.PASSED, Outcome.OVER_LIMIT, Outcome.PASSED]


def test_late_is_older_than_the_newest_by_more_than_the_grace() -> None:
    assert run([(2 * HOUR_MS, 1), (HOUR_MS, 1), (HOUR_MS - 1, 1)]) == [Outcome.PASSED, Outcome.PASSED, Outcome.LATE]


def test_an_event_within_the_grace_looks_back_a_whole_day_from_itself() -> None:
    quarter = HOUR_MS // 4
    assert run([(2 * quarter, 10), (DAY_MS + 3 * quarter, 0), (DAY_MS + quarter, 1)])[-1] is Outcome.OVER_LIMIT


def test_what_failed_does_not_count() -> None:
    assert run([(0, 11), (1, 10), (2, 1)]) == [Outcome.OVER_LIMIT, Outcome.PASSED, Outcome.OVER_LIMIT]


@given(st.lists(st.tuples(st.integers(0, 400 * DAY_MS), st.just(0)), min_size=50, max_size=80))
def test_memory_holds_a_day_and_the_grace(events: list[tuple[int, int]]) -> None:
    window = Window()
    for at_ms, amount in sorted(events):
        window, _ = judge(LIMIT, window, at_ms, amount)
        assert all(entry_ms > at_ms - DAY_MS - HOUR_MS for entry_ms, _ in window.passed)
