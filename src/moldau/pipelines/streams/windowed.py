"""◇ Aggregates over tumbling, hopping and session windows.

A window takes records until stream time has passed its end by the grace; a record whose windows are all closed is late.  The windows of a
key are one entry of the store.  `retention_ms` says how long a window can be seen there, counted from the newest window (a session from the
newest end); older ones leave the store when their key is next seen.

Source: KStreamWindowAggregate, KStreamSessionWindowAggregate in Kafka 4.3.1.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from moldau.pipelines.streams.aggregate import Aggregator, Initializer, stream_time
from moldau.pipelines.streams.records import LATE, NULL_KEY, Change, Dropped, Record, Windowed
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.topology import Node, Row
from moldau.pipelines.streams.windows import SessionWindows, TimeWindows, merged

STARTS: Final = "-starts"
Merger = Callable[[Any, Any, Any], Any]
"""(key, one session's aggregate, the other's) → the merged session's."""


class WindowAggregate(Node):
    """count, aggregate and reduce by tumbling or hopping windows.  The store: `[start, value, timestamp]` of a key's windows."""

    def __init__(
        self,
        name: str,
        windows: TimeWindows,
        initializer: Initializer,
        aggregators: Sequence[Aggregator],
        retention_ms: int | None = None,
    ) -> None:
        super().__init__(name)
        self.windows = windows
        self.retention_ms = windows.size_ms + windows.grace_ms if retention_ms is None else retention_ms
        self.initializer = initializer
        self.aggregators = aggregators

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        if record.key is None:
            yield Dropped(record, NULL_KEY)
            return
        closed = stores.advance(stream_time(self.name, port), record.timestamp) - self.windows.grace_ms
        size, store = self.windows.size_ms, stores.store(self.name)
        was_taken = False
        for start in self.windows.starts(record.timestamp):
            if start + size <= closed:
                continue
            was_taken = True
            stores.advance(self.name + STARTS, start)
            kept = {window[0]: window for window in self._held(record.key, stores)}
            window = kept.get(start)
            timestamp = record.timestamp if window is None else max(record.timestamp, window[2])
            old = self.initializer() if window is None else window[1]
            before = self.initializer() if window is None else _value(store, record.key, start)
            new = self.aggregators[port](record.key, record.value, before)
            kept.pop(start, None)
            if new is not None:
                kept[start] = [start, new, timestamp]
            store.put(record.key, sorted(kept.values(), key=_first) or None)
            yield record._replace(key=Windowed(record.key, start, start + size), value=Change(new, old), timestamp=timestamp)
        if not was_taken:
            yield Dropped(record, LATE)

    def closed(self, stores: Stores) -> int | None:
        """The time whose windows are closed if they end then or before; None before the first record."""
        newest = stores.store("time").get(self.name)
        return None if newest is None else newest - self.windows.grace_ms

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        return next(((value, time) for start, value, time in self._held(key.key, stores) if start == key.start), None)

    def _held(self, key: Any, stores: Stores) -> list[Any]:
        """The windows of a key that can be seen."""
        oldest = stores.store("time").get(self.name + STARTS, 0) - self.retention_ms
        return [window for window in stores.store(self.name).get(key, []) if window[0] > oldest]


def _value(store: Any, key: Any, start: int) -> Any:
    return next(window[1] for window in store.get(key) if window[0] == start)


def _first(window: list[Any]) -> Any:
    return window[0]


class SessionAggregate(Node):
    """count, aggregate and reduce by sessions.  The store: `[end, start, value]` of a key's sessions.

    A record that joins sessions removes their rows and makes one row of the whole session.
    """

    def __init__(
        self,
        name: str,
        windows: SessionWindows,
        initializer: Initializer,
        aggregators: Sequence[Aggregator],
        merger: Merger,
        retention_ms: int | None = None,
    ) -> None:
        super().__init__(name)
        self.windows = windows
        self.retention_ms = windows.gap_ms + windows.grace_ms if retention_ms is None else retention_ms
        self.initializer = initializer
        self.aggregators = aggregators
        self.merger = merger

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        if record.key is None:
            yield Dropped(record, NULL_KEY)
            return
        gap = self.windows.gap_ms
        closed = stores.advance(stream_time(self.name, port), record.timestamp) - self.windows.grace_ms - gap
        store = stores.store(self.name)
        kept = self._visible(record.key, stores)
        own = Windowed(record.key, record.timestamp, record.timestamp)
        found = [one for one in kept if one[0] >= record.timestamp - gap and one[1] <= record.timestamp + gap]
        whole, value = own, self.initializer()
        for end, start, aggregate in found:
            value = self.merger(record.key, value, aggregate)
            whole = merged(whole, Windowed(record.key, start, end))
        if whole.end < closed:
            yield Dropped(record, LATE)
            return
        if whole != own:
            for one in found:
                kept.remove(one)
                store.put(record.key, kept or None)
                yield Record(Windowed(record.key, one[1], one[0]), Change(None, one[2]), one[0])
        value = self.aggregators[port](record.key, record.value, value)
        kept = [one for one in kept if (one[0], one[1]) != (whole.end, whole.start)]
        newest = stores.advance(self.name + "-ends", whole.end)
        if value is not None and self._is_visible(whole.end, newest):
            kept = sorted([*kept, [whole.end, whole.start, value]], key=_place)
        store.put(record.key, kept or None)
        yield Record(whole, Change(value, None), whole.end)

    def closed(self, stores: Stores) -> int | None:
        """The time whose windows are closed if they end before it; None before the first record."""
        newest = stores.store("time").get(self.name)
        return None if newest is None else newest - self.windows.grace_ms - self.windows.gap_ms

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        return next(((value, end) for end, start, value in self._visible(key.key, stores) if (start, end) == (key.start, key.end)), None)

    def _visible(self, key: Any, stores: Stores) -> list[Any]:
        newest = stores.store("time").get(self.name + "-ends")
        return [one for one in stores.store(self.name).get(key, []) if self._is_visible(one[0], newest)]

    def _is_visible(self, end: int, newest: int | None) -> bool:
        """By default Kafka's store forgets a session one ms before its window closes, counted from the newest end that it holds."""
        return newest is None or end > newest - self.retention_ms


def _place(session: list[Any]) -> tuple[int, int]:
    return session[0], session[1]
