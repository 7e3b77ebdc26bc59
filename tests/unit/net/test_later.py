import gc
import weakref

from moldau.net.later import Later


def nothing() -> None: ...


def test_an_answer_is_taken_whichever_comes_first() -> None:
    taken: list[str] = []
    early: Later[str] = Later(nothing)
    early.complete("early")
    early.then(taken.append)
    late: Later[str] = Later(nothing)
    late.then(taken.append)
    late.complete("late")
    assert taken == ["early", "late"]


def test_a_mapped_answer_is_what_its_transform_makes_of_it_whichever_comes_first() -> None:
    taken: list[str] = []
    early: Later[int] = Later(nothing)
    early.complete(1)
    early.map(lambda number: f"early {number}").then(taken.append)
    late: Later[int] = Later(nothing)
    late.map(lambda number: f"late {number}").then(taken.append)
    late.complete(2)
    assert taken == ["early 1", "late 2"]


def test_abandoned_it_tells_once_and_takes_nothing() -> None:
    told: list[str] = []
    taken: list[str] = []
    later: Later[int] = Later(lambda: told.append("abandoned"))
    later.map(str).then(taken.append)
    later.abandon()
    later.abandon()
    later.complete(3)
    assert (told, taken) == (["abandoned"], [])


class Request:
    """Something that whoever answers must not be kept by."""

    def answered(self, number: int) -> int:
        return number


def test_settled_or_abandoned_it_lets_go_of_who_waits() -> None:
    for settle in (lambda later: later.complete(1), lambda later: later.abandon()):
        request = Request()
        gone = weakref.ref(request)
        later: Later[int] = Later(nothing)
        later.map(request.answered).then(nothing_of)
        gc.disable()
        try:
            del request
            settle(later)
            assert gone() is None
        finally:
            gc.enable()


def nothing_of(_: int) -> None: ...
