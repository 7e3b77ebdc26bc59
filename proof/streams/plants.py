"""● Faults to plant in our operators.  A comparison that found none of them would prove nothing.

with planted("windows close one ms late"):
    differences(case, answer)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from moldau.pipelines.streams import sliding, stream_join, versioned, windowed
from moldau.pipelines.streams.aggregate import RegroupTable, StreamAggregate, TableAggregate, TableSource
from moldau.pipelines.streams.foreign_key import DELETE_KEY_AND_PROPAGATE, Subscribe, Subscriptions
from moldau.pipelines.streams.on_close import OnWindowClose
from moldau.pipelines.streams.records import Change, Dropped, Record
from moldau.pipelines.streams.sliding import SlidingAggregate
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.stream_join import StreamStreamJoin, StreamTableJoin
from moldau.pipelines.streams.suppress import Suppress
from moldau.pipelines.streams.table_join import FilterTable, TableTableJoin
from moldau.pipelines.streams.versioned import VersionedTableSource
from moldau.pipelines.streams.windowed import SessionAggregate, WindowAggregate
from moldau.pipelines.streams.windows import TimeWindows

Process = Callable[[Any, Record, int, Stores], Iterator[Record | Dropped]]


class Plant(NamedTuple):
    """A method of a class, or a function of a module, and the wrong one in its place."""

    operator: str
    """The operator whose comparison has to find it."""
    where: Any
    name: str
    instead: Callable[..., Any]


def _shifted(node: type[Any], field: str, by_ms: int) -> Process:
    """The node's `process` with windows whose field is a little off."""
    real: Process = node.process

    def process(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        windows = self.windows
        changed = type(windows)(**{name: getattr(windows, name) + (by_ms if name == field else 0) for name in _numbers(windows)})
        self.windows = changed
        try:
            yield from list(real(self, record, port, stores))
        finally:
            self.windows = windows

    return process


def _numbers(windows: Any) -> list[str]:
    return [name for name in windows.__slots__ if getattr(windows, name) is not None]


def _without_tombstones(node: type[Any]) -> Process:
    """The node's `process`, to which a row that is taken away is no news."""
    real: Process = node.process

    def process(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        if (record.value.new if isinstance(record.value, Change) else record.value) is not None:
            yield from real(self, record, port, stores)

    return process


def _with_ports_swapped(node: type[Any]) -> Process:
    real: Process = node.process
    return lambda self, record, port, stores: real(self, record, 1 - port, stores)


def _with_its_own_time(node: type[Any]) -> Process:
    """The node's `process`, whose results have the time of the record that caused them."""
    real: Process = node.process

    def process(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        for out in real(self, record, port, stores):
            yield out if isinstance(out, Dropped) else out._replace(timestamp=record.timestamp)

    return process


def _older_is_ignored(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    row = None if record.key is None else self.lookup(record.key, stores)
    if row is None or record.timestamp >= row[1]:
        yield from _table_source(self, record, port, stores)


def _never_subtracts(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    yield from _table_aggregate(self, record._replace(value=Change(record.value.new, None)), port, stores)


def _stays_in_its_group(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    for number, out in enumerate(_regroup(self, record, port, stores)):
        if number == 0 or isinstance(out, Dropped):
            yield out


def _looks_at_now(self: Any, key: Any, stores: Stores, at: int | None = None) -> Any:
    return _versioned_lookup(self, key, stores)


def _never_unsubscribes(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    for out in _subscribe(self, record, port, stores):
        if isinstance(out, Dropped) or out.value[1] != DELETE_KEY_AND_PROPAGATE:
            yield out


def _tells_every_row(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    yield record._replace(
        value=record.value.mapped(lambda value: value if value is not None and self.predicate(record.key, value) else None)
    )


def _holds_the_first(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    if stores.store(self.name).get(record.key) is None:
        yield from _suppress(self, record, port, stores)


def _never_alone(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    for out in _stream_join(self, record, port, stores):
        if isinstance(out, Dropped) or not str(out.value).startswith("null"):
            yield out


def _closed_early(self: Any, stores: Stores) -> int | None:
    closed = _closed[type(self)](self, stores)
    return None if closed is None else closed + 1


def _forgets_early(self: Any, stores: Stores) -> int | None:
    oldest = _oldest(self, stores)
    return None if oldest is None else oldest + 1


def _all_latest(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    for out in _versioned_process(self, record, port, stores):
        yield out if isinstance(out, Dropped) else out._replace(value=out.value._replace(is_latest=True))


def _starts_late(self: TimeWindows, timestamp: int) -> range:
    return range(max(0, timestamp - self.size_ms) // self.advance * self.advance, timestamp + 1, self.advance)


def _one_time(name: str, port: int) -> str:
    return name


def _takes_one_more(self: Any, rows: int, stores: Stores) -> bool:
    return _is_over(self, rows - 1, stores)


def _joins_null(self: Any, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
    yield from self._joined(record, self._key(record), stores)


def _without_removals(versions: list[list[Any]], begin: int) -> list[list[Any]]:
    return [one for one in versions if one[1] is not None]


_table_source, _table_aggregate, _regroup = TableSource.process, TableAggregate.process, RegroupTable.process
_subscribe, _suppress, _stream_join = Subscribe.process, Suppress.process, StreamStreamJoin.process
_versioned_process, _versioned_lookup, _oldest = VersionedTableSource.process, VersionedTableSource.lookup, VersionedTableSource._oldest
_is_over: Callable[..., bool] = Suppress._is_over
_closed = {node: node.closed for node in (WindowAggregate, SessionAggregate)}

PLANTS: Final[dict[str, Plant]] = {
    name: Plant(operator, where, method, instead)
    for name, operator, where, method, instead in (
        ("an aggregate has the time of its last record", "grouped reduce", StreamAggregate, "process", _with_its_own_time(StreamAggregate)),
        ("a tombstone takes no row away", "table filtered", TableSource, "process", _without_tombstones(TableSource)),
        ("an older row is ignored", "table filtered", TableSource, "process", _older_is_ignored),
        ("a filter tells rows that never fitted", "table filtered", FilterTable, "process", _tells_every_row),
        ("a table's aggregate never subtracts", "table grouped aggregate", TableAggregate, "process", _never_subtracts),
        ("a row does not come into its new group", "table grouped reduce", RegroupTable, "process", _stays_in_its_group),
        ("windows close one ms late", "windowed count", WindowAggregate, "process", _shifted(WindowAggregate, "grace_ms", 1)),
        ("a window begins one advance late", "windowed reduce", TimeWindows, "starts", _starts_late),
        ("sliding windows are one ms wider", "sliding count", SlidingAggregate, "process", _shifted(SlidingAggregate, "difference_ms", 1)),
        ("sliding windows close one ms late", "sliding reduce", SlidingAggregate, "process", _shifted(SlidingAggregate, "grace_ms", 1)),
        ("sessions end one ms late", "sessions count", SessionAggregate, "process", _shifted(SessionAggregate, "gap_ms", 1)),
        ("a window is told one ms early", "windowed aggregate emit", WindowAggregate, "closed", _closed_early),
        ("a session is told one ms early", "sessions count emit", SessionAggregate, "closed", _closed_early),
        ("a closing window has the record's time", "sliding reduce emit", OnWindowClose, "process", _with_its_own_time(OnWindowClose)),
        ("a cogroup has one stream time", "cogrouped windowed", windowed, "stream_time", _one_time),
        ("a cogroup's sessions have one stream time", "cogrouped sessions", windowed, "stream_time", _one_time),
        ("a cogroup's sliding windows have one stream time", "cogrouped sliding", sliding, "stream_time", _one_time),
        ("suppress holds the first update", "time limit aggregate", Suppress, "process", _holds_the_first),
        ("suppress takes one row more", "time limit aggregate True", Suppress, "_is_over", _takes_one_more),
        ("the sides of a join are swapped", "streams inner", StreamStreamJoin, "process", _with_ports_swapped(StreamStreamJoin)),
        ("a join takes one ms more after", "streams left", StreamStreamJoin, "process", _shifted(StreamStreamJoin, "after_ms", 1)),
        ("a join's grace is one ms longer", "streams outer", StreamStreamJoin, "process", _shifted(StreamStreamJoin, "grace_ms", 1)),
        ("at one time the left side waits first", "streams outer", stream_join, "_side", lambda port: port),
        ("nobody on the right stays alone", "streams outer", StreamStreamJoin, "process", _never_alone),
        ("the sides of a table join are swapped", "tables inner", TableTableJoin, "process", _with_ports_swapped(TableTableJoin)),
        ("a joined row has its last record's time", "tables outer", TableTableJoin, "process", _with_its_own_time(TableTableJoin)),
        ("a joined row is never taken away", "tables left", TableTableJoin, "process", _without_tombstones(TableTableJoin)),
        ("a stream's null is joined", "stream table left", StreamTableJoin, "process", _joins_null),
        ("a row that leaves a foreign key stays", "foreign key inner", Subscribe, "process", _never_unsubscribes),
        ("a foreign row that goes is not told", "foreign key left", Subscriptions, "process", _without_tombstones(Subscriptions)),
        ("a global row that goes stays", "global inner", TableSource, "process", _without_tombstones(TableSource)),
        ("a versioned table tells the newest row", "versioned inner", VersionedTableSource, "lookup", _looks_at_now),
        ("a history is one ms shorter", "versioned left", VersionedTableSource, "_oldest", _forgets_early),
        ("a removal is no version", "versioned left", versioned, "_known", _without_removals),
        ("an older version is aggregated", "versioned grouped aggregate", VersionedTableSource, "process", _all_latest),
    )
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    plant = PLANTS[name]
    with patch.object(plant.where, plant.name, plant.instead):
        yield
