"""◇ The share partitions of a group with a state at the share coordinator: being begun, begun, being deleted (KIP-932).  A partition is
assigned only once its state has begun.  One record has all of them, so every change makes a new value.

Source: ShareGroupStatePartitionMetadataInfo and its users in GroupMetadataManager.  Called by `share`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import UUID

from moldau.coordinator.group import records as stored
from moldau.coordinator.group.environment import Topics
from moldau.coordinator.outcome import CoordinatorRecord

NAMELESS: Final = "<UNKNOWN>"
"""The name that Kafka writes for a topic that is gone."""


class TopicPartitions(NamedTuple):
    name: str
    partitions: frozenset[int]


Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""


@dataclass(slots=True, frozen=True)
class StateTopics:
    """States by topic id.  A partition whose offsets are reset is begun and being begun anew at once."""

    initializing: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    initialized: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)

    def begun(self) -> Partitions:
        return {topic_id: topic.partitions for topic_id, topic in self.initialized.items()}

    def all_known(self) -> Partitions:
        """The partitions that may have a state."""
        return {topic_id: topic.partitions for topic_id, topic in _joined(self.initialized, self.initializing).items()}

    def beginning(self, more: Mapping[UUID, TopicPartitions]) -> "StateTopics":
        initializing = _joined(self.initializing, more)
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in initializing}
        return replace(self, initializing=initializing, deleting=deleting)

    def began(self, done: Partitions, topics: Topics) -> "StateTopics":
        """Note that the share coordinator has begun these."""
        named = {topic_id: TopicPartitions(_name_of(topic_id, topics), partitions) for topic_id, partitions in done.items()}
        return replace(self, initializing=_without(self.initializing, done), initialized=_joined(self.initialized, named))

    def not_begun(self, failed: Partitions) -> "StateTopics":
        """Note a failure: a later heartbeat tries them again."""
        return replace(self, initializing=_without(self.initializing, failed))

    def deletes(self, topic_ids: Iterable[UUID], topics: Topics) -> "StateTopics":
        gone = {topic_id: _name_of(topic_id, topics) for topic_id in topic_ids}
        kept = {topic_id: topic for topic_id, topic in self.initialized.items() if topic_id not in gone}
        return replace(self, initialized=kept, deleting={**self.deleting, **gone})

    def deleted(self, topic_ids: Collection[UUID]) -> "StateTopics":
        return replace(self, deleting={topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids})

    def forgets(self, topic_ids: Collection[UUID]) -> "StateTopics":
        """Forget deleted topics."""
        return StateTopics(
            {topic_id: topic for topic_id, topic in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: topic for topic_id, topic in self.initialized.items() if topic_id not in topic_ids},
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids},
        )

    def record(self, group_id: str) -> CoordinatorRecord:
        value = stored.ShareGroupStatePartitionMetadataValue(
            initializing_topics=_stored(self.initializing),
            initialized_topics=_stored(self.initialized),
            deleting_topics=[
                stored.ShareGroupStatePartitionMetadataValueTopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in self.deleting.items()
            ],
        )
        return CoordinatorRecord(stored.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def read_record(value: stored.ShareGroupStatePartitionMetadataValue) -> StateTopics:
    return StateTopics(
        {one.topic_id: TopicPartitions(one.topic_name, frozenset(one.partitions)) for one in value.initializing_topics},
        {one.topic_id: TopicPartitions(one.topic_name, frozenset(one.partitions)) for one in value.initialized_topics},
        {one.topic_id: one.topic_name for one in value.deleting_topics},
    )


def _joined(some: Mapping[UUID, TopicPartitions], more: Mapping[UUID, TopicPartitions]) -> dict[UUID, TopicPartitions]:
    joined = dict(some)
    for topic_id, topic in more.items():
        before = joined.get(topic_id)
        joined[topic_id] = TopicPartitions(topic.name, topic.partitions | before.partitions if before is not None else topic.partitions)
    return joined


def _without(some: Mapping[UUID, TopicPartitions], gone: Partitions) -> dict[UUID, TopicPartitions]:
    left = {topic_id: TopicPartitions(topic.name, topic.partitions - gone.get(topic_id, frozenset())) for topic_id, topic in some.items()}
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}


def _name_of(topic_id: UUID, topics: Topics) -> str:
    topic = topics.by_id(topic_id)
    return topic.name if topic is not None else NAMELESS


def _stored(topics: Mapping[UUID, TopicPartitions]) -> list[stored.TopicPartitionsInfo]:
    return [
        stored.TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]
