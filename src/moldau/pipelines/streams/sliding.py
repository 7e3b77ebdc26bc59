"""◇ Aggregates over sliding windows: each window ends or begins at a record, and both ends belong to it (KIP-450).

A record makes at most two windows: its left one, which ends at it, and its right one, which begins one ms after it, as soon as there is a
record in it; the record before it gets its right window as well.  Records below `difference_ms` share the window [0, difference_ms], since
no window begins before 0.

Source: KStreamSlidingWindowAggregate in Kafka 4.3.1.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from moldau.pipelines.streams.aggregate import Aggregator, Initializer, stream_time
from moldau.pipelines.streams.records import LATE, NULL_KEY_OR_VALUE, Change, Dropped, Record, Windowed
from moldau.pipelines.streams.state import Stores, pack, unpack
from moldau.pipelines.streams.topology import Node, Row
from moldau.pipelines.streams.windows import SlidingWindows


class Held(NamedTuple):
    """One window of a key.  `newest`: the newest timestamp in it."""

    start: int
    value: Any
    newest: int


class Seen(NamedTuple):
    """The content of the windows around a record."""

    right: Held | None = None
    """The window whose aggregate holds the records within reach after the record."""
    left: Held | None = None
    previous: int | None = None
    """The timestamp of the record before it."""
    has_left: bool = False
    has_right: bool = False


class Way(NamedTuple):
    """How a record is put into windows."""

    aggregator: Aggregator
    closed: int
    """Windows that end before this time are closed."""


class SlidingAggregate(Node):
    """count, aggregate and reduce by sliding windows.  The store: `[start, value, newest timestamp]` of a key's windows."""

    def __init__(
        self,
        name: str,
        windows: SlidingWindows,
        initializer: Initializer,
        aggregators: Sequence[Aggregator],
        retention_ms: int | None = None,
    ) -> None:
        """`retention_ms`: how long a window can be seen in the store, counted from the newest one."""
        super().__init__(name)
        self.windows = windows
        self.retention_ms = windows.grace_ms + 2 * windows.difference_ms if retention_ms is None else retention_ms
        self.initializer = initializer
        self.aggregators = aggregators

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        if record.key is None or record.value is None:
            yield Dropped(record, NULL_KEY_OR_VALUE)
            return
        closed = stores.advance(stream_time(self.name, port), record.timestamp) - self.windows.grace_ms
        reach, at = self.windows.difference_ms, record.timestamp
        if at + reach < closed:
            yield Dropped(record, LATE)
            return
        held, way = self._held(record.key, stores), Way(self.aggregators[port], closed)
        if at < reach:
            yield from self._early(record, held, way, stores)
            return
        near = [one for one in reversed(held) if max(0, at - 2 * reach) <= one.start <= at + 1]
        seen = Seen()
        for one in near:
            end = one.start + reach
            if one.start == at + 1:
                seen = seen._replace(has_right=True)
            elif end >= at:
                if end > at:
                    seen = seen._replace(right=seen.right or one)
                yield from self._added(record, one.start, one, way, stores)
                if end == at and one.newest == at:
                    return
                if end == at:
                    seen = seen._replace(has_left=True, previous=one.newest)
            else:
                seen = seen._replace(left=one, previous=one.newest)
                break
        yield from self._made(record, {one.start for one in near}, seen, way, stores)

    def _made(self, record: Record, starts: set[int], seen: Seen, way: Way, stores: Stores) -> Iterator[Record]:
        """The windows that were not there: the right window of the record before, then the record's left and right windows."""
        reach, at, previous = self.windows.difference_ms, record.timestamp, seen.previous
        if previous is not None and previous + 1 not in starts and previous + 1 + reach >= at:
            yield from self._added(record, previous + 1, None, way, stores)
        if not seen.has_left:
            is_empty = previous is None or previous < at - reach
            assert is_empty or seen.left is not None, "the record before is in a window that ends at it"
            base = None if is_empty or seen.left is None else seen.left._replace(newest=at)
            yield from self._added(record, at - reach, base, way, stores)
        if not seen.has_right and seen.right is not None and seen.right.newest > at:
            yield self._right(record, seen.right, stores)

    def _early(self, record: Record, held: list[Held], way: Way, stores: Stores) -> Iterator[Record]:
        at, near = record.timestamp, [one for one in held if one.start <= record.timestamp + 1]
        combined = next((one for one in near if one.start == 0), None)
        right, has_right = None, False
        for one in near:
            if one.start == at + 1:
                has_right = True
            elif one.start > 0:
                right = one
                yield from self._added(record, one.start, one, way, stores)
        if right is None and combined is not None and combined.newest > at:
            right = combined
        if not has_right and right is not None and right.newest > at:
            yield self._right(record, right, stores)
        if combined is not None and combined.newest < at and combined.newest + 1 not in {one.start for one in near}:
            yield from self._added(record, combined.newest + 1, None, way, stores)
        yield from self._added(record, 0, combined, way, stores)

    def _right(self, record: Record, base: Held, stores: Stores) -> Record:
        """The window after the record.  It holds what the window around the record held before."""
        made = base._replace(start=record.timestamp + 1)
        self._put(record.key, made, stores)
        window = Windowed(record.key, made.start, made.start + self.windows.difference_ms)
        return record._replace(key=window, value=Change(made.value, None), timestamp=made.newest)

    def _added(self, record: Record, start: int, base: Held | None, way: Way, stores: Stores) -> Iterator[Record]:
        """Put the record into one window, if the window is open.  `base`: the window's content; None: there is none."""
        end = start + self.windows.difference_ms
        if end < way.closed:
            return
        # An aggregator may change the value that it gets, so it gets a copy of the one in the store.
        old = self.initializer() if base is None else base.value
        new = way.aggregator(record.key, record.value, self.initializer() if base is None else unpack(pack(base.value)))
        newest = record.timestamp if base is None else max(record.timestamp, base.newest)
        self._put(record.key, Held(start, new, newest), stores)
        yield record._replace(key=Windowed(record.key, start, end), value=Change(new, old), timestamp=newest)

    def _put(self, key: Any, window: Held, stores: Stores) -> None:
        stores.advance(self.name + "-starts", window.start)
        kept = [one for one in self._held(key, stores) if one.start != window.start]
        if window.value is not None:
            kept = sorted([*kept, window], key=lambda one: one.start)
        stores.store(self.name).put(key, kept or None)

    def _held(self, key: Any, stores: Stores) -> list[Held]:
        """The windows of a key that Kafka's store still shows, by their starts."""
        newest = stores.store("time").get(self.name + "-starts", 0)
        oldest = newest - self.retention_ms + 1
        return [Held(*one) for one in stores.store(self.name).get(key, []) if one[0] >= oldest]

    def closed(self, stores: Stores) -> int | None:
        """The time whose windows are closed if they end before it; None before the first record."""
        newest = stores.store("time").get(self.name)
        return None if newest is None else newest - self.windows.grace_ms

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        return next(((one.value, one.newest) for one in self._held(key.key, stores) if one.start == key.start), None)
