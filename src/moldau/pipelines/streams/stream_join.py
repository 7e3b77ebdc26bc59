"""◇ Two streams joined within a window of time, and a stream joined with a table.

Source: KStreamKStreamJoin, KStreamJoinWindow, KStreamKTableJoinProcessor, RocksDBTimeOrderedKeyValueBuffer in Kafka 4.3.1; KIP-633,
KIP-923.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from moldau.pipelines.streams.records import NULL_KEY_OR_VALUE, Dropped, Joiner, Record
from moldau.pipelines.streams.state import Pending, Stores
from moldau.pipelines.streams.topology import Node
from moldau.pipelines.streams.windows import JoinWindows

LEFT: Final = 0
RIGHT: Final = 1
NEVER: Final = 1 << 62


class StreamStreamJoin(Node):
    """Ports: 0 left, 1 right.  `outer_sides`: their records are told alone when no partner has come and the window is closed.

    Each side keeps its records as `[timestamp, value]` by key, as long as a window and its grace are.  Records that wait for a partner are
    pending.  Both sides share stream time, and the time from which on it is worth looking at pending records.
    """

    def __init__(self, name: str, windows: JoinWindows, joiner: Joiner, *, outer_sides: frozenset[int] = frozenset()) -> None:
        super().__init__(name)
        self.windows = windows
        self.joiner = joiner
        self.outer_sides = outer_sides
        self.retention_ms = windows.before_ms + windows.after_ms + windows.grace_ms

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        now = stores.advance(self.name, record.timestamp)
        is_outer = port in self.outer_sides
        if is_outer and record.key is None and record.value is not None:
            yield record._replace(value=self._joined(port, record.value, None))
            return
        if record.key is None or record.value is None:
            yield Dropped(record, NULL_KEY_OR_VALUE)
            return
        before, after = self._reach(port)
        if self.outer_sides and record.timestamp == now:
            yield from self._alone(record, now, after, stores)
        latest = max(0, record.timestamp + after)
        partners = self._partners(record, 1 - port, max(0, record.timestamp - before), latest, stores)
        for time, value in partners:
            if self.outer_sides:
                stores.pending(self.name).remove(time, _side(1 - port), record.key)
            yield record._replace(value=self._joined(port, record.value, value), timestamp=max(record.timestamp, time))
        if is_outer and not partners:
            if latest < now:
                yield record._replace(value=self._joined(port, record.value, None))
            else:
                self._wait(record, port, stores)
        self._keep(record, port, stores)

    def _joined(self, port: int, own: Any, other: Any) -> Any:
        return self.joiner(own, other) if port == LEFT else self.joiner(other, own)

    def _reach(self, port: int) -> tuple[int, int]:
        one, other = self.windows.before_ms, self.windows.after_ms
        return (one, other) if port == LEFT else (other, one)

    def _partners(self, record: Record, side: int, earliest: int, latest: int, stores: Stores) -> list[Any]:
        newest = stores.store("time").get(self._kept(side))
        if newest is not None:
            earliest = max(earliest, newest - self.retention_ms + 1)
        return [one for one in stores.store(self._kept(side)).get(record.key, []) if earliest <= one[0] <= latest]

    def _keep(self, record: Record, side: int, stores: Stores) -> None:
        newest = stores.advance(self._kept(side), record.timestamp)
        store = stores.store(self._kept(side))
        kept = [one for one in store.get(record.key, []) if one[0] > newest - self.retention_ms]
        if record.timestamp > newest - self.retention_ms:
            kept = sorted([*kept, [record.timestamp, record.value]], key=lambda one: int(one[0]))
        store.put(record.key, kept or None)

    def _kept(self, side: int) -> str:
        return f"{self.name}-{'left' if side == LEFT else 'right'}"

    def _wait(self, record: Record, port: int, stores: Stores) -> None:
        pending = stores.pending(self.name)
        values = pending.get(record.timestamp, _side(port), record.key) or []
        pending.put(record.timestamp, _side(port), record.key, [*values, record.value])
        times = stores.store("time")
        times.put(self.name + "-waits", min(record.timestamp, times.get(self.name + "-waits", NEVER)))

    def _alone(self, record: Record, now: int, after: int, stores: Stores) -> Iterator[Record]:
        """The values that have waited until their window closed.

        `oldest` is Kafka's minTime: the time of the last value that was looked at, not of the oldest value that waits.  So a value that
        waits behind one that must wait longer may be told later than it could be.
        """
        times, grace = stores.store("time"), self.windows.grace_ms
        if times.get(self.name + "-waits", NEVER) + after + grace >= now:
            return
        pending: Pending = stores.pending(self.name)
        oldest, still_open, told = NEVER, set[int](), []
        for place, value in ((one, value) for one in pending for value in pending.get(*one)):
            oldest, side = place[0], LEFT if place[1] else RIGHT
            if len(still_open) == 2:
                break
            if oldest + self._reach(side)[1] + grace >= now:
                still_open.add(side)
                continue
            yield record._replace(key=place[2], value=self._joined(side, value, None), timestamp=oldest)
            told.append(place)
        for place in told:
            pending.remove(*place)
        times.put(self.name + "-waits", oldest)


def _side(port: int) -> int:
    """The place of a port's side in the order of pending records.  At one time Kafka tells the right side first."""
    return 1 if port == LEFT else 0


class StreamTableJoin(Node):
    """Joins each record with the row that the table has now; with the row of the record's own time if the table is versioned.

    `mapper` gives the row's key in a global table; else it is the record's.  With `grace_ms` a record waits until stream time has passed it
    by as much, so that late rows of a versioned table are there; a record that is later still is joined at once (KIP-923).
    """

    def __init__(
        self,
        name: str,
        table: Node,
        joiner: Joiner,
        *,
        is_left: bool = False,
        mapper: Callable[[Any, Any], Any] | None = None,
        grace_ms: int | None = None,
    ) -> None:
        super().__init__(name)
        self.tables = (table,)
        self.joiner = joiner
        self.is_left = is_left
        self.mapper = mapper
        self.grace_ms = grace_ms

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        key = self._key(record)
        if record.value is None or (key is None and not self.is_left):
            yield Dropped(record, NULL_KEY_OR_VALUE)
        elif self.grace_ms is None or key is None:
            yield from self._joined(record, key, stores)
        else:
            yield from self._waited(record, key, self.grace_ms, stores)

    def _key(self, record: Record) -> Any:
        return record.key if self.mapper is None else self.mapper(record.key, record.value)

    def _waited(self, record: Record, key: Any, grace_ms: int, stores: Stores) -> Iterator[Record]:
        newest = stores.store("time").get(self.name)
        if newest is not None and record.timestamp < newest - grace_ms:
            yield from self._joined(record, key, stores)
            return
        due = stores.advance(self.name, record.timestamp) - grace_ms
        pending = stores.pending(self.name)
        waiting = pending.get(record.timestamp, 0, key) or []
        pending.put(record.timestamp, 0, key, [*waiting, [record.value, record.headers]])
        while (first := pending.first_time) is not None and first <= due:
            time, side, key = pending.first()
            ready = pending.get(time, side, key)
            pending.remove(time, side, key)
            for value, headers in ready:
                yield from self._joined(Record(key, value, time, tuple((name, data) for name, data in headers)), key, stores)

    def _joined(self, record: Record, key: Any, stores: Stores) -> Iterator[Record]:
        row = None if key is None else self.tables[0].lookup(key, stores, record.timestamp)
        if row is not None or self.is_left:
            yield record._replace(value=self.joiner(record.value, None if row is None else row[0]))
