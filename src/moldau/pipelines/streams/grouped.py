"""◇ Grouped records, on their way to a table: count, reduce, aggregate, and the windows to do it by."""

from typing import Any, Generic

from moldau.pipelines.streams.aggregate import Aggregator, Initializer, Reducer, TableAggregate
from moldau.pipelines.streams.cogrouped import (
    CogroupedStream,
    Grouped,
    MakeTable,
    SessionWindowedCogroupedStream,
    Table,
    WindowedCogroupedStream,
)
from moldau.pipelines.streams.internal_topology import InternalTopologyBuilder
from moldau.pipelines.streams.on_close import EmitStrategy
from moldau.pipelines.streams.serdes import Serde
from moldau.pipelines.streams.topology import Node
from moldau.pipelines.streams.windowed import Merger
from moldau.pipelines.streams.windows import SessionWindows, SlidingWindows, TimeWindows


def _none() -> None:
    return None


def _zero() -> int:
    return 0


def _one_more(key: Any, value: Any, count: int) -> int:
    return count + 1


def _one_less(key: Any, value: Any, count: int) -> int:
    return count - 1


def _reducing(reducer: Reducer) -> Aggregator:
    return lambda key, value, aggregate: value if aggregate is None else reducer(aggregate, value)


class GroupedStream(Grouped[Table]):
    def count(self) -> Table:
        return self.aggregate(_zero, _one_more)

    def reduce(self, reducer: Reducer) -> Table:
        """`reducer(aggregate, value)`; the first value is the first aggregate."""
        return self.aggregate(_none, _reducing(reducer))

    def aggregate(self, initializer: Initializer, aggregator: Aggregator) -> Table:
        """`aggregator(key, value, aggregate)`; None removes the row."""
        return self.cogroup(aggregator).aggregate(initializer)

    def cogroup(self, aggregator: Aggregator) -> CogroupedStream[Table]:
        """Begin an aggregate of several grouped streams: this one changes it by `aggregator(key, value, aggregate)`."""
        return CogroupedStream({self: aggregator})

    def windowed_by(self, windows: TimeWindows | SlidingWindows) -> "WindowedStream[Table]":
        """Tumbling, hopping or sliding; late records are dropped, see `StreamsBuilder`."""
        return WindowedStream(self, windows)

    def session_windowed_by(self, windows: SessionWindows) -> "SessionWindowedStream[Table]":
        return SessionWindowedStream(self, windows)


class WindowedStream(Generic[Table]):
    def __init__(
        self, grouped: GroupedStream[Table], windows: TimeWindows | SlidingWindows, strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    ) -> None:
        self._grouped = grouped
        self._windows = windows
        self._strategy = strategy

    def emit_strategy(self, strategy: EmitStrategy) -> "WindowedStream[Table]":
        """When a window's result is told: with each record, or once, when the window closes."""
        return WindowedStream(self._grouped, self._windows, strategy)

    def count(self, *, retention_ms: int | None = None) -> Table:
        return self.aggregate(_zero, _one_more, retention_ms=retention_ms)

    def reduce(self, reducer: Reducer, *, retention_ms: int | None = None) -> Table:
        return self.aggregate(_none, _reducing(reducer), retention_ms=retention_ms)

    def aggregate(self, initializer: Initializer, aggregator: Aggregator, *, retention_ms: int | None = None) -> Table:
        """`retention_ms`: how long windows stay in the store; at least, and by default, their size and grace.  Errors: WindowError."""
        windowed = WindowedCogroupedStream(self._grouped.cogroup(aggregator), self._windows, self._strategy)
        return windowed.aggregate(initializer, retention_ms=retention_ms)


class SessionWindowedStream(Generic[Table]):
    def __init__(
        self, grouped: GroupedStream[Table], windows: SessionWindows, strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    ) -> None:
        self._grouped = grouped
        self._windows = windows
        self._strategy = strategy

    def emit_strategy(self, strategy: EmitStrategy) -> "SessionWindowedStream[Table]":
        """When a session's result is told: with each record, or once, when the session closes."""
        return SessionWindowedStream(self._grouped, self._windows, strategy)

    def count(self, *, retention_ms: int | None = None) -> Table:
        return self.aggregate(_zero, _one_more, lambda key, one, other: one + other, retention_ms=retention_ms)

    def reduce(self, reducer: Reducer, *, retention_ms: int | None = None) -> Table:
        def merged(key: Any, one: Any, other: Any) -> Any:
            return other if one is None else reducer(one, other)

        return self.aggregate(_none, _reducing(reducer), merged, retention_ms=retention_ms)

    def aggregate(self, initializer: Initializer, aggregator: Aggregator, merger: Merger, *, retention_ms: int | None = None) -> Table:
        """`merger(key, one, other)` puts together the aggregates of two sessions that a record has joined.

        `retention_ms`: how long sessions stay in the store; at least, and by default, the gap and the grace.  Errors: WindowError.
        """
        windowed = SessionWindowedCogroupedStream(self._grouped.cogroup(aggregator), self._windows, self._strategy)
        return windowed.aggregate(initializer, merger, retention_ms=retention_ms)


class GroupedTable(Generic[Table]):
    def __init__(self, builder: InternalTopologyBuilder, node: Node, key: Serde, table: MakeTable[Table]) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._table = table

    def count(self) -> Table:
        return self.aggregate(_zero, _one_more, _one_less)

    def reduce(self, adder: Reducer, subtractor: Reducer) -> Table:
        adding, taking = (
            (lambda key, value, aggregate: adder(aggregate, value)),
            (lambda key, value, aggregate: subtractor(aggregate, value)),
        )
        return self._made(TableAggregate(self._builder.named("KTABLE-REDUCE"), _none, adding, taking, is_reduce=True))

    def aggregate(self, initializer: Initializer, adder: Aggregator, subtractor: Aggregator) -> Table:
        return self._made(TableAggregate(self._builder.named("KTABLE-AGGREGATE"), initializer, adder, subtractor))

    def _made(self, node: Node) -> Table:
        return self._table(self._builder, self._builder.after(self._node, node), self._key, None)
