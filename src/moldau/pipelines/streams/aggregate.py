"""◇ Aggregates without windows, of a stream and of a table; and a topic as a table.

The timestamp of a result is the newest of the records that went into it.

Source: KStreamAggregate, KStreamReduce, KTableSource, KTableAggregate, KTableReduce, KTableRepartitionMap in Kafka 4.3.1; KIP-258.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from moldau.pipelines.streams.records import NULL_KEY, NULL_KEY_OR_VALUE, OUT_OF_ORDER, Change, Dropped, Record
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.topology import Node, Row

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""(key, value, aggregate) → aggregate; None removes the row."""
Reducer = Callable[[Any, Any], Any]


class TableNode(Node):
    """A table with a store of its own: `[value, timestamp]` by key."""

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        kept = stores.store(self.name).get(key)
        return None if kept is None else (kept[0], kept[1])

    def value_of(self, key: Any, stores: Stores) -> Any:
        row = self.lookup(key, stores)
        return None if row is None else row[0]

    def _changed(self, record: Record, new: Any, old: Any, timestamp: int, stores: Stores) -> Record:
        stores.store(self.name).put(record.key, None if new is None else [new, timestamp])
        return record._replace(value=Change(new, old), timestamp=timestamp)


class TableSource(TableNode):
    """A topic, or a stream, as a table: a record is the row of its key from now on, a null value removes the row.

    A record that is older than the row replaces it all the same: the order of the partition decides.
    """

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        if record.key is None:
            yield Dropped(record, NULL_KEY)
            return
        yield self._changed(record, record.value, self.value_of(record.key, stores), record.timestamp, stores)


def stream_time(name: str, port: int) -> str:
    """The name of an input's stream time.  In Kafka Streams each input of a cogroup has a processor, and so a time, of its own."""
    return f"{name}-{port}" if port else name


class StreamAggregate(TableNode):
    """count, aggregate, reduce and cogroup of grouped streams.  Each port has an aggregator of its own."""

    def __init__(self, name: str, initializer: Initializer, aggregators: Sequence[Aggregator]) -> None:
        super().__init__(name)
        self.initializer = initializer
        self.aggregators = aggregators

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        if record.key is None or record.value is None:
            yield Dropped(record, NULL_KEY_OR_VALUE)
            return
        row = self.lookup(record.key, stores)
        timestamp = record.timestamp if row is None else max(record.timestamp, row[1])
        new = self.aggregators[port](record.key, record.value, self.initializer() if row is None else row[0])
        # An aggregator may change the value that it gets, so the old value is read anew.
        old = self.initializer() if row is None else self.value_of(record.key, stores)
        yield self._changed(record, new, old, timestamp, stores)


class TableAggregate(TableNode):
    """count, aggregate and reduce of a grouped table: the old row is taken out of the aggregate, the new one put in."""

    def __init__(self, name: str, initializer: Initializer, adder: Aggregator, subtractor: Aggregator, *, is_reduce: bool = False) -> None:
        super().__init__(name)
        self.initializer = initializer
        self.adder = adder
        self.subtractor = subtractor
        self.is_reduce = is_reduce

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        change: Change = record.value
        row = self.lookup(record.key, stores)
        timestamp = record.timestamp
        between = None if row is None else row[0]
        if change.old is not None and row is not None:
            between = self.subtractor(record.key, change.old, row[0])
            timestamp = max(record.timestamp, row[1])
        new = between
        if change.new is not None:
            # A reduction begins with the row itself, and then the row's time is the record's.
            begins = self.is_reduce and between is None
            new = change.new if begins else self.adder(record.key, change.new, self.initializer() if between is None else between)
            if row is not None and not begins:
                timestamp = max(record.timestamp, row[1])
        yield self._changed(record, new, self.value_of(record.key, stores), timestamp, stores)


class RegroupTable(Node):
    """A table's rows under another key: a row that leaves its group is taken out there, a row that comes is put in."""

    def __init__(self, name: str, selector: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        super().__init__(name)
        self.selector = selector

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        change: Change = record.value
        if not change.is_latest:
            yield Dropped(record._replace(value=change.new), OUT_OF_ORDER)
            return
        old, new = (self._pair(record.key, value) for value in (change.old, change.new))
        if old is not None and new is not None and old[0] == new[0]:
            yield record._replace(key=new[0], value=Change(new[1], old[1]))
            return
        if old is not None:
            yield record._replace(key=old[0], value=Change(None, old[1]))
        if new is not None:
            yield record._replace(key=new[0], value=Change(new[1], None))

    def _pair(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        if value is None:
            return None
        selected = self.selector(key, value)
        return None if selected[0] is None or selected[1] is None else selected
