"""The answers of a foreign-key join come later than its rows: an answer to a row that has changed since does not count."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from moldau.pipelines.streams import STRING, Driver, StreamsBuilder
from moldau.pipelines.streams.foreign_key import QUIETLY, Answers
from moldau.pipelines.streams.records import STALE_RESPONSE, Change, Dropped, Record
from moldau.pipelines.streams.state import State, Stores, pack


def inner() -> Answers:
    """Rows that begin with n name no other row."""
    named = lambda key, left: None if left.startswith("n") else left[0]  # noqa: E731
    return Answers("answers", named, lambda left, right: f"{left}|{right}", is_left=False)


@pytest.mark.parametrize(
    ("rows", "answers"),
    [
        # The result was p0|r.  The row changes twice within a micro-batch; its last form finds no other row.
        (["q1", "q2"], [["q1", None], ["q2", None, QUIETLY]]),
        (["n1", "n2"], [["n1", None]]),
        (["n1", None], [["n1", None]]),
        (["q1", "n1", "n2"], [["q1", "r"], ["n1", None]]),
        (["n1", "q1"], [["n1", None], ["q1", None, QUIETLY]]),
        (["q1", None], [["q1", "r"], [None, None]]),
    ],
)
def test_a_result_goes_whose_row_changed_twice_and_finds_no_other_row(rows: Sequence[str | None], answers: list[list[str | None]]) -> None:
    together = len({row and row[0] for row, *_ in answers}) == 1  # answers of one foreign key stay in their order
    for order in [tuple(answers)] if together else permutations(answers):
        state = State()
        node, stores = inner(), Stores(state)
        written: list[str | None] = []
        old: str | None = None
        for row in ["p0", *rows]:
            assert list(node.process(Record("k", Change(row, old), 1), 0, stores)) == []
            if row == "p0":
                written += [one.value for one in node.process(Record("k", [pack(row), "r"], 1), 1, stores) if isinstance(one, Record)]
            old = row
        for left, *rest in order:
            answer = Record("k", [None if left is None else pack(left), *rest], 2)
            written += [one.value for one in node.process(answer, 1, stores) if isinstance(one, Record)]
        assert (written[0], written[-1]) == ("p0|r", None), order
        assert not [one for one in state.points if "marks" in one] or rows[-1] is not None, "a row that is gone leaves nothing"


def test_an_answer_to_an_older_row_is_dropped() -> None:
    answers, stores = inner(), Stores(State())
    for row in ("old", "new"):
        assert list(answers.process(Record("k", Change(row), 1), 0, stores)) == []
    assert list(answers.process(Record("k", [pack("old"), "right"], 2), 1, stores)) == [Dropped(Record("k", "right", 2), STALE_RESPONSE)]
    assert list(answers.process(Record("k", [pack("new"), "right"], 3), 1, stores)) == [Record("k", "new|right", 3)]


def test_rows_are_taken_before_the_answers_that_they_are_compared_with() -> None:
    builder = StreamsBuilder()
    joined = builder.table("a", value=STRING).join_on(builder.table("b", value=STRING), lambda key, value: value, lambda one, other: other)
    joined.to_stream().to("o", value=STRING)
    topology = Driver(builder.build()).topology
    last = topology.stages[-1]
    (rows,) = last.first
    assert any(isinstance(child, Answers) and port == 0 for child, port in last.inputs[rows].children)
