"""◇ Processors put together: a graph, cut into stages where records change their partition, and a driver that runs it without Spark.

A stage is called a sub-topology in Kafka Streams; a task is one partition's share of it.  Records come in the order of their partition.
Each record goes depth first through the graph, and the next record finds the state that it left behind.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from moldau.pipelines.streams.records import REASON_HEADER, Dropped, Record
from moldau.pipelines.streams.serdes import Serde
from moldau.pipelines.streams.state import State, Stores

INVALID_TIMESTAMP: Final = "INVALID_TIMESTAMP"
Row = tuple[Any, int] | None
"""A table's row: its value and its timestamp, or None."""


class Topic(NamedTuple):
    """A topic of the broker, with the serdes of its keys and values."""

    name: str
    key: Serde
    value: Serde


class Node(ABC):
    """One processor.  It keeps everything in the stores that it gets."""

    is_stateful = True
    """Whether it has stores, or looks into another node's stores."""
    tables: tuple["Node", ...] = ()
    """The tables that it reads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[tuple[Node, int]] = []

    @abstractmethod
    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        """Process a record from a port (the number of the input, for a processor with several)."""

    @property
    def history_ms(self) -> int | None:
        """How far back the table that this processor makes knows its rows' older versions; None: not at all."""
        return None

    def lookup(self, key: Any, stores: Stores, at: int | None = None) -> Row:
        """The row of the table that this processor makes; in a versioned table the row as it was at the time `at`, in ms."""
        raise TypeError(f"{self.name} makes no table that can be looked into: materialize it with to_stream().to_table()")

    def to(self, child: "Node", port: int = 0) -> "Node":
        self.children.append((child, port))
        return child

    def copied(self, name: str) -> "Node":
        """The same node under another name, with no nodes behind it."""
        made = copy(self)
        made.name, made.children = name, []
        return made

    def follow(self, copies: Mapping["Node", "Node"]) -> None:
        """Look into the copies of its tables."""
        self.tables = tuple(copies.get(table, table) for table in self.tables)


class PassOn(Node):
    """The entry of a source's records."""

    is_stateful = False

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        yield record


class Sink(Node):
    """The exit of records from a stage: for a topic, or for a later stage, by the partition of their key."""

    is_stateful = False

    def __init__(self, name: str, target: str) -> None:
        super().__init__(name)
        self.target = target

    def process(self, record: Record, port: int, stores: Stores) -> Iterator[Record | Dropped]:
        yield record


@dataclass(slots=True)
class Stage:
    """One sub-topology: its inputs by name, in the order in which equal timestamps are taken."""

    inputs: dict[str, Node] = field(default_factory=dict)
    first: set[str] = field(default_factory=set)
    """Inputs whose records of a micro-batch are taken before all others."""
    everywhere: set[str] = field(default_factory=set)
    """Inputs that every partition gets whole: global tables."""

    def meeting(self) -> list[set[str]]:
        """Inputs whose records meet in one state, so that their partitions must be alike."""
        seen: dict[Node, set[str]] = {}
        for name, entry in self.inputs.items():
            if name not in self.everywhere:
                # A global table is everywhere, so inputs that look into it do not have to be partitioned like it.
                for node in [one for reached in _reached(entry) for one in (reached, *reached.tables)]:
                    if node.is_stateful:
                        seen.setdefault(node, set()).add(name)
        return [names for names in seen.values() if len(names) > 1]


@dataclass(slots=True)
class Topology:
    """The result of a builder."""

    stages: list[Stage] = field(default_factory=list)
    sources: dict[str, Topic] = field(default_factory=dict)
    """The sources by the name of the input."""
    sinks: dict[str, Topic] = field(default_factory=dict)
    """The sinks by their target."""
    internal: dict[str, Serde] = field(default_factory=dict)
    """Inputs that come from an earlier stage, with the serde that their key's partition is computed from."""
    dropped_to: str | None = None
    """The sink's target for records that no processor took."""

    def stage_of(self, name: str) -> Stage:
        """Errors: KeyError."""
        for stage in self.stages:
            if name in stage.inputs:
                return stage
        raise KeyError(f"no stage reads {name!r}: there are {', '.join(name for stage in self.stages for name in stage.inputs)}")


class Out(NamedTuple):
    target: str
    record: Record


@dataclass(slots=True)
class Task:
    """A stage on one partition, with its state."""

    stage: Stage
    state: State
    dropped_to: str | None = None
    drops: Counter[str] = field(default_factory=Counter)
    stores: Stores = field(init=False)

    def __post_init__(self) -> None:
        self.stores = Stores(self.state)

    def process(self, name: str, record: Record) -> Iterator[Out]:
        """Process one record of one input, through all nodes behind the input."""
        if record.timestamp < 0:
            yield from self._dropped(Dropped(record, INVALID_TIMESTAMP))
            return
        yield from self._through(self.stage.inputs[name], 0, record)

    def _through(self, node: Node, port: int, record: Record) -> Iterator[Out]:
        for out in node.process(record, port, self.stores):
            if isinstance(out, Dropped):
                yield from self._dropped(out)
            elif isinstance(node, Sink):
                yield Out(node.target, out)
            else:
                for child, child_port in node.children:
                    yield from self._through(child, child_port, out)

    def _dropped(self, dropped: Dropped) -> Iterator[Out]:
        self.drops[dropped.reason] += 1
        if self.dropped_to is not None:
            record = dropped.record
            yield Out(self.dropped_to, record._replace(headers=(*record.headers, (REASON_HEADER, dropped.reason.encode()))))


class Driver:
    """A topology on one partition, in memory: for tests of an application, without broker and without Spark.

    Each record goes through all stages before the next one begins.  The driver follows Kafka's TopologyTestDriver.
    """

    def __init__(self, topology: Topology, states: Sequence[State] | None = None) -> None:
        self.topology = topology
        self.states = list(states) if states is not None else [State() for _ in topology.stages]
        self._tasks = [Task(stage, state, topology.dropped_to) for stage, state in zip(topology.stages, self.states, strict=True)]

    @property
    def drops(self) -> Mapping[str, int]:
        return sum((task.drops for task in self._tasks), Counter())

    def pipe(self, topic: str, key: Any, value: Any, timestamp: int, headers: Sequence[tuple[str, bytes | None]] = ()) -> list[Out]:
        """The records that the topology writes for one record, by topic.  Key and value are as the source's serdes would read them."""
        names = [name for name, source in self.topology.sources.items() if source.name == topic]
        assert names, f"no source reads topic {topic!r}"
        written: list[Out] = []
        waiting = deque(Out(name, Record(key, value, timestamp, tuple(headers))) for name in names)
        while waiting:
            name, record = waiting.popleft()
            task = next(task for task in self._tasks if name in task.stage.inputs)
            for out in task.process(name, record):
                if out.target in self.topology.sinks:
                    written.append(Out(self.topology.sinks[out.target].name, out.record))
                else:
                    waiting.append(out)
        return written

    def table(self, node: Node, key: Any) -> Any:
        """The value of a table's row, or None."""
        stores = next(task.stores for task in self._tasks if any(node in _reached(one) for one in task.stage.inputs.values()))
        row = node.lookup(key, stores)
        return None if row is None else row[0]


def _reached(start: Node) -> Iterator[Node]:
    """The node, and all nodes behind it."""
    yield start
    for child, _ in start.children:
        yield from _reached(child)
