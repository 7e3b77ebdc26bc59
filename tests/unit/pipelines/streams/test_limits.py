"""Limits that an application asks for: of suppress, of histories, graces and retentions."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from moldau.pipelines.streams import (
    LONG,
    STRING,
    BufferFull,
    Driver,
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
    WindowError,
)
from moldau.pipelines.streams.arrival import Arrived
from moldau.pipelines.streams.processor import StageProcessor
from moldau.pipelines.streams.state import State, pack
from moldau.pipelines.streams.topology import Task


def test_a_full_buffer_ends_the_query_and_is_no_dead_letter() -> None:
    builder = StreamsBuilder(dropped_to="letters")
    table = builder.table("a", value=STRING)
    table.suppress_until_time_limit(1_000, most_rows=1, stops_when_full=True).to_stream().to("o", value=STRING)
    topology = builder.build()
    processor, task = StageProcessor(topology, 0, 1), Task(topology.stages[0], State(), "letters")
    (name,) = topology.stages[0].inputs
    assert processor._taken(task, Arrived(name, 0, 0, b"k1", b"v", 1, None, "a"), 0, 0) == []
    with pytest.raises(BufferFull, match="holds 2 rows, and most_rows is 1"):
        processor._taken(task, Arrived(name, 0, 1, b"k2", b"v", 2, None, "a"), 0, 0)


@pytest.mark.parametrize("dropped_to", ["letters", None])
def test_a_result_that_the_serde_cannot_write_is_a_dead_letter(dropped_to: str | None) -> None:
    builder = StreamsBuilder(dropped_to=dropped_to)
    builder.stream("a", value=STRING).to("o", value=LONG)
    topology = builder.build()
    processor, task = StageProcessor(topology, 0, 1), Task(topology.stages[0], State(), dropped_to)
    (name,) = topology.stages[0].inputs
    arrived = Arrived(name, 0, 7, b"k", b"no number", 1, None, "a")
    if dropped_to is None:
        with pytest.raises(struct.error):
            processor._taken(task, arrived, 0, 0)
        return
    (letter,) = processor._taken(task, arrived, 0, 0)
    headers = {header.key: header.value for header in letter.headers}
    assert (letter.input, letter.key, letter.value) == ("letters", b"k", b"no number")
    assert headers["reason"].startswith(b"FAILED: error: ") and headers["source"] == b"a-0@7"


def test_the_bytes_that_wait_are_limited() -> None:
    one_row = len(pack("k1")) + len(pack("v")) + len(pack(None))
    builder = StreamsBuilder()
    table = builder.table("a", value=STRING)
    table.suppress_until_time_limit(1_000, most_bytes=2 * one_row).to_stream().to("o", value=STRING)
    driver = Driver(builder.build())
    told = [out.record.key for number in (1, 2, 1, 3, 4) for out in driver.pipe("a", f"k{number}", "v", number)]
    assert told == ["k1", "k2"]  # the second value of k1 has an old value, too, so that k1 alone goes when k3 comes
    assert [out.record.key for out in driver.pipe("a", "k9", "v" * 100, 5)] == ["k3", "k4", "k9"]
    assert [out.record.key for number in (5, 6) for out in driver.pipe("a", f"k{number}", "v", 6)] == [], "the count goes down again"


def test_a_grace_keeps_records_without_a_key_of_a_left_join() -> None:
    builder = StreamsBuilder()
    table = builder.table("b", value=STRING, history_ms=10)
    builder.stream("a", value=STRING).left_join(table, lambda one, other: f"{one}|{other}", grace_ms=5).to("o", value=STRING)
    driver = Driver(builder.build())
    assert [out.record.value for out in driver.pipe("a", None, "x", 1)] == ["x|None"]


def test_what_waits_for_its_grace_is_there_after_a_restart() -> None:
    def topology() -> Any:
        builder = StreamsBuilder()
        table = builder.table("b", value=STRING, history_ms=10)
        builder.stream("a", value=STRING).join(table, lambda one, other: f"{one}|{other}", grace_ms=5).to("o", value=STRING)
        return builder.build()

    first = Driver(topology())
    assert first.pipe("a", "k", "x", 3, [("h", b"1")]) == []
    first.pipe("b", "k", "row", 2)
    second = Driver(topology(), [State(dict(state.points), dict(state.pending)) for state in first.states])
    (out, *_) = second.pipe("a", "k", "y", 8)
    assert out.record == ("k", "x|row", 3, (("h", b"1"),))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda a, b: a.join(b.to_table(), max, grace_ms=1), "give that history_ms"),
        (lambda a, b: a.join(b, max, grace_ms=1), "JoinWindows have a grace"),
        (lambda a, b: a.join(b.to_table(history_ms=5), max, grace_ms=6), "give 0 to the table's history_ms"),
        (lambda a, b: a.to_table(history_ms=-1), "give 0 ms or more"),
        (lambda a, b: a.to_table(history_ms=5).map_values(max).suppress_until_time_limit(1), "without history_ms"),
        (
            lambda a, b: (
                a.group_by_key()
                .windowed_by(TimeWindows(1))
                .emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
                .count()
                .suppress_until_window_closes()
            ),
            "told once a window",
        ),
    ],
)
def test_a_topology_without_sense_is_refused(make: Callable[[Any, Any], Any], told: str) -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=told):
        make(builder.stream("a"), builder.stream("b"))


@pytest.mark.parametrize("windows", [TimeWindows(10, 5), SlidingWindows(5, 5), SessionWindows(10, 5)])
def test_a_store_that_forgets_open_windows_is_refused(windows: Any) -> None:
    grouped = StreamsBuilder().stream("a").group_by_key()
    windowed: Any = grouped.session_windowed_by(windows) if isinstance(windows, SessionWindows) else grouped.windowed_by(windows)
    windowed.count(retention_ms=15)
    with pytest.raises(WindowError, match="retention_ms is 14"):
        windowed.count(retention_ms=14)
