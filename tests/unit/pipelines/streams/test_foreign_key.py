"""The answers of a foreign-key join come later than its rows: an answer to a row that has changed since does not count."""

from moldau.pipelines.streams import STRING, Driver, StreamsBuilder
from moldau.pipelines.streams.foreign_key import Answers
from moldau.pipelines.streams.records import STALE_RESPONSE, Change, Dropped, Record
from moldau.pipelines.streams.state import State, Stores, pack


def test_an_answer_to_an_older_row_is_dropped() -> None:
    answers, stores = Answers("answers", lambda left, right: f"{left}|{right}", is_left=False), Stores(State())
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
