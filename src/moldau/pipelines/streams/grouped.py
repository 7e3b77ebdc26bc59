"""◇ Grouped records, on their way to a table: count, reduce, aggregate, and the windows to do it by."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.pipelines.streams.aggregate import Aggregator, Initializer, Reducer, StreamAggregate, TableAggregate
from moldau.pipelines.streams.on_close import EmitStrategy, OnWindowClose
from moldau.pipelines.streams.serdes import Serde, session_windowed, time_windowed
from moldau.pipelines.streams.sliding import SlidingAggregate
from moldau.pipelines.streams.topology import Node
from moldau.pipelines.streams.windowed import Merger, SessionAggregate, WindowAggregate
from moldau.pipelines.streams.windows import SessionWindows, SlidingWindows, TimeWindows, check_retention

if TYPE_CHECKING:
    from moldau.pipelines.streams.builder import KTable, StreamsBuilder

    MakeTable = Callable[[StreamsBuilder, Node, Serde, int | None], KTable]


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


class GroupedStream:
    def __init__(self, builder: "StreamsBuilder", node: Node, key: Serde, table: "MakeTable") -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._table = table

    def count(self) -> "KTable":
        return self.aggregate(_zero, _one_more)

    def reduce(self, reducer: Reducer) -> "KTable":
        """`reducer(aggregate, value)`; the first value is the first aggregate."""
        return self.aggregate(_none, _reducing(reducer))

    def aggregate(self, initializer: Initializer, aggregator: Aggregator) -> "KTable":
        """`aggregator(key, value, aggregate)`; None removes the row."""
        node = StreamAggregate(self._builder.named("KSTREAM-AGGREGATE"), initializer, aggregator)
        return self.then(node, self._key, None)

    def windowed_by(self, windows: TimeWindows | SlidingWindows) -> "WindowedStream":
        """Tumbling, hopping or sliding; late records are dropped, see `StreamsBuilder`."""
        return WindowedStream(self, windows)

    def session_windowed_by(self, windows: SessionWindows) -> "SessionWindowedStream":
        return SessionWindowedStream(self, windows)

    def then(self, node: Node, key: Serde, closes_ms: int | None) -> "KTable":
        return self._table(self._builder, self._builder.after(self._node, node), key, closes_ms)

    def told(
        self, node: WindowAggregate | SlidingAggregate | SessionAggregate, key: Serde, closes_ms: int, strategy: EmitStrategy
    ) -> "KTable":
        """The table of an aggregate by windows.  A table that is told once a window needs no suppress."""
        if strategy is EmitStrategy.ON_WINDOW_UPDATE:
            return self.then(node, key, closes_ms)
        return self.then(OnWindowClose(self.named("KSTREAM-EMIT-FINAL"), node), key, None)

    def named(self, kind: str) -> str:
        return self._builder.named(kind)

    @property
    def key(self) -> Serde:
        return self._key


class WindowedStream:
    def __init__(
        self, grouped: GroupedStream, windows: TimeWindows | SlidingWindows, strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    ) -> None:
        self._grouped = grouped
        self._windows = windows
        self._strategy = strategy

    def emit_strategy(self, strategy: EmitStrategy) -> "WindowedStream":
        """When a window's result is told: with each record, or once, when the window closes."""
        return WindowedStream(self._grouped, self._windows, strategy)

    def count(self, *, retention_ms: int | None = None) -> "KTable":
        return self.aggregate(_zero, _one_more, retention_ms=retention_ms)

    def reduce(self, reducer: Reducer, *, retention_ms: int | None = None) -> "KTable":
        return self.aggregate(_none, _reducing(reducer), retention_ms=retention_ms)

    def aggregate(self, initializer: Initializer, aggregator: Aggregator, *, retention_ms: int | None = None) -> "KTable":
        """`retention_ms`: how long windows stay in the store; at least, and by default, their size and grace.  Errors: WindowError."""
        name, windows = self._grouped.named("KSTREAM-AGGREGATE"), self._windows
        node: WindowAggregate | SlidingAggregate
        if isinstance(windows, SlidingWindows):
            check_retention(retention_ms, 2 * windows.difference_ms + windows.grace_ms)
            key = time_windowed(self._grouped.key, windows.difference_ms)
            node = SlidingAggregate(name, windows, initializer, aggregator, retention_ms)
        else:
            check_retention(retention_ms, windows.size_ms + windows.grace_ms)
            key = time_windowed(self._grouped.key, windows.size_ms)
            node = WindowAggregate(name, windows, initializer, aggregator, retention_ms)
        return self._grouped.told(node, key, windows.grace_ms, self._strategy)


class SessionWindowedStream:
    def __init__(self, grouped: GroupedStream, windows: SessionWindows, strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE) -> None:
        self._grouped = grouped
        self._windows = windows
        self._strategy = strategy

    def emit_strategy(self, strategy: EmitStrategy) -> "SessionWindowedStream":
        """When a session's result is told: with each record, or once, when the session closes."""
        return SessionWindowedStream(self._grouped, self._windows, strategy)

    def count(self, *, retention_ms: int | None = None) -> "KTable":
        return self.aggregate(_zero, _one_more, lambda key, one, other: one + other, retention_ms=retention_ms)

    def reduce(self, reducer: Reducer, *, retention_ms: int | None = None) -> "KTable":
        def merged(key: Any, one: Any, other: Any) -> Any:
            return other if one is None else reducer(one, other)

        return self.aggregate(_none, _reducing(reducer), merged, retention_ms=retention_ms)

    def aggregate(self, initializer: Initializer, aggregator: Aggregator, merger: Merger, *, retention_ms: int | None = None) -> "KTable":
        """`merger(key, one, other)` puts together the aggregates of two sessions that a record has joined.

        `retention_ms`: how long sessions stay in the store; at least, and by default, the gap and the grace.  Errors: WindowError.
        """
        name, windows = self._grouped.named("KSTREAM-AGGREGATE"), self._windows
        closes_ms = windows.gap_ms + windows.grace_ms
        check_retention(retention_ms, closes_ms)
        node = SessionAggregate(name, windows, initializer, aggregator, merger, retention_ms)
        return self._grouped.told(node, session_windowed(self._grouped.key), closes_ms, self._strategy)


class GroupedTable:
    def __init__(self, builder: "StreamsBuilder", node: Node, key: Serde, table: "MakeTable") -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._table = table

    def count(self) -> "KTable":
        return self.aggregate(_zero, _one_more, _one_less)

    def reduce(self, adder: Reducer, subtractor: Reducer) -> "KTable":
        adding, taking = (
            (lambda key, value, aggregate: adder(aggregate, value)),
            (lambda key, value, aggregate: subtractor(aggregate, value)),
        )
        return self._made(TableAggregate(self._builder.named("KTABLE-REDUCE"), _none, adding, taking, is_reduce=True))

    def aggregate(self, initializer: Initializer, adder: Aggregator, subtractor: Aggregator) -> "KTable":
        return self._made(TableAggregate(self._builder.named("KTABLE-AGGREGATE"), initializer, adder, subtractor))

    def _made(self, node: Node) -> "KTable":
        return self._table(self._builder, self._builder.after(self._node, node), self._key, None)
