"""◇ Topologies as Kafka Streams programs bring them, for tests of streams groups.

topology(subtopology("0", ["lines"], sinks=["words"]), subtopology("1", repartition=["words"], changelogs=["counts"]))
"""

from collections.abc import Mapping, Sequence

from moldau.protocol.messages.streams_group_heartbeat import CopartitionGroup, KeyValue, Subtopology, TaskIds, TopicInfo, Topology

Tasks = Mapping[str, Sequence[int]]
"""Partitions by subtopology."""


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def subtopology(
    subtopology_id: str,
    sources: Sequence[str] = (),
    *,
    sinks: Sequence[str] = (),
    repartition: Sequence[str] | Mapping[str, int] = (),
    changelogs: Sequence[str] = (),
    copartitioned: Sequence[Sequence[str]] = (),
) -> Subtopology:
    """A subtopology.  `repartition` are topics that it reads and the program writes, with their number of partitions if that is given."""
    sizes = dict(repartition) if isinstance(repartition, Mapping) else dict.fromkeys(repartition, 0)
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=[internal(name, configs={"cleanup.policy": "compact"}) for name in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[internal(name, partitions) for name, partitions in sizes.items()],
        copartition_groups=[
            CopartitionGroup(
                source_topics=[index for index, name in enumerate(sources) if name in group],
                source_topic_regex=[],
                repartition_source_topics=[index for index, name in enumerate(sizes) if name in group],
            )
            for group in copartitioned
        ],
    )


def internal(name: str, partitions: int = 0, configs: Mapping[str, str] | None = None) -> TopicInfo:
    spelled = [KeyValue(key=key, value=value) for key, value in (configs or {}).items()]
    return TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=spelled)


def tasks(of: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=subtopology_id, partitions=list(partitions)) for subtopology_id, partitions in of.items()]


def spelled(task_ids: Sequence[TaskIds] | None) -> dict[str, list[int]] | None:
    """Task ids as a mapping: the reverse of `tasks`."""
    return None if task_ids is None else {each.subtopology_id: each.partitions for each in task_ids}
