"""◇ A cluster's latest metadata: brokers, topics, leaders.  Immutable; made from Metadata responses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from moldau.types import NO_LEADER, TopicPartition


@dataclass(frozen=True, slots=True)
class Node:
    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The latest metadata.  `topics` may hold topics with an error: check `error_of` first."""

    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, MetadataResponseTopic] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = NO_LEADER

    def updated(self, response: MetadataResponse, *, all_topics: bool = False) -> "ClusterView":
        """The view with `response` applied.  With `all_topics`, topics that the response does not name are gone."""
        topics = {} if all_topics else dict(self.topics)
        topics.update({topic.name: topic for topic in response.topics if topic.name is not None})
        return replace(
            self,
            nodes={one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in response.brokers},
            topics=topics,
            names={topic.topic_id: name for name, topic in topics.items() if topic.topic_id.int},
            leaders=dict(_leaders(topics.values())),
            leader_epochs={
                TopicPartition(name, one.partition_index): one.leader_epoch for name, topic in topics.items() for one in topic.partitions
            },
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
        )

    def without_topics(self) -> "ClusterView":
        """The view with brokers only: leaders have to be looked up anew."""
        return replace(self, topics={}, names={}, leaders={})

    def error_of(self, topic: str) -> ErrorCode | None:
        """The reason why the topic cannot be used, NONE if it can, None if the topic was not asked for yet."""
        known = self.topics.get(topic)
        return None if known is None else ErrorCode.of(known.error_code)

    def partitions_of(self, topic: str) -> list[int]:
        known = self.topics.get(topic)
        return sorted(one.partition_index for one in known.partitions) if known else []

    def leader_of(self, topic_partition: TopicPartition) -> Node | None:
        return self.nodes.get(self.leaders.get(topic_partition, NO_LEADER))

    def leader_epoch_of(self, topic_partition: TopicPartition) -> int:
        """The leader epoch of a partition.  -1: it is not known."""
        return self.leader_epochs.get(topic_partition, -1)

    def topic_id_of(self, topic: str) -> UUID:
        return self.topics[topic].topic_id


EMPTY: Final = ClusterView()


def _leaders(topics: Iterable[MetadataResponseTopic]) -> Iterable[tuple[TopicPartition, int]]:
    for topic in topics:
        for one in topic.partitions:
            if topic.name is not None and one.leader_id != NO_LEADER:
                yield TopicPartition(topic.name, one.partition_index), one.leader_id
