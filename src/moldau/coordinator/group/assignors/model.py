"""◇ What an assignor is given and what it answers.  Source: ConsumerGroupPartitionAssignor (KIP-848)."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID


class TopicIdPartition(NamedTuple):
    topic_id: UUID
    partition: int


class TopicView(NamedTuple):
    """What a coordinator needs to know of a topic."""

    topic_id: UUID
    name: str
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """Racks of each partition's replicas; empty where racks are not known."""

    def partitions(self) -> Iterable[TopicIdPartition]:
        return (TopicIdPartition(self.topic_id, partition) for partition in range(self.partition_count))


class Subscriber(NamedTuple):
    """A member as an assignor sees it."""

    topic_ids: frozenset[UUID]
    owned: frozenset[TopicIdPartition]
    """Its present target: what it should keep where that is fair."""
    instance_id: str | None = None
    rack_id: str | None = None


Assignment = dict[str, frozenset[TopicIdPartition]]
"""By member id; every member has an entry, every partition of a subscribed topic exactly one owner."""

Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, TopicView]], Assignment]
