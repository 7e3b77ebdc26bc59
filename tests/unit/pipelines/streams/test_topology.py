"""Topologies in memory: stages, drops and tables.  A topology that cannot be put together is refused with a way out."""

import pytest

from moldau.pipelines.streams import (
    JSON,
    LONG,
    STRING,
    Driver,
    JoinWindows,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
    WindowError,
    json_as,
    session_windowed,
    time_windowed,
)
from moldau.pipelines.streams.arrival import Arrived, in_turn
from moldau.pipelines.streams.records import Windowed
from moldau.pipelines.streams.spark import check_copartitioned
from moldau.pipelines.streams.state import State


def a_count() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("a", value=STRING).group_by(lambda key, value: value).count().to_stream().to("o", value=LONG)
    return builder


def test_a_state_goes_on_where_it_was() -> None:
    first = Driver(a_count().build())
    assert [out.record.value for _ in "12" for out in first.pipe("a", "k", "x", 1)] == [1, 2]
    texts = [State(dict(state.points), dict(state.pending)) for state in first.states]
    second = Driver(a_count().build(), texts)
    assert [out.record.value for out in second.pipe("a", "k", "x", 1)] == [3]


def test_what_is_dropped_is_counted_and_goes_where_it_is_told() -> None:
    builder = StreamsBuilder(dropped_to="d")
    builder.stream("a", value=STRING).group_by_key().windowed_by(TimeWindows(10)).count().to_stream().to("o", key=time_windowed(STRING, 10))
    driver = Driver(builder.build())
    driver.pipe("a", "k", "x", 30)
    written = [out for key, time in (("k", 19), (None, 31), ("k", -1)) for out in driver.pipe("a", key, "x", time)]
    assert [(out.target, out.record.headers[-1]) for out in written] == [
        ("d", ("reason", b"LATE")),
        ("d", ("reason", b"NULL_KEY")),
        ("d", ("reason", b"INVALID_TIMESTAMP")),
    ]
    assert driver.drops == {"LATE": 1, "NULL_KEY": 1, "INVALID_TIMESTAMP": 1}


def test_records_come_by_their_timestamps_and_each_partition_in_its_order() -> None:
    rows = [
        Arrived(name, partition, offset, None, None, timestamp, None, None)
        for name, partition, offset, timestamp in [
            ("b", 0, 1, 1),
            ("b", 0, 0, 9),
            ("a", 0, 0, 5),
            ("a", 1, 0, 5),
            ("first", 0, 0, 99),
        ]
    ]
    taken = [(row.input, row.from_partition, row.offset) for row in in_turn(rows, ["a", "b", "first"], {"first"})]
    assert taken == [("first", 0, 0), ("a", 0, 0), ("a", 1, 0), ("b", 0, 0), ("b", 0, 1)]


def test_windowed_keys_are_bytes_as_java_writes_them() -> None:
    time = time_windowed(STRING, 10)
    assert time.write(Windowed("k", 20, 30)) == b"k" + (20).to_bytes(8, "big")
    assert time.read(time.write(Windowed("k", 20, 30))) == Windowed("k", 20, 30)
    session = session_windowed(STRING)
    assert session.write(Windowed("k", 20, 30)) == b"k" + (30).to_bytes(8, "big") + (20).to_bytes(8, "big")
    assert session.read(session.write(Windowed("k", 20, 30))) == Windowed("k", 20, 30)


def test_a_serde_knows_the_spark_type_of_its_values() -> None:
    assert time_windowed(LONG, 10).type == session_windowed(LONG).type == "STRUCT<key: BIGINT, start: BIGINT, end: BIGINT>"
    assert json_as("STRUCT<cents: BIGINT>").type == "STRUCT<cents: BIGINT>"
    assert session_windowed(JSON).type is None


def test_what_cannot_be_put_together_is_refused() -> None:
    builder = StreamsBuilder()
    a = builder.stream("a")
    with pytest.raises(TopologyError, match=r"nothing is written: end a stream"):
        builder.build()
    with pytest.raises(TopologyError, match=r"give JoinWindows"):
        a.join(builder.stream("b"), lambda one, other: one)
    with pytest.raises(TopologyError, match=r"windows that close"):
        a.to_table().suppress_until_window_closes()


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: TimeWindows(0), "size_ms"),
        (lambda: TimeWindows(10, -1), "grace_ms"),
        (lambda: TimeWindows(10, 0, 11), "advance_ms"),
        (lambda: SessionWindows(0), "gap_ms"),
        (lambda: JoinWindows(-5, 4), "before_ms"),
    ],
)
def test_windows_that_cannot_be_name_the_field(make: object, field: str) -> None:
    assert callable(make)
    with pytest.raises(WindowError, match=field):
        make()


def test_topics_that_meet_must_be_partitioned_alike() -> None:
    builder = StreamsBuilder()
    a, b = builder.stream("a", value=STRING), builder.stream("b", value=STRING)
    a.join(b.to_table(), lambda one, other: one + other).to("o")
    builder.stream("c").to("o2")
    topology = builder.build()
    check_copartitioned(topology, {"a": 2, "b": 2, "c": 5})
    with pytest.raises(TopologyError, match=r"a has 2"):
        check_copartitioned(topology, {"a": 2, "b": 3, "c": 2})


def test_a_stream_that_two_stages_need_is_read_by_each() -> None:
    builder = StreamsBuilder()
    a, b = builder.stream("a", value=STRING), builder.stream("b", value=STRING)
    a.join(b, lambda one, other: f"{one}|{other}", JoinWindows.of(10)).to("joined", value=STRING)
    rows = b.to_table().filter(lambda key, value: value != "no")
    named = a.to_table().join_on(rows, lambda key, value: value, lambda one, other: f"{one}+{other}")
    named.to_stream().to("named", value=STRING)
    driver = Driver(builder.build())
    piped = [("a", "k", "k", 1), ("b", "k", "x", 2), ("b", "k", "no", 3)]
    written = [(out.target, out.record.value) for one in piped for out in driver.pipe(*one)]
    assert sorted(written, key=str) == [("joined", "k|no"), ("joined", "k|x"), ("named", "k+x"), ("named", None)]
    assert [len(stage.inputs) for stage in driver.topology.stages] == [2, 2, 2]


def test_a_stream_is_joined_with_a_table_after_a_repartition() -> None:
    builder = StreamsBuilder()
    table = builder.table("b", value=STRING)
    rekeyed = builder.stream("a", value=STRING).select_key(lambda key, value: value)
    rekeyed.join(table, lambda one, other: f"{one}|{other}").to("o", value=STRING)
    driver = Driver(builder.build())
    assert [len(stage.inputs) for stage in driver.topology.stages] == [1, 2]
    driver.pipe("b", "x", "row", 1)
    assert [out.record for out in driver.pipe("a", "k", "x", 2)] == [("x", "x|row", 2, ())]
