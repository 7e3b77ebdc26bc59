"""◇ One or several grouped streams, on their way to one table: `cogroup` (KIP-150), and the windows to do it by.

The aggregate of a single grouped stream is a cogroup of one.

Source: CogroupedKStreamImpl, TimeWindowedCogroupedKStreamImpl, CogroupedStreamAggregateBuilder in Kafka 4.3.1.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from moldau.pipelines.streams.aggregate import Aggregator, Initializer, StreamAggregate
from moldau.pipelines.streams.internal_topology import InternalTopologyBuilder
from moldau.pipelines.streams.on_close import EmitStrategy, OnWindowClose
from moldau.pipelines.streams.serdes import Serde, session_windowed, time_windowed
from moldau.pipelines.streams.sliding import SlidingAggregate
from moldau.pipelines.streams.topology import Node
from moldau.pipelines.streams.windowed import Merger, SessionAggregate, WindowAggregate
from moldau.pipelines.streams.windows import SessionWindows, SlidingWindows, TimeWindows, check_retention

Table = TypeVar("Table")
MakeTable = Callable[[InternalTopologyBuilder, Node, Serde, int | None], Table]
"""Makes the table of a node: `KTable` itself, which begins the same groupings again and so stands above this module."""


class Grouped(Generic[Table]):
    """A grouped stream as an input of an aggregate."""

    def __init__(self, builder: InternalTopologyBuilder, node: Node, key: Serde, table: MakeTable[Table]) -> None:
        self._builder = builder
        self._node = node
        self._table = table
        self.key = key

    def into_table(self, node: Node, inputs: Sequence["Grouped[Table]"], key: Serde, closes_ms: int | None) -> Table:
        """The table of a node that has an input for each of these grouped streams.  Errors: TopologyError."""
        for port, parent in enumerate(self._builder.all_together([one._node for one in inputs])):
            self._builder.after(parent, node, port)
        return self._table(self._builder, node, key, closes_ms)

    def named(self, kind: str) -> str:
        return self._builder.named(kind)


class CogroupedStream(Generic[Table]):
    """Grouped streams with an aggregator each, which all change the same aggregates."""

    def __init__(self, inputs: Mapping[Grouped[Table], Aggregator]) -> None:
        self._inputs = dict(inputs)
        self._first = next(iter(self._inputs))

    def cogroup(self, grouped: Grouped[Table], aggregator: Aggregator) -> "CogroupedStream[Table]":
        """With another grouped stream, whose `aggregator(key, value, aggregate)` changes the same aggregates; None removes a row."""
        return CogroupedStream({**self._inputs, grouped: aggregator})

    def aggregate(self, initializer: Initializer) -> Table:
        """Errors: TopologyError for streams that cannot come into one stage."""
        node = StreamAggregate(self.named("KSTREAM-AGGREGATE"), initializer, self.aggregators)
        return self.then(node, self.key, None)

    def windowed_by(self, windows: TimeWindows | SlidingWindows) -> "WindowedCogroupedStream[Table]":
        return WindowedCogroupedStream(self, windows)

    def session_windowed_by(self, windows: SessionWindows) -> "SessionWindowedCogroupedStream[Table]":
        return SessionWindowedCogroupedStream(self, windows)

    def then(self, node: Node, key: Serde, closes_ms: int | None) -> Table:
        """The table of a node that has an input for each stream."""
        return self._first.into_table(node, list(self._inputs), key, closes_ms)

    def told(
        self, node: WindowAggregate | SlidingAggregate | SessionAggregate, key: Serde, closes_ms: int, strategy: EmitStrategy
    ) -> Table:
        """The table of an aggregate by windows.  A table that is told once a window needs no suppress."""
        if strategy is EmitStrategy.ON_WINDOW_UPDATE:
            return self.then(node, key, closes_ms)
        return self.then(OnWindowClose(self.named("KSTREAM-EMIT-FINAL"), node), key, None)

    def named(self, kind: str) -> str:
        return self._first.named(kind)

    @property
    def key(self) -> Serde:
        return self._first.key

    @property
    def aggregators(self) -> tuple[Aggregator, ...]:
        return tuple(self._inputs.values())


class WindowedCogroupedStream(Generic[Table]):
    def __init__(
        self,
        cogrouped: CogroupedStream[Table],
        windows: TimeWindows | SlidingWindows,
        strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        self._cogrouped = cogrouped
        self._windows = windows
        self._strategy = strategy

    def aggregate(self, initializer: Initializer, *, retention_ms: int | None = None) -> Table:
        """`retention_ms`: how long windows stay in the store; at least, and by default, their size and grace.  Errors: WindowError."""
        name, windows, aggregators = self._cogrouped.named("KSTREAM-AGGREGATE"), self._windows, self._cogrouped.aggregators
        node: WindowAggregate | SlidingAggregate
        if isinstance(windows, SlidingWindows):
            check_retention(retention_ms, 2 * windows.difference_ms + windows.grace_ms)
            key = time_windowed(self._cogrouped.key, windows.difference_ms)
            node = SlidingAggregate(name, windows, initializer, aggregators, retention_ms)
        else:
            check_retention(retention_ms, windows.size_ms + windows.grace_ms)
            key = time_windowed(self._cogrouped.key, windows.size_ms)
            node = WindowAggregate(name, windows, initializer, aggregators, retention_ms)
        return self._cogrouped.told(node, key, windows.grace_ms, self._strategy)


class SessionWindowedCogroupedStream(Generic[Table]):
    def __init__(
        self, cogrouped: CogroupedStream[Table], windows: SessionWindows, strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    ) -> None:
        self._cogrouped = cogrouped
        self._windows = windows
        self._strategy = strategy

    def aggregate(self, initializer: Initializer, merger: Merger, *, retention_ms: int | None = None) -> Table:
        """`merger(key, one, other)` puts together the aggregates of two sessions that a record has joined.

        `retention_ms`: how long sessions stay in the store; at least, and by default, the gap and the grace.  Errors: WindowError.
        """
        name, windows = self._cogrouped.named("KSTREAM-AGGREGATE"), self._windows
        closes_ms = windows.gap_ms + windows.grace_ms
        check_retention(retention_ms, closes_ms)
        node = SessionAggregate(name, windows, initializer, self._cogrouped.aggregators, merger, retention_ms)
        return self._cogrouped.told(node, session_windowed(self._cogrouped.key), closes_ms, self._strategy)
