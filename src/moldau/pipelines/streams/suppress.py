"""◇ Updates of a table held back: until the window closes, or for a while.  Source: KTableSuppressProcessorSupplier; KIP-328."""

from collections.abc import Iterator

from moldau.pipelines.streams.records import Change, Dropped, Record, Windowed
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.topology import Node


class BufferFull(RuntimeError):
    """More rows wait than the application allows."""


class Suppress(Node):
    """Keeps the newest update of each row, in the place of the first one that waits.

    `is_final`: a row waits until stream time has passed its window's end by `wait_ms`, which is the window's grace, and deleted rows are
    not told.  Otherwise a row waits `wait_ms` after its first update.  With more than `most_rows` waiting the oldest is emitted early, or,
    with `stops_when_full`, BufferFull is raised.
    """

    def __init__(
        self, name: str, wait_ms: int, *, is_final: bool = False, most_rows: int | None = None, stops_when_full: bool = False
    ) -> None:
        super().__init__(name)
        self.wait_ms = wait_ms
        self.is_final = is_final
        self.most_rows = most_rows
        self.stops_when_full = stops_when_full

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        now = stores.advance(self.name, record.timestamp)
        buffer, index = stores.pending(self.name), stores.store(self.name)
        place = index.get(record.key)
        if place is None:
            place = record.key.end if self.is_final and isinstance(record.key, Windowed) else record.timestamp
            index.put(record.key, place)
        change: Change = record.value
        buffer.put(place, 0, record.key, [change.new, change.old, record.timestamp, record.headers])
        while (first := buffer.first_time) is not None and (first <= now - self.wait_ms or self._is_over(len(buffer))):
            time, side, key = buffer.first()
            new, old, timestamp, headers = buffer.get(time, side, key)
            buffer.remove(time, side, key)
            index.put(key, None)
            if new is not None or not self.is_final:
                yield Record(key, Change(new, old), timestamp, tuple((name, value) for name, value in headers))

    def _is_over(self, count: int) -> bool:
        if self.most_rows is None or count <= self.most_rows:
            return False
        if self.stops_when_full:
            raise BufferFull(f"{self.name} holds {count} rows, and most_rows is {self.most_rows}: allow more, or let it emit early")
        return True
