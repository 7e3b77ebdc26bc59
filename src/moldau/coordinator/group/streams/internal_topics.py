"""◇ Computes from a topology and the existing topics the number of tasks of each subtopology, and the missing internal topics.

    sources exist? ─▶ repartition topics: as many partitions as what is written to them ─▶ co-partitioned topics: all alike
                   ─▶ changelogs: one partition a task ─▶ existing topics must fit, missing ones are to be created

Source: InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics; KIP-1071.  Called by `group.StreamsGroup`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from moldau.coordinator.group.environment import Topics
from moldau.coordinator.group.membership import Refused
from moldau.coordinator.group.streams import records as stored
from moldau.coordinator.group.streams.topology import Topology, topics_read_by
from moldau.errors import ErrorCode

SHOWN_AT_MOST: Final = 3
"""The most topics that a status names; it gives the number of the others."""


class Status(IntEnum):
    """The statuses, numbered as in the heartbeat's answer."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Problem(NamedTuple):
    """The reason why no tasks can be assigned yet."""

    status: Status
    detail: str


class InternalTopic(NamedTuple):
    name: str
    partition_count: int
    replication_factor: int
    """The replication factor; 0 for the broker's default."""
    configs: tuple[tuple[str, str], ...]


@dataclass(slots=True, frozen=True)
class ConfiguredSubtopology:
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    changelog_topics: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelog_topics)


@dataclass(slots=True, frozen=True)
class ConfiguredTopology:
    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    missing: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class InvalidTopology(Refused):
    """The topology can run with no set of topics."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


class _Misfit(Exception):
    """The existing topics do not fit."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


def configure(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """Configure a topology.  Errors: InvalidTopology."""
    try:
        return _Configuration(topology, topics).configured()
    except _Misfit as misfit:
        return ConfiguredTopology(topology.epoch, problem=misfit.problem)


class _Configuration:
    def __init__(self, topology: Topology, topics: Topics) -> None:
        self._topology = topology
        self._subtopologies = list(topology.subtopologies.values())
        self._topics = topics
        self._decided: dict[str, int] = {}
        """The decided partition counts of internal topics."""

    def configured(self) -> ConfiguredTopology:
        self._check_sources()
        self._count_repartition_topics()
        self._copartition()
        for subtopology in self._subtopologies:
            count = self._task_count(subtopology)
            self._decided.update((changelog.name, count) for changelog in subtopology.state_changelog_topics)
        subtopologies = {each.subtopology_id: self._configured(each) for each in self._subtopologies}
        missing = self._missing(subtopologies.values())
        problem = None
        if missing:
            problem = Problem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary([topic.name for topic in missing])}")
        return ConfiguredTopology(self._topology.epoch, subtopologies, missing, problem)

    def _existing(self, topic: str) -> int | None:
        known = self._topics.by_name(topic)
        return known.partition_count if known is not None else None

    def _count(self, topic: str) -> int:
        """The partition count of a topic: its own if it exists, otherwise the decided one."""
        count = self._existing(topic) or self._decided.get(topic)
        if count is None:
            raise InvalidTopology(f"Number of partitions is not set for topic: {topic}")
        return count

    def _check_sources(self) -> None:
        missing = {topic for each in self._subtopologies for topic in each.source_topics if self._existing(topic) is None}
        if missing:
            raise _Misfit(Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(sorted(missing))} are missing.")

    # -- repartition topics ---------------------------------------------------------------------------------------------------

    def _count_repartition_topics(self) -> None:
        for topic in self._repartition_sources():
            if topic.partitions != 0:
                if topic.partitions < 0:
                    raise InvalidTopology(f"Number of partitions of {topic.name} must be at least 1, not {topic.partitions}.")
                self._decided[topic.name] = topic.partitions
        # First the topics all of whose inputs are counted; the others read their own output, and use what is known of the rest.
        while self._count_sinks(is_partial=False) or self._count_sinks(is_partial=True):
            pass
        if any(sink not in self._decided for each in self._subtopologies for sink in each.repartition_sink_topics):
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be "
                "resolved."
            )
        if any(topic.name not in self._decided for topic in self._repartition_sources()):
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as "
                "a sink topic."
            )

    def _repartition_sources(self) -> Iterator[stored.StreamsGroupTopologyValueTopicInfo]:
        for subtopology in self._subtopologies:
            yield from subtopology.repartition_source_topics

    def _count_sinks(self, *, is_partial: bool) -> bool:
        """Count what can be counted.  Returns whether any could."""
        has_progress = False
        for subtopology in self._subtopologies:
            open_sinks = [sink for sink in subtopology.repartition_sink_topics if sink not in self._decided]
            counts = [self._decided.get(topic.name) for topic in subtopology.repartition_source_topics]
            counts += [self._existing(topic) for topic in subtopology.source_topics]
            known = [count for count in counts if count is not None]
            if open_sinks and known and (is_partial or len(known) == len(counts)):
                self._decided.update(dict.fromkeys(open_sinks, max(known)))
                has_progress = True
        return has_progress

    # -- co-partitioned topics ------------------------------------------------------------------------------------------------

    def _copartition(self) -> None:
        fixed = {topic.name for topic in self._repartition_sources() if topic.partitions != 0}
        flexible = {topic.name for topic in self._repartition_sources()} - fixed
        for subtopology in self._subtopologies:
            for group in subtopology.copartition_groups:
                counts = {topic: self._count(topic) for topic in _group_topics(subtopology, group)}
                if counts:
                    self._copartition_group(counts, fixed & counts.keys(), flexible & counts.keys())

    def _copartition_group(self, counts: Mapping[str, int], fixed: set[str], flexible: set[str]) -> None:
        """Make the counts equal: outer topics decide; without them repartition topics of a given size; without those the largest."""
        outer = counts.keys() - fixed - flexible
        deciding = outer or fixed
        if len({counts[topic] for topic in deciding}) > 1:
            listed = ", ".join(f"{topic}={counts[topic]}" for topic in sorted(deciding))
            raise _Misfit(
                Status.INCORRECTLY_PARTITIONED_TOPICS, f"Following topics do not have the same number of partitions: [{{{listed}}}]"
            )
        count = max(counts[topic] for topic in deciding or flexible)
        for topic in sorted(fixed):
            if counts[topic] != count:
                raise _Misfit(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{counts[topic]}] of repartition topic [{topic}] doesn't match number of partitions [{count}] "
                    "of the source topic.",
                )
        self._decided.update(dict.fromkeys(fixed | flexible, count))

    # -- the result ----------------------------------------------------------------------------------------------------------------

    def _task_count(self, subtopology: stored.Subtopology) -> int:
        counts = [self._count(topic) for topic in topics_read_by(subtopology)]
        if not counts:
            raise InvalidTopology(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(counts)

    def _configured(self, subtopology: stored.Subtopology) -> ConfiguredSubtopology:
        return ConfiguredSubtopology(
            task_count=self._task_count(subtopology),
            source_topics=tuple(sorted(subtopology.source_topics)),
            repartition_sink_topics=tuple(sorted(subtopology.repartition_sink_topics)),
            repartition_source_topics=self._internal(subtopology.repartition_source_topics),
            changelog_topics=self._internal(subtopology.state_changelog_topics),
        )

    def _internal(self, topics: Iterable[stored.StreamsGroupTopologyValueTopicInfo]) -> tuple[InternalTopic, ...]:
        return tuple(
            InternalTopic(
                topic.name,
                topic.partitions or self._decided[topic.name],
                topic.replication_factor,
                tuple(sorted((config.key, config.value) for config in topic.topic_configs)),
            )
            for topic in sorted(topics, key=lambda one: one.name)
        )

    def _missing(self, subtopologies: Iterable[ConfiguredSubtopology]) -> tuple[InternalTopic, ...]:
        wanted = {topic.name: topic for each in subtopologies for topic in (*each.repartition_source_topics, *each.changelog_topics)}
        for name, topic in sorted(wanted.items()):
            found = self._existing(name)
            if found is not None and found != topic.partition_count:
                raise _Misfit(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {name} has different number of partitions: expected {topic.partition_count}, found {found}",
                )
        return tuple(topic for name, topic in sorted(wanted.items()) if self._existing(name) is None)


def _group_topics(subtopology: stored.Subtopology, group: stored.CopartitionGroup) -> set[str]:
    """The group names them by their place in the subtopology's lists."""
    sources = _picked(subtopology.source_topics, group.source_topics, subtopology)
    repartitioned = _picked([each.name for each in subtopology.repartition_source_topics], group.repartition_source_topics, subtopology)
    return {*sources, *repartitioned}


def _picked(names: Sequence[str], places: Iterable[int], subtopology: stored.Subtopology) -> list[str]:
    if any(not 0 <= place < len(names) for place in places):
        raise InvalidTopology(f"A copartition group of subtopology {subtopology.subtopology_id} names topics that are not there.")
    return [names[place] for place in places]


def _summary(topics: Sequence[str]) -> str:
    rest = len(topics) - SHOWN_AT_MOST
    return ", ".join(topics[:SHOWN_AT_MOST]) + (f" and {rest} additional topics" if rest > 0 else "")
