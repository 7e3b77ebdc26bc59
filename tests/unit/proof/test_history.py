"""A history of changes finds what is lost, repeated or wrong."""

from typing import Any

import pytest

from proof.connect.debezium.history import History

Row = dict[str, Any] | None


def told(op: str, before: Row, after: Row, *, key: Any = 1, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    value = {"schema": None, "payload": {"op": op, "before": before, "after": after}}
    keyed = None if key is None else {"schema": None, "payload": {"id": key}}
    return {"topic": "t", "key": keyed, "value": value, "headers": headers or {}}


A, B = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
STORY = [told("r", None, A), told("u", A, B), told("d", B, None), told("c", None, A)]


def test_a_whole_story_has_no_mistakes_and_ends_in_its_rows() -> None:
    history = History({"t"}).tell(STORY)
    assert history.mistakes == []
    assert history.rows == {"t": {'{"id": 1}': A}}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("times", [0, 2])
def test_a_lost_or_repeated_change_is_found(number: int, times: int, keyed: bool) -> None:
    story = [one if keyed else {**one, "key": None} for one in STORY]
    wrong = [*story[:number], *[story[number]] * times, *story[number + 1 :]]
    history, right = History({"t"}).tell(wrong), History({"t"}).tell(story)
    assert history.mistakes or history.differences(right, "", without="")


def test_a_value_that_is_not_repeated_is_that_of_the_row_before_also_under_another_key() -> None:
    unchanged = "__debezium_unavailable_value"
    old = {"__debezium.oldkey": {"schema": None, "payload": {"id": 1}}}
    moved = [told("d", A, None), told("c", None, {"id": 2, "name": unchanged}, key=2, headers=old)]
    assert History().tell([told("c", None, A), *moved]).rows["t"] == {'{"id": 2}': {"id": 2, "name": "a"}}


def test_rows_that_differ_are_named() -> None:
    one, other = (History().tell([told("c", None, row)]) for row in (A, B))
    assert len(one.differences(other, "one or other", without="")) == 1
    assert one.differences(other, "one or other", without="t") == []
