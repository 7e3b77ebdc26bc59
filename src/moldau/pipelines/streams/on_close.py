"""◇ The results of windows told once, when the window is closed: `EmitStrategy.onWindowClose` (KIP-825).

Unlike `Suppress`, which sees results only, the node knows the stream time of the records themselves, also of those that change nothing.

Source: AbstractKStreamTimeWindowAggregateProcessor, KStreamSessionWindowAggregate in Kafka 4.3.1.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from moldau.pipelines.streams.records import Change, Dropped, Record
from moldau.pipelines.streams.sliding import SlidingAggregate
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.topology import Node, Row
from moldau.pipelines.streams.windowed import SessionAggregate, WindowAggregate


class EmitStrategy(Enum):
    """When a window's result is told."""

    ON_WINDOW_UPDATE = "on window update"
    """With each record."""
    ON_WINDOW_CLOSE = "on window close"
    """Once, when stream time has passed the window's end and its grace."""


class OnWindowClose(Node):
    """Holds the results of an aggregate back until their windows are closed.  They are pending by the first time at which that is so."""

    def __init__(self, name: str, aggregate: WindowAggregate | SlidingAggregate | SessionAggregate) -> None:
        super().__init__(name)
        self.aggregate = aggregate
        self.is_end_inclusive = not isinstance(aggregate, WindowAggregate)

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        pending = stores.pending(self.name)
        for out in self.aggregate.process(record, port, stores):
            if isinstance(out, Dropped):
                yield out
                continue
            closes = out.key.end + self.is_end_inclusive
            if out.value.new is None:
                pending.remove(closes, 0, out.key)
            else:
                pending.put(closes, 0, out.key, [out.value.new, out.timestamp])
        closed = self.aggregate.closed(stores)
        while closed is not None and (first := pending.first_time) is not None and first <= closed:
            time, side, key = pending.first()
            value, timestamp = pending.get(time, side, key)
            pending.remove(time, side, key)
            yield record._replace(key=key, value=Change(value), timestamp=timestamp)

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        return self.aggregate.lookup(key, stores)
