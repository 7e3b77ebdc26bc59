"""◇ Puts one case through our operators, as `oracle/Operators.java` puts it through Kafka's, and lists the differences."""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from moldau.pipelines.streams import (
    STRING,
    BufferFull,
    Driver,
    EmitStrategy,
    JoinWindows,
    KStream,
    KTable,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Windowed,
)
from moldau.pipelines.streams.cogrouped import CogroupedStream
from moldau.pipelines.streams.grouped import GroupedStream, GroupedTable, SessionWindowedStream, WindowedStream
from proof.streams.cases import COGROUPED, KEYS, Case

Written = list[Any]
"""Number of the input, key, value, timestamp, header."""
NO_ROW = "null"
MARK: Final = re.compile(r"\d+:")
DAY_MS: Final = 86_400_000
"""The retention of windows that are told when they close, as in the oracle."""
WITHOUT_TABLE = ("windowed", "sliding", "sessions", "time limit", *COGROUPED)
"""Operators without a comparison of tables.  Their rows at the end are the newest written ones."""


def wired(builder: StreamsBuilder, options: dict[str, Any], target: str = "o") -> KTable | None:
    """Put the operator between the topics `a`, `b` and the target.  Returns the table that it makes."""
    out = _operator(builder, options, options["operator"])
    stream = out.to_stream() if isinstance(out, KTable) else out
    stream.map(lambda key, value: (_named(key), value)).to(target, key=STRING, value=STRING)
    return out if isinstance(out, KTable) else None


class Answer(NamedTuple):
    """The answer to a case."""

    written: list[Written]
    table: dict[str, str] | None = None
    """The table at the end, if the operator makes one without windows."""
    full: int | None = None
    """The number of the input at which a suppress ended the application."""


def ours(case: Case) -> Answer:
    """Our own answer."""
    builder = StreamsBuilder()
    table = wired(builder, case.options)
    driver = Driver(builder.build())
    written: list[Written] = []
    for number, (topic, key, value, timestamp, header) in enumerate(case.records):
        try:
            results = driver.pipe(topic, key, value, timestamp, [("h", header.encode())])
        except BufferFull:
            return Answer(written, full=number)
        for _, record in results:
            told = dict(record.headers).get("h")
            written.append([number, record.key, record.value, record.timestamp, None if told is None else told.decode()])
    if table is None or case.options["operator"] in WITHOUT_TABLE:
        return Answer(written)
    keys = {*KEYS, *"pqrnhx", *(key for _, key, *_ in written if key)}
    rows = {key: driver.table(table.node, key) for key in keys if "@" not in key}
    return Answer(written, {key: str(value) for key, value in rows.items() if value is not None})


def differences(case: Case, answer: dict[str, Any]) -> list[str]:
    """The differences in words, by key and in order.  Kafka's answer comes from the oracle."""
    written, table, full = ours(case)
    found = [] if full == answer.get("full") else [f"full: ours {full}, Kafka's {answer.get('full')}"]
    found += rows_that_differ(written, answer["written"])
    if table is not None and "table" in answer and table != answer["table"]:
        found.append(f"the table at the end: ours {table}, Kafka's {answer['table']}")
    return found


def rows_that_differ(ours: list[Written], theirs: list[Written]) -> list[str]:
    """The first difference of each key, in words."""
    found = []
    all_mine, all_theirs = _by_key(ours), _by_key(theirs)
    for key in {**all_mine, **all_theirs}:
        mine, other = all_mine.get(key, []), all_theirs.get(key, [])
        if mine != other:
            place = next((n for n, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]), min(len(mine), len(other)))
            found.append(f"key {key}, result {place}: ours {mine[place : place + 2]}, Kafka's {other[place : place + 2]}")
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
    windows = _time_windows(given)
    return _closing(_aggregated(a.group_by_key().windowed_by(windows).emit_strategy(_strategy(given)), given), given)


def _sliding(a: KStream, given: dict[str, Any]) -> KTable:
    windows = SlidingWindows(given["size"], given["grace"])
    return _closing(_aggregated(a.group_by_key().windowed_by(windows).emit_strategy(_strategy(given)), given), given)


def _by_sessions(a: KStream, given: dict[str, Any]) -> KTable:
    windows = SessionWindows(given["gap"], given["grace"])
    return _closing(_sessions(a.group_by_key().session_windowed_by(windows).emit_strategy(_strategy(given)), given), given)


def _time_windows(given: dict[str, Any]) -> TimeWindows:
    return TimeWindows(given["size"], given["grace"], given["advance"])


def _cogrouped(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> CogroupedStream[KTable]:
    b = builder.stream("b", value=STRING)
    grouped = b.group_by(lambda key, value: key) if given.get("repartitions", True) else b.group_by_key()
    return a.group_by_key().cogroup(_added).cogroup(grouped, _added_behind)


def _cogrouped_sessions(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KTable:
    windows = SessionWindows(given["gap"], given["grace"])
    return _closing(_cogrouped(builder, a, given).session_windowed_by(windows).aggregate(str, _merged), given)


def _time_limit(a: KStream, given: dict[str, Any]) -> KTable:
    table = _aggregated(a.group_by_key(), given)
    return table.suppress_until_time_limit(given["wait"], most_rows=given["most"], stops_when_full=given["stops"])


def _count_grouped(a: KStream, given: dict[str, Any]) -> KTable:
    letters = a.group_by_key().count().map_values(lambda key, count: _mark(key) + chr(ord("p") + count % 3))
    return _grouped_table(letters, given)


def _stateless(a: KStream, given: dict[str, Any]) -> KStream:
    kept = a.filter(lambda key, value: value is not None).flat_map_values(lambda key, value: [value, value + "'"])
    low, high = kept.branch(lambda key, value: _letter(value) < "q")
    merged = low.map_values(lambda key, value: "low " + value).merge(high)
    return merged.map(lambda key, value: (value, f"{_text(key)}={value}"))


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
    left, right = _tables_of(builder, a, given)
    return left.join_on(right, _foreign_key, _joined, is_left=given["kind"] == "left")


def _tables(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KTable:
    left, right = _tables_of(builder, a, given)
    return {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[given["kind"]](right, _joined)


def _tables_of(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> tuple[KTable, KTable]:
    """The tables of both topics.  The operator's name says whether the left one is versioned."""
    history = given["history"] if given["operator"].startswith("versioned") else None
    return a.to_table(history_ms=history), builder.table("b", value=STRING, history_ms=history if given["both"] else None)


def _versioned(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KStream:
    table = builder.table("b", value=STRING, history_ms=given["history"])
    join = a.left_join if given["kind"] == "left" else a.join
    return join(table, _joined, grace_ms=given["join_grace"])


def _versioned_filtered(builder: StreamsBuilder, a: KStream, given: dict[str, Any]) -> KStream:
    """Both what the table says and what a stream finds in it."""
    table = builder.table("b", value=STRING, history_ms=given["history"])
    chosen = table.filter(lambda key, value: _letter(value) < "q").map_values(lambda key, value: value + "!")
    return a.left_join(chosen, _joined).merge(chosen.to_stream())


def _aggregated(grouped: GroupedStream[KTable] | WindowedStream[KTable], given: dict[str, Any]) -> KTable:
    kept = {"retention_ms": DAY_MS} if given.get("final") == "emit" else {}
    match given["by"]:
        case "count":
            return grouped.count(**kept).map_values(lambda key, value: str(value))
        case "reduce":
            return grouped.reduce(_reduced, **kept)
    return grouped.aggregate(str, _added, **kept)


def _sessions(grouped: SessionWindowedStream[KTable], given: dict[str, Any]) -> KTable:
    kept = {"retention_ms": DAY_MS} if given["final"] == "emit" else {}
    match given["by"]:
        case "count":
            return grouped.count(**kept).map_values(lambda key, value: str(value))
        case "reduce":
            return grouped.reduce(_reduced, **kept)
    return grouped.aggregate(str, _added, _merged, **kept)


def _strategy(given: dict[str, Any]) -> EmitStrategy:
    return EmitStrategy.ON_WINDOW_CLOSE if given["final"] == "emit" else EmitStrategy.ON_WINDOW_UPDATE


def _closing(table: KTable, given: dict[str, Any]) -> KTable:
    match given["final"]:
        case "suppress":
            return table.suppress_until_window_closes()
        case "bounded":
            return table.suppress_until_window_closes(most_rows=given["most"])
    return table


def _grouped_table(table: KTable, given: dict[str, Any]) -> KTable:
    grouped: GroupedTable[KTable] = table.group_by(lambda key, value: (_group(value), value))
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


def _mark(text: str) -> str:
    """The part of a text that tells cases apart when many run at once: `17:`; or nothing."""
    found = MARK.search(text)
    return found[0] if found else ""


def _group(value: str) -> str:
    """The value's group: its mark and its first letter."""
    mark = _mark(value)
    return mark + value.replace(mark, "")[:1]


def _letter(value: str) -> str:
    return _group(value)[-1:]


def _takes_away(value: str | None) -> bool:
    return value is not None and _letter(value) == "x"


def _reduced(one: Any, value: str | None) -> str | None:
    return None if _takes_away(value) else f"{_text(one)},{_text(value)}"


def _added(key: str, value: str | None, one: Any) -> str | None:
    return _reduced(one, value)


def _added_behind(key: str, value: str | None, one: Any) -> str | None:
    """What the second stream of a cogroup adds."""
    return None if _takes_away(value) else f"{_text(one)};{_text(value)}"


def _merged(key: str, one: Any, other: Any) -> str:
    return _text(one) + _text(other)


def _joined(one: Any, other: Any) -> str:
    return f"{_text(one)}|{_text(other)}"


def _foreign_key(key: Any, value: str) -> str | None:
    return None if _letter(value) == "n" else _group(value)


ONE_TOPIC: Final[dict[str, Callable[[KStream, dict[str, Any]], KStream | KTable]]] = {
    "grouped": lambda a, given: _aggregated(a.group_by_key(), given),
    "regrouped": lambda a, given: _aggregated(a.group_by(lambda key, value: None if value is None else _group(value)), given),
    "windowed": _windowed,
    "sliding": _sliding,
    "sessions": _by_sessions,
    "time limit": _time_limit,
    "table grouped": lambda a, given: _grouped_table(a.to_table(), given),
    "versioned grouped": lambda a, given: _grouped_table(a.to_table(history_ms=given["history"]), given),
    "count grouped": _count_grouped,
    "table filtered": lambda a, given: (
        a.to_table().filter(lambda key, value: _letter(value) < "q").map_values(lambda key, value: value + "!")
    ),
    "stateless": _stateless,
}
TWO_TOPICS: Final[dict[str, Callable[[StreamsBuilder, KStream, dict[str, Any]], KStream | KTable]]] = {
    "streams": _streams,
    "stream table": _stream_table,
    "global": _global,
    "foreign key": _foreign,
    "tables": _tables,
    "versioned": _versioned,
    "versioned filtered": _versioned_filtered,
    "versioned tables": _tables,
    "versioned foreign key": _foreign,
    "tables grouped": lambda builder, a, given: _grouped_table(_tables(builder, a, given), given),
    "cogrouped": lambda builder, a, given: _cogrouped(builder, a, given).aggregate(str),
    "cogrouped windowed": lambda builder, a, given: _closing(
        _cogrouped(builder, a, given).windowed_by(_time_windows(given)).aggregate(str), given
    ),
    "cogrouped sliding": lambda builder, a, given: _closing(
        _cogrouped(builder, a, given).windowed_by(SlidingWindows(given["size"], given["grace"])).aggregate(str), given
    ),
    "cogrouped sessions": _cogrouped_sessions,
}
