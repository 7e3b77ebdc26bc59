"""● Describes streams groups (KIP-1071) and tells which member runs which task.  Their offsets are read like those of any group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from moldau.clients.admin.acls import AclOperation, operations_of
from moldau.clients.admin.groups import GroupAdmin, GroupDescription, MemberDescription
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.several import of_each
from moldau.clients.cluster import GIVE_UP_AFTER_S, Cluster
from moldau.clients.coordinators import Coordinators
from moldau.clients.view import Node
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages import streams_group_describe as messages
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.types import TopicPartition

STREAMS: Final = "streams"
NO_TOPOLOGY: Final = -1

TasksBySubtopology = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of one member: partitions by subtopology, for each role."""

    active: TasksBySubtopology
    standby: TasksBySubtopology
    warmup: TasksBySubtopology


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    process_id: str
    client_id: str
    host: str
    epoch: int
    assignment: Tasks
    target: Tasks
    is_classic: bool = False


@dataclass(frozen=True, slots=True)
class Subtopology:
    source_topics: Sequence[str]
    repartition_source_topics: Sequence[str]
    changelog_topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    group_id: str
    state: str
    coordinator: Node
    epoch: int
    target_epoch: int
    topology_epoch: int
    subtopologies: Mapping[str, Subtopology]
    members: Sequence[StreamsMember]
    authorized_operations: frozenset[AclOperation] | None = None
    """Those of the caller.  None: not asked for."""

    def input_topics(self) -> set[str]:
        """The topics that the program reads and other programs write."""
        return {topic for each in self.subtopologies.values() for topic in each.source_topics}

    def internal_topics(self) -> set[str]:
        named = {topic for each in self.subtopologies.values() for topic in (*each.repartition_source_topics, *each.changelog_topics)}
        return named - self.input_topics()

    def read_by(self, member: StreamsMember) -> list[TopicPartition]:
        """The partitions of a member's active tasks."""
        found = []
        for subtopology_id, partitions in member.assignment.active.items():
            subtopology = self.subtopologies[subtopology_id]
            for topic in (*subtopology.source_topics, *subtopology.repartition_source_topics):
                found += [TopicPartition(topic, partition) for partition in partitions]
        return sorted(found)


class StreamsGroupAdmin(Limited):
    """Answers for streams groups.  `within_s`: how many seconds to wait for a coordinator that is not there yet."""

    def __init__(self, cluster: Cluster, *, within_s: float = GIVE_UP_AFTER_S) -> None:
        self.cluster = cluster
        self.groups = GroupAdmin(cluster, within_s=within_s)
        self._coordinators = Coordinators(cluster)
        self._within_s = within_s

    async def list_groups(self, *, states: Iterable[str] = ()) -> list[ListedGroup]:
        """The streams groups of all brokers.  Errors: KafkaError."""
        return await self.groups.list_groups(states=states, types=[STREAMS])

    async def describe(self, group_id: str, *, authorized_operations: bool = False) -> StreamsGroupDescription:
        """Describe one streams group.  Errors: KafkaError, GROUP_ID_NOT_FOUND among them."""
        coordinator = await self._coordinators.node_of(group_id, within_s=self._within_s)
        request = messages.StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=authorized_operations)
        response = await self._coordinators.ask(group_id, request, lambda one: one.groups[0].error_code, within_s=self._within_s)
        group = response.groups[0]
        if group.error_code:
            raise KafkaError(ErrorCode.of(group.error_code), group.error_message)
        topology = group.topology
        return StreamsGroupDescription(
            group_id,
            group.group_state,
            coordinator,
            group.group_epoch,
            group.assignment_epoch,
            topology.epoch if topology is not None else NO_TOPOLOGY,
            {each.subtopology_id: _subtopology(each) for each in (topology.subtopologies if topology is not None else None) or ()},
            [_member(each) for each in group.members],
            operations_of(group.authorized_operations),
        )

    async def describe_each(
        self, group_ids: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, StreamsGroupDescription | KafkaError]:
        return await of_each(group_ids, partial(self.describe, authorized_operations=authorized_operations))

    async def describe_as_readers(self, group_id: str) -> GroupDescription:
        """Describe a streams group like a consumer group: members with the partitions of their active tasks.  Errors: as `describe`."""
        group = await self.describe(group_id)
        members = [
            MemberDescription(each.member_id, None, each.client_id, each.host, group.read_by(each), each.epoch) for each in group.members
        ]
        return GroupDescription(group_id, "Streams", group.state, "", group.coordinator, members, group.epoch, group.target_epoch)


def _subtopology(described: messages.Subtopology) -> Subtopology:
    return Subtopology(
        described.source_topics,
        [topic.name for topic in described.repartition_source_topics],
        [topic.name for topic in described.state_changelog_topics],
    )


def _member(described: messages.Member) -> StreamsMember:
    return StreamsMember(
        described.member_id,
        described.process_id,
        described.client_id,
        described.client_host,
        described.member_epoch,
        _tasks(described.assignment),
        _tasks(described.target_assignment),
        described.is_classic,
    )


def _tasks(described: messages.Assignment) -> Tasks:
    active, standby, warmup = (
        {each.subtopology_id: each.partitions for each in role}
        for role in (described.active_tasks, described.standby_tasks, described.warmup_tasks)
    )
    return Tasks(active, standby, warmup)
