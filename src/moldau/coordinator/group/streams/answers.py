"""◇ The answers of a streams group: tasks and endpoints for members, everything for administrators."""

from collections.abc import Iterable

from moldau.coordinator.group.environment import Topics
from moldau.coordinator.group.streams import records as stored
from moldau.coordinator.group.streams.internal_topics import ConfiguredSubtopology, ConfiguredTopology, InternalTopic, Problem
from moldau.coordinator.group.streams.member import Endpoint, Member
from moldau.coordinator.group.streams.tasks import HeldTasks, TaskId, Tasks, by_subtopology
from moldau.coordinator.group.streams.topology import Topology
from moldau.errors import ErrorCode
from moldau.protocol.messages import streams_group_describe as described
from moldau.protocol.messages import streams_group_heartbeat as messages

# The heartbeat


def refusal(code: ErrorCode, message: str | None) -> messages.StreamsGroupHeartbeatResponse:
    return _response(error_code=code, error_message=message)


def left(member_id: str, member_epoch: int) -> messages.StreamsGroupHeartbeatResponse:
    return _response(member_id=member_id, member_epoch=member_epoch)


def heartbeat(
    member: Member, problems: Iterable[Problem | None], heartbeat_interval_ms: int, given: HeldTasks | None
) -> messages.StreamsGroupHeartbeatResponse:
    """The answer to a member.  `given`: the tasks to tell; None tells none."""
    response = _response(member_id=member.member_id, member_epoch=member.epoch)
    response.heartbeat_interval_ms = heartbeat_interval_ms
    response.status = [
        messages.Status(status_code=problem.status, status_detail=problem.detail) for problem in problems if problem is not None
    ]
    if given is not None:
        response.active_tasks = _task_ids(given.active)
        response.standby_tasks = _task_ids(given.standby)
        response.warmup_tasks = _task_ids(given.warmup)
    return response


def _response(
    *, error_code: int = ErrorCode.NONE, error_message: str | None = None, member_id: str = "", member_epoch: int = 0
) -> messages.StreamsGroupHeartbeatResponse:
    return messages.StreamsGroupHeartbeatResponse(
        error_code=error_code,
        error_message=error_message,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )


def _task_ids(tasks: Iterable[TaskId]) -> list[messages.TaskIds]:
    return [messages.TaskIds(subtopology_id=subtopology_id, partitions=partitions) for subtopology_id, partitions in by_subtopology(tasks)]


# Endpoints for interactive queries


def endpoints(members: Iterable[Member], configured: ConfiguredTopology, topics: Topics) -> list[messages.EndpointToPartitions]:
    """The endpoints, one entry each with the partitions of all threads behind it: Kafka's client keeps only the last entry of one."""
    active: dict[Endpoint, set[TaskId]] = {}
    standby: dict[Endpoint, set[TaskId]] = {}
    for member in members:
        if member.endpoint is not None:
            active.setdefault(member.endpoint, set()).update(member.held.active)
            standby.setdefault(member.endpoint, set()).update(member.held.standby)
    return [
        messages.EndpointToPartitions(
            user_endpoint=messages.Endpoint(host=endpoint.host, port=endpoint.port),
            active_partitions=_partitions(tasks, configured, topics),
            standby_partitions=_partitions(standby[endpoint], configured, topics),
        )
        for endpoint, tasks in active.items()
    ]


def _partitions(tasks: Iterable[TaskId], configured: ConfiguredTopology, topics: Topics) -> list[messages.TopicPartition]:
    """The partitions of tasks.  A topic with fewer partitions than its subtopology has tasks lacks some of them."""
    found = []
    for subtopology_id, partitions in by_subtopology(tasks):
        subtopology = configured.subtopologies.get(subtopology_id)
        for name in _topics_read_by(subtopology) if subtopology is not None else ():
            topic = topics.by_name(name)
            if topic is not None:
                there = [partition for partition in partitions if partition < topic.partition_count]
                found.append(messages.TopicPartition(topic=name, partitions=there))
    return found


def _topics_read_by(subtopology: ConfiguredSubtopology) -> Iterable[str]:
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


# For administrators


def described_topology(topology: Topology | None, configured: ConfiguredTopology | None) -> described.Topology | None:
    """The topology, with the numbers of partitions once they are known; before that as it was brought."""
    if configured is not None and configured.is_ready:
        subtopologies = [_configured(subtopology_id, each) for subtopology_id, each in configured.subtopologies.items()]
        return described.Topology(epoch=configured.epoch, subtopologies=subtopologies)
    if topology is None:
        return None
    return described.Topology(epoch=topology.epoch, subtopologies=[_as_brought(each) for each in topology.subtopologies.values()])


def _configured(subtopology_id: str, subtopology: ConfiguredSubtopology) -> described.Subtopology:
    return described.Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(subtopology.source_topics),
        repartition_sink_topics=list(subtopology.repartition_sink_topics),
        state_changelog_topics=[_internal(topic) for topic in subtopology.changelog_topics],
        repartition_source_topics=[_internal(topic) for topic in subtopology.repartition_source_topics],
    )


def _as_brought(subtopology: stored.Subtopology) -> described.Subtopology:
    return described.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=[_internal(_internal_as_brought(topic)) for topic in _by_name(subtopology.state_changelog_topics)],
        repartition_source_topics=[_internal(_internal_as_brought(topic)) for topic in _by_name(subtopology.repartition_source_topics)],
    )


def _by_name(topics: Iterable[stored.StreamsGroupTopologyValueTopicInfo]) -> list[stored.StreamsGroupTopologyValueTopicInfo]:
    return sorted(topics, key=lambda topic: topic.name)


def _internal_as_brought(topic: stored.StreamsGroupTopologyValueTopicInfo) -> InternalTopic:
    configs = tuple((config.key, config.value) for config in topic.topic_configs)
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def _internal(topic: InternalTopic) -> described.TopicInfo:
    return described.TopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        topic_configs=[described.KeyValue(key=key, value=value) for key, value in topic.configs],
    )


def described_member(member: Member, target: Tasks) -> described.Member:
    endpoint = member.endpoint
    return described.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=described.Endpoint(host=endpoint.host, port=endpoint.port) if endpoint is not None else None,
        client_tags=[described.KeyValue(key=key, value=value) for key, value in member.client_tags],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_described_tasks(member.held),
        target_assignment=_described_tasks(target),
        is_classic=False,
    )


def _described_tasks(tasks: Tasks | HeldTasks) -> described.Assignment:
    spelled = [
        [described.TaskIds(subtopology_id=subtopology_id, partitions=partitions) for subtopology_id, partitions in by_subtopology(role)]
        for role in (tasks.active, tasks.standby, tasks.warmup)
    ]
    return described.Assignment(active_tasks=spelled[0], standby_tasks=spelled[1], warmup_tasks=spelled[2])
