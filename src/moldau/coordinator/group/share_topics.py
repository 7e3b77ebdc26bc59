"""◇ Which share partitions of a group have a state at the share coordinator: being begun, begun, being deleted (KIP-932).

A partition is given to members only once its state has begun.  The record says it all at once, so every change makes a new value.

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
"""What Kafka writes for a topic that is gone."""


class TopicPartitions(NamedTuple):
    name: str
    partitions: frozenset[int]


Partitions = Mapping[UUID, frozenset[int]]
"""By topic id."""


@dataclass(slots=True, frozen=True)
class StateTopics:
    """By topic id.  A partition whose offsets are reset is begun and being begun anew at once."""

    initializing: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    initialized: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)

    def begun(self) -> Partitions:
        return {topic_id: topic.partitions for topic_id, topic in self.initialized.items()}

    def all_known(self) -> Partitions:
        """Whatever may have a state."""
        return {topic_id: topic.partitions for topic_id, topic in _joined(self.initialized, self.initializing).items()}

    def beginning(self, more: Mapping[UUID, TopicPartitions]) -> "StateTopics":
        initializing = _joined(self.initializing, more)
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in initializing}
        return replace(self, initializing=initializing, deleting=deleting)

    def began(self, done: Partitions, topics: Topics) -> "StateTopics":
        """The share coordinator has these now."""
        named = {topic_id: TopicPartitions(_name_of(topic_id, topics), partitions) for topic_id, partitions in done.items()}
        return replace(self, initializing=_without(self.initializing, done), initialized=_joined(self.initialized, named))

    def not_begun(self, failed: Partitions) -> "StateTopics":
        """They will be tried again with a later heartbeat."""
        return replace(self, initializing=_without(self.initializing, failed))

    def deletes(self, topic_ids: Iterable[UUID], topics: Topics) -> "StateTopics":
        gone = {topic_id: _name_of(topic_id, topics) for topic_id in topic_ids}
        kept = {topic_id: topic for topic_id, topic in self.initialized.items() if topic_id not in gone}
        return replace(self, initialized=kept, deleting={**self.deleting, **gone})

    def deleted(self, topic_ids: Collection[UUID]) -> "StateTopics":
        return replace(self, deleting={topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids})

    def forgets(self, topic_ids: Collection[UUID]) -> "StateTopics":
        """The topics themselves are gone."""
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
