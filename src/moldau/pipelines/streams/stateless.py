"""◇ Operators of a stream that keep nothing."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moldau.pipelines.streams.records import NULL_KEY, Dropped, Record
from moldau.pipelines.streams.state import Stores
from moldau.pipelines.streams.topology import Node

Pairs = Callable[[Any, Any], Iterable[tuple[Any, Any]]]


class FlatMap(Node):
    """Any number of pairs (key, value) for each record; timestamp and headers stay.  filter, map, flatMap and mapValues are cases of it."""

    is_stateful = False

    def __init__(self, name: str, mapper: Pairs) -> None:
        super().__init__(name)
        self.mapper = mapper

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        for key, value in self.mapper(record.key, record.value):
            yield record._replace(key=key, value=value)


class NeedsKey(Node):
    """The processor before a repartition: a record without a key belongs to no group."""

    is_stateful = False

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        yield record if record.key is not None else Dropped(record, NULL_KEY)
