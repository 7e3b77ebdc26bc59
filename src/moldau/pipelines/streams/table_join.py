"""◇ Two tables joined by their keys, and the operators of a table that keep nothing.

Source: KTableKTableInnerJoin, KTableKTableLeftJoin, KTableKTableRightJoin, KTableKTableOuterJoin, KTableFilter, KTableMapValues in 4.3.1.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from moldau.pipelines.streams.records import NULL_KEY, OUT_OF_ORDER, Change, Dropped, Joiner, Record
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.topology import Node, Row


class Join(Enum):
    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"


class TableTableJoin(Node):
    """Ports: 0 changes of the left table, 1 of the right.  It keeps nothing: a row is made of both tables' rows."""

    def __init__(self, name: str, left: Node, right: Node, joiner: Joiner, kind: Join) -> None:
        super().__init__(name)
        self.tables = left, right
        self.joiner = joiner
        self.kind = kind

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        if record.key is None:
            yield Dropped(record, NULL_KEY)
            return
        change: Change = record.value
        if not change.is_latest:
            yield Dropped(record._replace(value=change.new), OUT_OF_ORDER)
            return
        other = self.tables[1 - port].lookup(record.key, stores)
        if other is None:
            if self._needs(1 - port) or (change.new is None and change.old is None):
                return
            other = (None, -1)
        there = other[0]
        joined = change.mapped(lambda value: self._row(port, value, there))
        yield record._replace(value=joined, timestamp=max(record.timestamp, other[1]))

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        left, right = (table.lookup(key, stores) for table in self.tables)
        if (left is None and (self._needs(0) or right is None)) or (right is None and self._needs(1)):
            return None
        left, right = left or (None, -1), right or (None, -1)
        return self.joiner(left[0], right[0]), max(left[1], right[1])

    def _needs(self, side: int) -> bool:
        """Whether the result has a row only if this table has one."""
        return self.kind is Join.INNER or (self.kind is Join.LEFT and side == 0)

    def _row(self, port: int, own: Any, other: Any) -> Any:
        if (own is None and (self._needs(port) or other is None)) or (other is None and self._needs(1 - port)):
            return None
        return self.joiner(own, other) if port == 0 else self.joiner(other, own)


class FilterTable(Node):
    """Rows that do not fit are left out.  A row that was left out and still is, is not told."""

    def __init__(self, name: str, table: Node, predicate: Callable[[Any, Any], bool]) -> None:
        super().__init__(name)
        self.tables = (table,)
        self.predicate = predicate

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        fitting = record.value.mapped(lambda value: value if value is not None and self.predicate(record.key, value) else None)
        # In a versioned table None is a version, too.
        if fitting.new is not None or fitting.old is not None or self.history_ms is not None:
            yield record._replace(value=fitting)

    @property
    def history_ms(self) -> int | None:
        return self.tables[0].history_ms

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        row = self.tables[0].lookup(key, stores, at)
        return row if row is not None and self.predicate(key, row[0]) else None


class MapTable(Node):
    """mapValues of a table."""

    def __init__(self, name: str, table: Node, mapper: Callable[[Any, Any], Any]) -> None:
        super().__init__(name)
        self.tables = (table,)
        self.mapper = mapper

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        yield record._replace(value=record.value.mapped(lambda value: None if value is None else self.mapper(record.key, value)))

    @property
    def history_ms(self) -> int | None:
        return self.tables[0].history_ms

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        row = self.tables[0].lookup(key, stores, at)
        return None if row is None else (self.mapper(key, row[0]), row[1])


class ToStream(Node):
    """A table's changes as a stream: each new row, and None for a removed row."""

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        yield record._replace(value=record.value.new)
