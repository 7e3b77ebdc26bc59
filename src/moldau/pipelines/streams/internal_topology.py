"""◇ A topology while it is put together: which node follows which, and in which stage each of them is.

A node comes into the stage of its parents.  A repartition begins a later stage.  A processor that looks at two nodes needs both in one
stage, so the earlier one moves to the later stage, or is copied there.

Source: InternalTopologyBuilder in Kafka 4.3.1.  Called by `builder`, `grouped` and `cogrouped`.
"""

from collections.abc import Sequence

from moldau.pipelines.streams.serdes import BYTES, Serde
from moldau.pipelines.streams.topology import Node, PassOn, Sink, Stage, Topic, Topology


class TopologyError(ValueError):
    """An impossible topology; the message says the way out."""


class InternalTopologyBuilder:
    """See the module.  `dropped_to`: see `StreamsBuilder`."""

    def __init__(self, dropped_to: str | None) -> None:
        self._topology = Topology()
        self._levels: dict[Node, int] = {}
        """The stage of each node: stages are numbered when they are built, and put in order at the end."""
        self._inputs: dict[str, tuple[int, Node]] = {}
        self._first: set[str] = set()
        self._everywhere: set[str] = set()
        self._count = 0
        if dropped_to is not None:
            self._topology.dropped_to = dropped_to
            self._topology.sinks[dropped_to] = Topic(dropped_to, BYTES, BYTES)

    def build(self) -> Topology:
        """The built topology.  Errors: TopologyError."""
        if not self._topology.sinks:
            raise TopologyError("nothing is written: end a stream with .to(topic)")
        levels = sorted({level for level, _ in self._inputs.values()})
        self._topology.stages = [self._stage(level) for level in levels]
        return self._topology

    def _stage(self, level: int) -> Stage:
        inputs = {name: node for name, (own, node) in self._inputs.items() if own == level}
        return Stage(inputs, self._first & inputs.keys(), self._everywhere & inputs.keys())

    def named(self, kind: str) -> str:
        """A name in Kafka's form for processors.  The name is in the state: the order of calls is part of an application."""
        self._count += 1
        return f"{kind}-{self._count:010d}"

    def source(self, topic: str, key: Serde, value: Serde) -> Node:
        node = PassOn(self.named("KSTREAM-SOURCE"))
        self._topology.sources[node.name] = Topic(topic, key, value)
        return self.enter(node, 0)

    def enter(self, node: Node, level: int) -> Node:
        """A node where records come into a stage, under its own name."""
        self._levels[node] = level
        self._inputs[node.name] = (level, node)
        return node

    def level_of(self, node: Node) -> int:
        return self._levels[node]

    def after(self, parent: Node, node: Node, port: int = 0) -> Node:
        self._levels[node] = max(self._levels[parent], self._levels.get(node, 0))
        parent.to(node, port)
        return node

    def repartitioned(self, parent: Node, key: Serde, *, at_least: int = 0, first: bool = False) -> Node:
        """The node where the records of `parent` come in again, in a later stage, by the partition of their key."""
        entry = PassOn(self.named("KSTREAM-REPARTITION"))
        self.after(parent, Sink(self.named("KSTREAM-SINK"), entry.name))
        self._topology.internal[entry.name] = key
        if first:
            self._first.add(entry.name)
        return self.enter(entry, max(self._levels[parent] + 1, at_least))

    def together(self, one: Node, other: Node) -> tuple[Node, Node]:
        """Both nodes in one stage, for a processor that looks at both.  Errors: TopologyError."""
        here, there = self._levels[one], self._levels[other]
        if here < there:
            return self._later(one, there), other
        if there < here:
            return one, self._later(other, here)
        return one, other

    def all_together(self, nodes: Sequence[Node]) -> list[Node]:
        """All nodes in one stage, that of the latest.  Errors: TopologyError."""
        latest = max(nodes, key=lambda node: self._levels[node])
        return [self.together(node, latest)[0] for node in nodes]

    def _later(self, node: Node, level: int) -> Node:
        """The node in a later stage, with all nodes before it.  A node is moved there, or copied if something else needs it where it is."""
        before = self._before(node)
        if any(one.name in self._topology.internal or one.name in self._everywhere for one in before):
            raise TopologyError("one side was repartitioned, or joined with a global table, before the other was: write it with .to(topic)")
        if not any(child not in before for one in before for child, _ in one.children):
            copies = {one: one for one in before}
        else:
            copies = {one: one.copied(self.named(one.name.rsplit("-", 1)[0])) for one in before}
            for one, copy in copies.items():
                copy.follow(copies)
                copy.children = [(copies[child], port) for child, port in one.children if child in copies]
        for one, copy in copies.items():
            if one.name in self._inputs:
                self._topology.sources[copy.name] = self._topology.sources[one.name]
                self.enter(copy, level)
            self._levels[copy] = level
        return copies[node]

    def _before(self, node: Node) -> list[Node]:
        """The node, its parents and the tables that they look into, back to the sources."""
        found, todo = [node], [node]
        while todo:
            one = todo.pop()
            parents = [parent for parent in self._levels for child, _ in parent.children if child is one]
            new = [each for each in (*parents, *one.tables) if each not in found]
            found += new
            todo += new
        return found

    def written(self, parent: Node, topic: Topic) -> None:
        self._topology.sinks[topic.name] = topic
        self.after(parent, Sink(self.named("KSTREAM-SINK"), topic.name))

    def spread(self, source: Node, level: int) -> None:
        """A global table comes into the stage that looks into it, on all partitions, before everything else."""
        self.enter(source, level)
        for child, _ in source.children:
            self._levels[child] = level
        self._first.add(source.name)
        self._everywhere.add(source.name)
