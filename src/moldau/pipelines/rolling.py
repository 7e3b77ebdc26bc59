"""◇ The rolling limit: at most so much a key within any 24 hours.

Two jobs share this rule: fraud (cents a customer) and the promotion (burgers a customer).  It is a pure function, so that
the stream, the tests and anybody's notebook run the very same thing.

    judge(window, at_ms, amount)  →  window', PASSED | OVER_LIMIT | LATE

Only events that passed count.  A key's events are judged in the order in which its partition holds them, never in the order of
some micro-batch: the verdicts are then the same wherever a batch is cut.  An event older than the key's newest by more than
`grace_ms` is LATE: it cannot be judged any more, since events after it already were; it goes to the dead-letter topic.
"""

import json
from enum import StrEnum
from typing import NamedTuple

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Outcome(StrEnum):
    PASSED = "PASSED"
    OVER_LIMIT = "OVER_LIMIT"
    LATE = "LATE"
    # `customer.judge` finds these before it asks the rolling limit.
    CLOCK_AHEAD = "CLOCK_AHEAD"
    REPEATED = "REPEATED"


class Limit(NamedTuple):
    most: int
    window_ms: int = DAY_MS
    grace_ms: int = HOUR_MS


class Window(NamedTuple):
    """The memory of a key: its newest event time, and the amounts that may still count."""

    newest_ms: int | None = None
    passed: tuple[tuple[int, int], ...] = ()  # (at_ms, amount), in arrival order


def judge(limit: Limit, window: Window, at_ms: int, amount: int) -> tuple[Window, Outcome]:
    """An event at `t` may use what the passed events after `t - window_ms` left of the limit."""
    newest_ms = at_ms if window.newest_ms is None else max(window.newest_ms, at_ms)
    if at_ms < newest_ms - limit.grace_ms:
        return window, Outcome.LATE
    # An event within the grace may still look back a whole window, so events are remembered for the window and the grace.
    oldest_ms = newest_ms - limit.window_ms - limit.grace_ms
    passed = tuple(entry for entry in window.passed if entry[0] > oldest_ms)
    used = sum(counted for counted_ms, counted in passed if counted_ms > at_ms - limit.window_ms)
    if amount == 0:  # the event uses nothing, so there is nothing to remember
        return Window(newest_ms, passed), Outcome.PASSED
    if used + amount > limit.most:
        return Window(newest_ms, passed), Outcome.OVER_LIMIT
    return Window(newest_ms, (*passed, (at_ms, amount))), Outcome.PASSED


def pack(window: Window) -> str:
    return json.dumps([window.newest_ms, window.passed], separators=(",", ":"))


def unpack(text: str | None) -> Window:
    if text is None:
        return Window()
    newest_ms, passed = json.loads(text)
    return Window(newest_ms, tuple((at_ms, amount) for at_ms, amount in passed))
