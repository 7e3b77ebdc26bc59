"""◇ Updates of a table held back: until the window closes, or for a while.  Source: KTableSuppressProcessorSupplier; KIP-328."""

from collections.abc import Iterator
from typing import Any, Final

from moldau.pipelines.streams.records import Change, Dropped, Record, Windowed
from moldau.pipelines.streams.state import Stores, pack
from moldau.pipelines.streams.topology import Node

SIZE: Final = "-size"


class BufferFull(RuntimeError):
    """More rows, or bytes, wait than the application allows.  It ends the query, as `shutDownWhenFull` does."""


class Suppress(Node):
    """Keeps the newest update of each row, in the place of the first one that waits.

    `is_final`: a row waits until stream time has passed its window's end by `wait_ms`, which is the window's grace, and deleted rows are
    not told.  Otherwise a row waits `wait_ms` after its first update.  With more than `most_rows` or `most_bytes` waiting the oldest is
    emitted early, or, with `stops_when_full`, BufferFull is raised.  A row has the bytes of its key, its new and its old value, packed.
    """

    def __init__(
        self,
        name: str,
        wait_ms: int,
        *,
        is_final: bool = False,
        most_rows: int | None = None,
        most_bytes: int | None = None,
        stops_when_full: bool = False,
    ) -> None:
        super().__init__(name)
        self.wait_ms = wait_ms
        self.is_final = is_final
        self.most_rows = most_rows
        self.most_bytes = most_bytes
        self.stops_when_full = stops_when_full

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        now = stores.advance(self.name, record.timestamp)
        buffer, index = stores.pending(self.name), stores.store(self.name)
        place = index.get(record.key)
        if place is None:
            place = record.key.end if self.is_final and isinstance(record.key, Windowed) else record.timestamp
            index.put(record.key, place)
        change: Change = record.value
        self._resized(record.key, buffer.get(place, 0, record.key), -1, stores)
        buffer.put(place, 0, record.key, row := [change.new, change.old, record.timestamp, record.headers])
        self._resized(record.key, row, 1, stores)
        while (first := buffer.first_time) is not None and (first <= now - self.wait_ms or self._is_over(len(buffer), stores)):
            time, side, key = buffer.first()
            new, old, timestamp, headers = row = buffer.get(time, side, key)
            buffer.remove(time, side, key)
            self._resized(key, row, -1, stores)
            index.put(key, None)
            if new is not None or not self.is_final:
                yield Record(key, Change(new, old), timestamp, tuple((name, value) for name, value in headers))

    def _resized(self, key: Any, row: Any, sign: int, stores: Stores) -> None:
        """Count the bytes that wait, if they are limited."""
        if self.most_bytes is not None and row is not None:
            size = sum(len(pack(part)) for part in (key, row[0], row[1]))
            sizes = stores.store(self.name + SIZE)
            sizes.put(SIZE, sizes.get(SIZE, 0) + sign * size)

    def _is_over(self, rows: int, stores: Stores) -> bool:
        size = 0 if self.most_bytes is None else stores.store(self.name + SIZE).get(SIZE, 0)
        for name, limit, held in (("rows", self.most_rows, rows), ("bytes", self.most_bytes, size)):
            if limit is None or held <= limit:
                continue
            if self.stops_when_full:
                raise BufferFull(f"{self.name} holds {held} {name}, and most_{name} is {limit}: allow more, or let it emit early")
            return True
        return False
