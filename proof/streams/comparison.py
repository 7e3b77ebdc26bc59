"""◇ Puts one case through our operators, as `oracle/Operators.java` puts it through Kafka's, and lists the differences."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from moldau.pipelines.streams import (
    STRING,
    Driver,
    JoinWindows,
    KStream,
    KTable,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Windowed,
)
from moldau.pipelines.streams.grouped import GroupedStream, GroupedTable, SessionWindowedStream, WindowedStream
from proof.streams.cases import KEYS, Case

Written = list[Any]
"""Number of the input, key, value, timestamp, header."""
NO_ROW = "null"
WITHOUT_TABLE = ("windowed", "sliding", "sessions", "time limit")
"""Operators without a comparison of tables.  Their rows at the end are the newest written ones."""


def built(options: dict[str, Any]) -> tuple[Driver, KTable | None]:
    """A driver of the operator, and the table that the operator makes."""
    builder = StreamsBuilder()
    out = _operator(builder, options, options["operator"])
    table = out if isinstance(out, KTable) else None
    stream = out.to_stream() if isinstance(out, KTable) else out
    stream.map(lambda key, value: (_named(key), value)).to("o", key=STRING, value=STRING)
    return Driver(builder.build()), table


def ours(case: Case) -> tuple[list[Written], dict[str, str] | None]:
    """The written records, and the table at the end."""
    driver, table = built(case.options)
    written = []
    for number, (topic, key, value, timestamp, header) in enumerate(case.records):
        for _, record in driver.pipe(topic, key, value, timestamp, [("h", header.encode())]):
            told = dict(record.headers).get("h")
            written.append([number, record.key, record.value, record.timestamp, None if told is None else told.decode()])
    if table is None or case.options["operator"] in WITHOUT_TABLE:
        return written, None
    keys = {*KEYS, *"pqrnhx", *(key for _, key, *_ in written if key)}
    rows = {key: driver.table(table.node, key) for key in keys if "@" not in key}
    return written, {key: str(value) for key, value in rows.items() if value is not None}


def differences(case: Case, answer: dict[str, Any]) -> list[str]:
    """The differences in words, by key and in order.  Kafka's answer comes from the oracle."""
    written, table = ours(case)
    found = []
    all_mine, all_theirs = _by_key(written), _by_key(answer["written"])
    for key in {**all_mine, **all_theirs}:
        mine, theirs = all_mine.get(key, []), all_theirs.get(key, [])
        if mine != theirs:
            place = next((n for n, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other), min(len(mine), len(theirs)))
            found.append(f"key {key}, result {place}: ours {mine[place : place + 2]}, Kafka's {theirs[place : place + 2]}")
    if table is not None and "table" in answer and table != answer["table"]:
        found.append(f"the table at the end: ours {table}, Kafka's {answer['table']}")
    return found


def _by_key(written: list[Written]) -> dict[Any, list[Written]]:
    sorted_out = defaultdict(list)
    for row in written:
        sorted_out[row[1]].append(row)
    return sorted_out


def _operator(builder: StreamsBuilder, given: dict[str, Any], operator: str) -> KStream | KTable:
    a = builder.stream("a", value=STRING)
    if operator in TWO_TOPICS:
        return TWO_TOPICS[operator](builder, a, given)
    return ONE_TOPIC[operator](a, given)


def _windowed(a: KStream, given: dict[str, Any]) -> KTable:
    windows = TimeWindows(given["size"], given["grace"], given["advance"])
    return _closing(_aggregated(a.group_by_key().windowed_by(windows), given), given)


def _sliding(a: KStream, given: dict[str, Any]) -> KTable:
    return _closing(_aggregated(a.group_by_key().windowed_by(SlidingWindows(given["size"], given["grace"])), given), given)


def _by_sessions(a: KStream, given: dict[str, Any]) -> KTable:
    return _closing(_sessions(a.group_by_key().session_windowed_by(SessionWindows(given["gap"], given["grace"])), given), given)


def _time_limit(a: KStream, given: dict[str, Any]) -> KTable:
    return _aggregated(a.group_by_key(), given).suppress_until_time_limit(given["wait"], most_rows=given["most"])


def _count_grouped(a: KStream, given: dict[str, Any]) -> KTable:
    return _grouped_table(a.group_by_key().count().map_values(lambda key, count: chr(ord("p") + count % 3)), given)


def _stateless(a: KStream, given: dict[str, Any]) -> KStream:
    kept = a.filter(lambda key, value: value is not None).flat_map_values(lambda key, value: [value, value + "'"])
    low, high = kept.branch(lambda key, value: value < "q")
    merged = low.map_values(lambda key, value: "low " + value).merge(high)
    return merged.map(lambda key, value: (value[0], f"{_text(key)}={value}"))


def _streams(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KStream:
    windows = JoinWindows(given["before"], given["after"], given["grace"])
    return {"inner": a.join, "left": a.left_join, "outer": a.outer_join}[given["kind"]](builder.stream("b", value=STRING), _joined, windows)


def _stream_table(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KStream:
    b = builder.table("b", value=STRING)
    return a.left_join(b, _joined) if given["kind"] == "left" else a.join(b, _joined)


def _global(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KStream:
    def mapper(key: Any, value: Any) -> Any:
        return None if value is None else _foreign_key(key, value)

    return a.join_global(builder.global_table("b", value=STRING), mapper, _joined, is_left=given["kind"] == "left")


def _foreign(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KTable:
    return a.to_table().join_on(builder.table("b", value=STRING), _foreign_key, _joined, is_left=given["kind"] == "left")


def _tables(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KTable:
    table, b = a.to_table(), builder.table("b", value=STRING)
    return {"inner": table.join, "left": table.left_join, "outer": table.outer_join}[given["kind"]](b, _joined)


def _aggregated(grouped: GroupedStream | WindowedStream, given: dict[str, Any]) -> KTable:
    match given["by"]:
        case "count":
            return grouped.count().map_values(lambda key, value: str(value))
        case "reduce":
            return grouped.reduce(_reduced)
    return grouped.aggregate(str, _added)


def _sessions(grouped: SessionWindowedStream, given: dict[str, Any]) -> KTable:
    match given["by"]:
        case "count":
            return grouped.count().map_values(lambda key, value: str(value))
        case "reduce":
            return grouped.reduce(_reduced)
    return grouped.aggregate(str, _added, lambda key, one, other: _text(one) + _text(other))


def _closing(table: KTable, given: dict[str, Any]) -> KTable:
    return table.suppress_until_window_closes() if given["final"] else table


def _grouped_table(table: KTable, given: dict[str, Any]) -> KTable:
    grouped: GroupedTable = table.group_by(lambda key, value: (value[0], value))
    match given["by"]:
        case "count":
            return grouped.count().map_values(lambda key, value: str(value))
        case "reduce":
            return grouped.reduce(lambda one, value: f"{one}+{value}", lambda one, value: f"{one}-{value}")
    return grouped.aggregate(str, lambda key, value, one: f"{one}+{value}", lambda key, value, one: f"{one}-{value}")


def _named(key: Any) -> Any:
    return f"{key.key}@{key.start}/{key.end}" if isinstance(key, Windowed) else key


def _text(value: Any) -> str:
    """A value as text; None becomes Java's null."""
    return NO_ROW if value is None else str(value)


def _takes_away(value: str | None) -> bool:
    return value is not None and value.startswith("x")


def _reduced(one: Any, value: str | None) -> str | None:
    return None if _takes_away(value) else f"{_text(one)},{_text(value)}"


def _added(key: str, value: str | None, one: Any) -> str | None:
    return _reduced(one, value)


def _joined(one: Any, other: Any) -> str:
    return f"{_text(one)}|{_text(other)}"


def _foreign_key(key: Any, value: str) -> str | None:
    return None if value.startswith("n") else value[0]


ONE_TOPIC: Final[dict[str, Callable[[KStream, dict[str, Any]], KStream | KTable]]] = {
    "grouped": lambda a, given: _aggregated(a.group_by_key(), given),
    "regrouped": lambda a, given: _aggregated(a.group_by(lambda key, value: None if value is None else value[0]), given),
    "windowed": _windowed,
    "sliding": _sliding,
    "sessions": _by_sessions,
    "time limit": _time_limit,
    "table grouped": lambda a, given: _grouped_table(a.to_table(), given),
    "count grouped": _count_grouped,
    "table filtered": lambda a, given: a.to_table().filter(lambda key, value: value < "q").map_values(lambda key, value: value + "!"),
    "stateless": _stateless,
}
TWO_TOPICS: Final[dict[str, Callable[[StreamsBuilder, KStream, dict[str, Any]], KStream | KTable]]] = {
    "streams": _streams,
    "stream table": _stream_table,
    "global": _global,
    "foreign key": _foreign,
    "tables": _tables,
    "tables grouped": lambda builder, a, given: _grouped_table(_tables(builder, a, given), given),
}
