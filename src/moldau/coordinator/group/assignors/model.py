"""◇ The arguments and the result of an assignor.  Source: ConsumerGroupPartitionAssignor (KIP-848)."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID


class TopicIdPartition(NamedTuple):
    topic_id: UUID
    partition: int


class TopicView(NamedTuple):
    """A topic as a coordinator needs to know it."""

    topic_id: UUID
    name: str
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """The racks of each partition's replicas; empty if racks are not known."""

    def partitions(self) -> Iterable[TopicIdPartition]:
        return (TopicIdPartition(self.topic_id, partition) for partition in range(self.partition_count))


class Subscriber(NamedTuple):
    """A member as an assignor sees it."""

    topic_ids: frozenset[UUID]
    owned: frozenset[TopicIdPartition]
    """The member's present target, which it should keep as far as that is fair."""
    instance_id: str | None = None
    rack_id: str | None = None


Assignment = dict[str, frozenset[TopicIdPartition]]
"""Partitions by member id.  Every member has an entry; every partition of a subscribed topic has exactly one owner."""

Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, TopicView]], Assignment]
