"""◇ The topology that the members of a streams group run, as its first member brought it.

It is kept as it came, in the form of its record; `internal_topics` computes partitions and internal topics anew for the existing topics.
Source: StreamsTopology, StreamsCoordinatorRecordHelpers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from moldau.coordinator.group.streams import records as stored
from moldau.protocol.messages import streams_group_heartbeat as messages


@dataclass(slots=True, frozen=True)
class Topology:
    epoch: int
    subtopologies: Mapping[str, stored.Subtopology]
    """The subtopologies by id, in order of id."""
    readers: Mapping[str, str] = field(init=False, compare=False)
    """For each topic the subtopology that reads it, also for its own repartition topics."""

    def __post_init__(self) -> None:
        readers = {topic: each.subtopology_id for each in self.subtopologies.values() for topic in topics_read_by(each)}
        object.__setattr__(self, "readers", readers)

    def required_topics(self) -> set[str]:
        """The topics that have to exist before tasks can be assigned."""
        changelogs = {topic.name for each in self.subtopologies.values() for topic in each.state_changelog_topics}
        return changelogs | self.readers.keys()

    def record(self) -> stored.StreamsGroupTopologyValue:
        return stored.StreamsGroupTopologyValue(epoch=self.epoch, subtopologies=list(self.subtopologies.values()))


def topics_read_by(subtopology: stored.Subtopology) -> Iterator[str]:
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def of_record(value: stored.StreamsGroupTopologyValue) -> Topology:
    return Topology(value.epoch, {each.subtopology_id: each for each in sorted(value.subtopologies, key=lambda one: one.subtopology_id)})


def of_request(topology: messages.Topology) -> Topology:
    return of_record(
        stored.StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=[_subtopology(each) for each in topology.subtopologies])
    )


def _subtopology(asked: messages.Subtopology) -> stored.Subtopology:
    return stored.Subtopology(
        subtopology_id=asked.subtopology_id,
        source_topics=asked.source_topics,
        source_topic_regex=asked.source_topic_regex,
        state_changelog_topics=[_topic(each) for each in asked.state_changelog_topics],
        repartition_sink_topics=asked.repartition_sink_topics,
        repartition_source_topics=[_topic(each) for each in asked.repartition_source_topics],
        copartition_groups=[
            stored.CopartitionGroup(
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                repartition_source_topics=each.repartition_source_topics,
            )
            for each in asked.copartition_groups
        ],
    )


def _topic(asked: messages.TopicInfo) -> stored.StreamsGroupTopologyValueTopicInfo:
    return stored.StreamsGroupTopologyValueTopicInfo(
        name=asked.name,
        partitions=asked.partitions,
        replication_factor=asked.replication_factor,
        topic_configs=[stored.TopicConfig(key=each.key, value=each.value) for each in asked.topic_configs],
    )
