"""◇ The words of Kafka Streams' DSL: streams and tables of topics, put together into a `Topology`.

    builder = StreamsBuilder()
    orders = builder.stream("orders", key=STRING, value=JSON)
    orders.group_by(lambda key, order: order["customer"]).count().to_stream().to("orders-by-customer", value=LONG)
    topology = builder.build()

Functions that an application hands over must give the same answer for the same arguments: a micro-batch may be computed twice.
"""

from collections.abc import Callable
from typing import Any

from moldau.pipelines.streams.aggregate import RegroupTable, TableSource
from moldau.pipelines.streams.foreign_key import Answers, Subscribe, Subscriptions
from moldau.pipelines.streams.grouped import GroupedStream, GroupedTable
from moldau.pipelines.streams.internal_topology import InternalTopologyBuilder, TopologyError
from moldau.pipelines.streams.records import Joiner
from moldau.pipelines.streams.serdes import JSON, STRING, Serde
from moldau.pipelines.streams.stateless import FlatMap, NeedsKey
from moldau.pipelines.streams.stream_join import LEFT, RIGHT, StreamStreamJoin, StreamTableJoin
from moldau.pipelines.streams.suppress import Suppress
from moldau.pipelines.streams.table_join import FilterTable, Join, MapTable, TableTableJoin, ToStream
from moldau.pipelines.streams.topology import Node, PassOn, Topic, Topology
from moldau.pipelines.streams.versioned import VersionedTableSource
from moldau.pipelines.streams.windows import JoinWindows

Mapper = Callable[[Any, Any], Any]
Predicate = Callable[[Any, Any], bool]


class StreamsBuilder:
    """Begin here.  `dropped_to`: a topic for records that no operator takes (late, without a key, unreadable), with the reason in a header;
    without it they are counted and forgotten, as in Kafka Streams, and an unreadable record ends the query.
    """

    def __init__(self, *, dropped_to: str | None = None) -> None:
        self._topology = InternalTopologyBuilder(dropped_to)

    def stream(self, topic: str, *, key: Serde = STRING, value: Serde = JSON) -> "KStream":
        """A topic as a stream of records."""
        return KStream(self._topology, self._topology.source(topic, key, value), key)

    def table(self, topic: str, *, key: Serde = STRING, value: Serde = JSON, history_ms: int | None = None) -> "KTable":
        """A compacted topic as a table: the newest record of a key is its row, a null value removes it.

        With `history_ms` the table is versioned: a stream finds a row as it was at the time of its own record, that far back.
        """
        return self.stream(topic, key=key, value=value).to_table(history_ms=history_ms)

    def global_table(self, topic: str, *, key: Serde = STRING, value: Serde = JSON) -> "GlobalKTable":
        """A compacted topic as a table that every partition has whole, so that a stream joins it by any key."""
        source = self._topology.source(topic, key, value)
        return GlobalKTable(topic, source)

    def build(self) -> Topology:
        """The built topology.  Errors: TopologyError."""
        return self._topology.build()


class KStream:
    """A stream of records.  Each method gives a new stream; this one can be used again."""

    def __init__(self, builder: InternalTopologyBuilder, node: Node, key: Serde, *, is_rekeyed: bool = False) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._is_rekeyed = is_rekeyed

    def filter(self, predicate: Predicate) -> "KStream":
        return self._flat_map("KSTREAM-FILTER", lambda key, value: [(key, value)] if predicate(key, value) else [])

    def filter_not(self, predicate: Predicate) -> "KStream":
        return self.filter(lambda key, value: not predicate(key, value))

    def map(self, mapper: Callable[[Any, Any], tuple[Any, Any]], *, key: Serde = STRING) -> "KStream":
        """`mapper` gives a pair (key, value); `key` writes the new keys."""
        return self._flat_map("KSTREAM-MAP", lambda key, value: [mapper(key, value)], rekeyed=key)

    def map_values(self, mapper: Mapper) -> "KStream":
        return self._flat_map("KSTREAM-MAPVALUES", lambda key, value: [(key, mapper(key, value))])

    def select_key(self, selector: Mapper, *, key: Serde = STRING) -> "KStream":
        return self._flat_map("KSTREAM-KEY-SELECT", lambda key, value: [(selector(key, value), value)], rekeyed=key)

    def flat_map(self, mapper: Callable[[Any, Any], Any], *, key: Serde = STRING) -> "KStream":
        """`mapper` gives any number of pairs (key, value)."""
        return self._flat_map("KSTREAM-FLATMAP", mapper, rekeyed=key)

    def flat_map_values(self, mapper: Mapper) -> "KStream":
        return self._flat_map("KSTREAM-FLATMAPVALUES", lambda key, value: [(key, one) for one in mapper(key, value)])

    def branch(self, *predicates: Predicate) -> list["KStream"]:
        """A record goes to the stream of the first predicate that fits; the last stream takes records that fit none."""

        def chosen(number: int) -> Predicate:
            fits = predicates[number] if number < len(predicates) else lambda key, value: True
            return lambda key, value: fits(key, value) and not any(one(key, value) for one in predicates[:number])

        return [self.filter(chosen(number)) for number in range(len(predicates) + 1)]

    def merge(self, other: "KStream") -> "KStream":
        one, another = self._builder.together(self._node, other._node)
        node = PassOn(self._builder.named("KSTREAM-MERGE"))
        self._builder.after(one, node)
        self._builder.after(another, node)
        return KStream(self._builder, node, self._key, is_rekeyed=self._is_rekeyed or other._is_rekeyed)

    def repartition(self) -> "KStream":
        """Each record goes to the partition of its key.  Records without a key are dropped: they belong to none."""
        keyed = self._builder.after(self._node, NeedsKey(self._builder.named("KSTREAM-FILTER")))
        return KStream(self._builder, self._builder.repartitioned(keyed, self._key), self._key)

    def group_by_key(self) -> GroupedStream["KTable"]:
        grouped = self.partitioned()
        return GroupedStream(self._builder, grouped._node, grouped._key, KTable)

    def group_by(self, selector: Mapper, *, key: Serde = STRING) -> GroupedStream["KTable"]:
        return self.select_key(selector, key=key).group_by_key()

    def peek(self, action: Callable[[Any, Any], object]) -> "KStream":
        """Call `action(key, value)` for each record, perhaps more than once, and pass the record on."""

        def seen(key: Any, value: Any) -> list[tuple[Any, Any]]:
            action(key, value)
            return [(key, value)]

        return self._flat_map("KSTREAM-PEEK", seen)

    def to_table(self, *, history_ms: int | None = None) -> "KTable":
        """The newest record of a key is its row.  With `history_ms` the table is versioned, see `StreamsBuilder.table`."""
        if history_ms is not None and history_ms < 0:
            raise TopologyError(f"history_ms is {history_ms}: give 0 ms or more")
        keyed = self.partitioned()
        name = self._builder.named("KTABLE-SOURCE")
        table = TableSource(name) if history_ms is None else VersionedTableSource(name, history_ms)
        return KTable(self._builder, self._builder.after(keyed._node, table), keyed._key)

    def join(
        self, other: "KStream | KTable", joiner: Joiner, windows: JoinWindows | None = None, *, grace_ms: int | None = None
    ) -> "KStream":
        """Join with a stream within `windows`, or with a table.

        With `grace_ms` a record waits for late rows of a versioned table; see `StreamsBuilder.table`.  Errors: TopologyError.
        """
        return self._joined(other, joiner, windows, frozenset(), is_left=False, grace_ms=grace_ms)

    def left_join(
        self, other: "KStream | KTable", joiner: Joiner, windows: JoinWindows | None = None, *, grace_ms: int | None = None
    ) -> "KStream":
        """Join as `join` does; a record without a partner comes out with None for it."""
        return self._joined(other, joiner, windows, frozenset({LEFT}), is_left=True, grace_ms=grace_ms)

    def outer_join(self, other: "KStream", joiner: Joiner, windows: JoinWindows) -> "KStream":
        return self._joined(other, joiner, windows, frozenset({LEFT, RIGHT}), is_left=True)

    def join_global(self, table: "GlobalKTable", mapper: Mapper, joiner: Joiner, *, is_left: bool = False) -> "KStream":
        """`mapper(key, value)` gives the key of the table's row; with `is_left` records without a row stay, with None for it."""
        level = self._builder.level_of(self._node)
        lookup = table.in_stage(self._builder, level)
        join = StreamTableJoin(self._builder.named("KSTREAM-LEFTJOIN"), lookup, joiner, is_left=is_left, mapper=mapper)
        return KStream(self._builder, self._builder.after(self._node, join), self._key, is_rekeyed=self._is_rekeyed)

    def to(self, topic: str, *, key: Serde | None = None, value: Serde = JSON) -> None:
        """Write the records to a topic."""
        self._builder.written(self._node, Topic(topic, key or self._key, value))

    def partitioned(self) -> "KStream":
        """This stream, by the partition of its key: through a repartition if the key may have changed."""
        return self.repartition() if self._is_rekeyed else self

    def _flat_map(self, kind: str, mapper: Callable[[Any, Any], Any], *, rekeyed: Serde | None = None) -> "KStream":
        node = self._builder.after(self._node, FlatMap(self._builder.named(kind), mapper))
        return KStream(self._builder, node, rekeyed or self._key, is_rekeyed=rekeyed is not None or self._is_rekeyed)

    def _joined(
        self,
        other: "KStream | KTable",
        joiner: Joiner,
        windows: JoinWindows | None,
        outer: frozenset[int],
        *,
        is_left: bool,
        grace_ms: int | None = None,
    ) -> "KStream":
        if grace_ms is not None:
            _check_grace(other, grace_ms)
        left, right = self.partitioned(), other.partitioned()
        one, another = self._builder.together(left._node, right._node)
        node: Node
        if isinstance(right, KTable):
            node = StreamTableJoin(self._builder.named("KSTREAM-JOIN"), another, joiner, is_left=is_left, grace_ms=grace_ms)
            return KStream(self._builder, self._builder.after(one, node), left._key)
        if windows is None:
            raise TopologyError("two streams are joined within a window of time: give JoinWindows.of(difference_ms, grace_ms)")
        node = StreamStreamJoin(self._builder.named("KSTREAM-JOIN"), windows, joiner, outer_sides=outer)
        self._builder.after(one, node, LEFT)
        self._builder.after(another, node, RIGHT)
        return KStream(self._builder, node, left._key)


def _check_grace(other: "KStream | KTable", grace_ms: int) -> None:
    """Errors: TopologyError for a grace that the joined table cannot serve."""
    history_ms = other.node.history_ms if isinstance(other, KTable) else None
    if history_ms is None:
        raise TopologyError("grace_ms is for a join with a versioned table: give that history_ms; JoinWindows have a grace of their own")
    if not 0 <= grace_ms <= history_ms:
        raise TopologyError(f"grace_ms is {grace_ms}: give 0 to the table's history_ms ({history_ms})")


class KTable:
    """A table: rows by key.  Each change of a row flows on."""

    def __init__(self, builder: InternalTopologyBuilder, node: Node, key: Serde, closes_ms: int | None = None) -> None:
        """`closes_ms`: how long after its end a window of this table still takes records."""
        self._builder = builder
        self._node = node
        self._key = key
        self._closes_ms = closes_ms

    @property
    def node(self) -> Node:
        """The node, for `Driver.table`."""
        return self._node

    def partitioned(self) -> "KTable":
        return self

    def filter(self, predicate: Predicate) -> "KTable":
        return self._next(FilterTable(self._builder.named("KTABLE-FILTER"), self._node, predicate))

    def filter_not(self, predicate: Predicate) -> "KTable":
        return self.filter(lambda key, value: not predicate(key, value))

    def map_values(self, mapper: Mapper) -> "KTable":
        return self._next(MapTable(self._builder.named("KTABLE-MAPVALUES"), self._node, mapper))

    def to_stream(self) -> KStream:
        node = self._builder.after(self._node, ToStream(self._builder.named("KTABLE-TOSTREAM")))
        return KStream(self._builder, node, self._key)

    def suppress_until_window_closes(self, *, most_rows: int | None = None, most_bytes: int | None = None) -> "KTable":
        """One result for each window, when the window is closed for good.

        More than `most_rows` or `most_bytes` that wait in a partition end the query with BufferFull.  Errors: TopologyError.
        """
        if self._closes_ms is None:
            raise TopologyError("this table has no windows that close, or is told once a window already: give windowed_by, and no strategy")
        limits: dict[str, Any] = {"most_rows": most_rows, "most_bytes": most_bytes, "stops_when_full": True}
        return self._next(Suppress(self._builder.named("KTABLE-SUPPRESS"), self._closes_ms, is_final=True, **limits))

    def suppress_until_time_limit(
        self, wait_ms: int, *, most_rows: int | None = None, most_bytes: int | None = None, stops_when_full: bool = False
    ) -> "KTable":
        """At most one update a row in `wait_ms` of stream time.

        When more than `most_rows` or `most_bytes` wait in a partition, the oldest is emitted early; with `stops_when_full` BufferFull ends
        the query instead.  Errors: TopologyError.
        """
        if self.node.history_ms is not None:
            raise TopologyError("a versioned table has no suppress: make the table without history_ms")
        limits: dict[str, Any] = {"most_rows": most_rows, "most_bytes": most_bytes, "stops_when_full": stops_when_full}
        return self._next(Suppress(self._builder.named("KTABLE-SUPPRESS"), wait_ms, **limits))

    def join(self, other: "KTable", joiner: Joiner) -> "KTable":
        return self._joined(other, joiner, Join.INNER)

    def left_join(self, other: "KTable", joiner: Joiner) -> "KTable":
        return self._joined(other, joiner, Join.LEFT)

    def outer_join(self, other: "KTable", joiner: Joiner) -> "KTable":
        return self._joined(other, joiner, Join.OUTER)

    def join_on(self, other: "KTable", extractor: Mapper, joiner: Joiner, *, is_left: bool = False) -> "KTable":
        """Join by a foreign key: `extractor(key, value)` gives the key of the other table's row."""
        builder = self._builder
        subscribe = builder.after(self._node, Subscribe(builder.named("KTABLE-FK-JOIN-SUBSCRIBE"), extractor, is_left=is_left))
        # The copy comes first, because an answer is compared with it.
        top = max(builder._levels[self._node], builder._levels[other._node]) + 2
        copies = builder.repartitioned(self._node, self._key, at_least=top, first=True)
        asked = builder.repartitioned(subscribe, other._key, at_least=max(1, builder._levels[other._node]))
        right, asked = builder.together(other._node, asked)
        subscriptions = Subscriptions(builder.named("KTABLE-FK-JOIN-SUBSCRIPTIONS"), right)
        builder.after(asked, subscriptions, 0)
        builder.after(right, subscriptions, 1)
        answered = builder.repartitioned(subscriptions, self._key, at_least=top)
        answers = Answers(builder.named("KTABLE-FK-JOIN-ANSWERS"), extractor, joiner, is_left=is_left)
        builder.after(copies, answers, 0)
        builder.after(answered, answers, 1)
        return KTable(builder, builder.after(answers, TableSource(builder.named("KTABLE-FK-JOIN-OUTPUT"))), self._key)

    def group_by(self, selector: Callable[[Any, Any], tuple[Any, Any]], *, key: Serde = STRING) -> GroupedTable["KTable"]:
        """`selector(key, value)` gives the row's key and value in its group."""
        regrouped = self._builder.after(self._node, RegroupTable(self._builder.named("KTABLE-SELECT"), selector))
        return GroupedTable(self._builder, self._builder.repartitioned(regrouped, key), key, KTable)

    def _next(self, node: Node) -> "KTable":
        return KTable(self._builder, self._builder.after(self._node, node), self._key, self._closes_ms)

    def _joined(self, other: "KTable", joiner: Joiner, kind: Join) -> "KTable":
        one, another = self._builder.together(self._node, other._node)
        node = TableTableJoin(self._builder.named("KTABLE-JOIN"), one, another, joiner, kind)
        self._builder.after(one, node, 0)
        self._builder.after(another, node, 1)
        return KTable(self._builder, node, self._key)


class GlobalKTable:
    """A table that every partition of the stage has whole; see `KStream.join_global`."""

    def __init__(self, topic: str, source: Node) -> None:
        self.topic = topic
        self._source = source
        self._table: Node | None = None

    def in_stage(self, builder: InternalTopologyBuilder, level: int) -> Node:
        """The node to look into.  Errors: TopologyError."""
        if self._table is not None:
            if builder.level_of(self._table) != level:
                raise TopologyError(f"global table {self.topic} is joined in two stages: make one for each")
            return self._table
        self._table = builder.after(self._source, TableSource(builder.named("KTABLE-SOURCE")))
        builder.spread(self._source, level)
        return self._table
