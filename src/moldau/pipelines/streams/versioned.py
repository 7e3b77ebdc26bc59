"""◇ A topic as a versioned table: rows as they were at any time of the history (KIP-889, KIP-914).

A stream that is joined with such a table finds the row that was there at the stream record's own time.

Source: KTableSource, RocksDBVersionedStore in Kafka 4.3.1.
"""

from collections.abc import Iterator
from typing import Any

from moldau.pipelines.streams.records import LATE, NULL_KEY, Change, Dropped, Record
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.topology import Node, Row


class VersionedTableSource(Node):
    """The store: `[timestamp, value]` of a key's versions, oldest first; a value None is a removed row.

    `history_ms`: how far back from the newest timestamp of the table versions are known.  A record that is older is dropped.  The newest
    version is known for ever.
    """

    def __init__(self, name: str, history_ms: int) -> None:
        super().__init__(name)
        self._history_ms = history_ms

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        if record.key is None:
            yield Dropped(record, NULL_KEY)
            return
        oldest = self._oldest(stores)
        if oldest is not None and record.timestamp < oldest:
            yield Dropped(record, LATE)
            return
        begin = stores.advance(self.name, record.timestamp) - self._history_ms
        versions = stores.store(self.name).get(record.key, [])
        old, is_latest = (versions[-1][1], record.timestamp >= versions[-1][0]) if versions else (None, True)
        kept = sorted([*(one for one in versions if one[0] != record.timestamp), [record.timestamp, record.value]], key=_time)
        stores.store(self.name).put(record.key, _known(kept, begin) or None)
        yield record._replace(value=Change(record.value, old, is_latest))

    @property
    def history_ms(self) -> int | None:
        return self._history_ms

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        versions = stores.store(self.name).get(key, [])
        found = [one for one in versions if at is None or one[0] <= at]
        oldest = self._oldest(stores)
        is_forgotten = at is not None and oldest is not None and at < oldest and len(found) < len(versions)
        if not found or is_forgotten or found[-1][1] is None:
            return None
        timestamp, value = found[-1]
        return value, timestamp

    def _oldest(self, stores: Stores) -> int | None:
        newest = stores.store("time").get(self.name)
        return None if newest is None else newest - self._history_ms


def _known(versions: list[list[Any]], begin: int) -> list[list[Any]]:
    """The versions that can still be asked for.  A removal at the beginning tells nothing."""
    first = max((number for number, one in enumerate(versions) if one[0] <= begin), default=0)
    kept = versions[first:]
    return kept[1:] if kept[0][1] is None and kept[0][0] < begin else kept


def _time(version: list[Any]) -> int:
    return int(version[0])
