import gc
import weakref
from typing import Any, NoReturn

import pytest

from moldau.net.later import Later

BUG = RuntimeError("a bug")


def raising(error: Exception) -> NoReturn:
    raise error


def nothing() -> None: ...


def test_an_answer_is_taken_whichever_comes_first() -> None:
    taken: list[str] = []
    early: Later[str] = Later(nothing)
    early.complete("early")
    early.then(taken.append, raising)
    late: Later[str] = Later(nothing)
    late.then(taken.append, raising)
    late.complete("late")
    assert taken == ["early", "late"]


def test_a_mapped_answer_is_what_its_transform_makes_of_it_whichever_comes_first() -> None:
    taken: list[str] = []
    early: Later[int] = Later(nothing)
    early.complete(1)
    early.map(lambda number: f"early {number}", raising).then(taken.append, raising)
    late: Later[int] = Later(nothing)
    late.map(lambda number: f"late {number}", raising).then(taken.append, raising)
    late.complete(2)
    assert taken == ["early 1", "late 2"]


def test_abandoned_it_tells_once_and_takes_nothing() -> None:
    told: list[str] = []
    taken: list[str] = []
    later: Later[int] = Later(lambda: told.append("abandoned"))
    later.map(str, str).then(taken.append, raising)
    later.abandon()
    later.abandon()
    later.complete(3)
    assert (told, taken) == (["abandoned"], [])


class Request:
    """An object that waits for an answer; the `Later` must not keep it alive afterwards."""

    def answered(self, number: int) -> int:
        return number

    def rescued(self, error: Exception) -> int:
        return 0


def test_settled_or_abandoned_it_lets_go_of_who_waits() -> None:
    for settle in (lambda later: later.complete(1), lambda later: later.fail(BUG), lambda later: later.abandon()):
        request = Request()
        gone = weakref.ref(request)
        later: Later[int] = Later(nothing)
        later.map(request.answered, request.rescued).then(nothing_of, nothing_of)
        gc.disable()
        try:
            del request
            settle(later)
            assert gone() is None
        finally:
            gc.enable()


def nothing_of(_: object) -> None: ...


class Taker:
    """Waits for an answer, and notes what it was told."""

    def __init__(self) -> None:
        self.taken: list[object] = []
        self.errors: list[Exception] = []

    def wait_for(self, later: Later[Any]) -> None:
        later.then(self.taken.append, self.errors.append)


@pytest.mark.parametrize("is_early", [True, False])
def test_a_failure_is_told_whichever_comes_first(is_early: bool) -> None:
    taker = Taker()
    later: Later[int] = Later(nothing)
    if is_early:
        later.fail(BUG)
    taker.wait_for(later)
    if not is_early:
        later.fail(BUG)
    assert (taker.taken, taker.errors) == ([], [BUG])


@pytest.mark.parametrize("is_early", [True, False])
def test_a_failure_becomes_an_answer_by_its_rescue(is_early: bool) -> None:
    taker = Taker()
    later: Later[int] = Later(nothing)
    if is_early:
        later.fail(BUG)
    mapped = later.map(str, lambda error: f"refused: {error}")
    taker.wait_for(mapped)
    if not is_early:
        later.fail(BUG)
    assert (taker.taken, taker.errors) == (["refused: a bug"], [])


@pytest.mark.parametrize("is_early", [True, False])
def test_a_transform_that_fails_is_rescued_too(is_early: bool) -> None:
    taker = Taker()
    later: Later[int] = Later(nothing)
    if is_early:
        later.complete(0)
    mapped = later.map(lambda number: f"{1 // number}", lambda error: type(error).__name__)
    taker.wait_for(mapped)
    if not is_early:
        later.complete(0)
    assert taker.taken == ["ZeroDivisionError"]


def test_what_a_rescue_raises_is_the_failure() -> None:
    taker = Taker()
    later: Later[int] = Later(nothing)
    taker.wait_for(later.map(str, raising))
    later.fail(BUG)
    assert (taker.taken, taker.errors) == ([], [BUG])


def test_a_step_that_raises_fails_the_answer_and_reaches_nobody_else() -> None:
    taker = Taker()
    later: Later[int] = Later(nothing)
    taker.wait_for(later)
    later.attempt(lambda: raising(BUG))
    assert taker.errors == [BUG]
    other: Later[int] = Later(nothing)
    other.attempt(lambda: other.complete(1))
    taker.wait_for(other)
    assert taker.taken == [1]


def test_who_takes_an_answer_and_raises_is_told_and_stops_nobody() -> None:
    for is_early in (True, False):
        taker = Taker()
        later: Later[Exception] = Later(nothing)
        if is_early:
            later.complete(BUG)
        later.then(raising, taker.errors.append)
        if not is_early:
            later.complete(BUG)
        assert taker.errors == [BUG]


def test_a_second_answer_is_a_bug_that_is_told() -> None:
    later: Later[int] = Later(nothing)
    later.complete(1)
    with pytest.raises(AssertionError, match="once"):
        later.attempt(lambda: later.complete(2))
