"""● Lists, describes and deletes groups, and reads and changes their offsets.

A group is described by the API of its protocol.  The consumer protocol's API is asked first, the classic one if the former does not
know the group.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from moldau.clients.admin.acls import AclOperation, operations_of
from moldau.clients.admin.answers import by_topic, error_of, raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.several import of_each
from moldau.clients.cluster import GIVE_UP_AFTER_S, Cluster
from moldau.clients.coordinators import Coordinators
from moldau.clients.view import Node
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment
from moldau.protocol.messages import consumer_group_describe as consumer
from moldau.protocol.messages import describe_groups as classic
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.stored import decode_newer_too
from moldau.protocol.wire import DecodeError
from moldau.types import TopicPartition

CONSUMER: Final = "consumer"
NO_GENERATION: Final = -1
CLASSIC_MEMBER: Final = 0


class GroupOffset(NamedTuple):
    """A committed offset.  `offset` is the next one to read.  `leader_epoch` -1: not known."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: Sequence[TopicPartition]
    epoch: int | None = None
    target: Sequence[TopicPartition] | None = None
    is_upgraded: bool | None = None
    """Whether a member of a group of the consumer protocol speaks that protocol itself.  None: the broker did not say."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """`epoch` and `target_epoch` are None for classic groups.  `authorized_operations`: those of the caller; None: not asked for."""

    group_id: str
    group_type: str
    state: str
    assignor: str
    coordinator: Node
    members: Sequence[MemberDescription]
    epoch: int | None = None
    target_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None


class GroupAdmin(Limited):
    """Answers for groups.  `within_s`: how many seconds to wait for a coordinator that is not there yet."""

    def __init__(self, cluster: Cluster, *, within_s: float = GIVE_UP_AFTER_S) -> None:
        self.cluster = cluster
        self._coordinators = Coordinators(cluster)
        self._within_s = within_s

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), protocol_types: Iterable[str] = ()
    ) -> list[ListedGroup]:
        """The groups of all brokers.  Each filter that is empty lets all groups pass.  Errors: KafkaError.

        `states`: such as "Stable", "Empty".  `types`: "classic", "consumer", "share", "streams".  `protocol_types`: such as "consumer",
        "connect", or "" for offsets that a program committed without being a member.

        Source: ListGroupsOptions.
        """
        view = await self.cluster.refresh([])
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        responses = await asyncio.gather(*(self.cluster.send(request, node_id=node_id) for node_id in sorted(view.nodes)))
        for response in responses:
            raise_for(response.error_code)
        passing = set(protocol_types)
        return [group for response in responses for group in response.groups if not passing or group.protocol_type in passing]

    async def describe(self, group_id: str, *, authorized_operations: bool = False) -> GroupDescription:
        """Describe one group.  Errors: KafkaError, GROUP_ID_NOT_FOUND among them."""
        coordinator = await self._coordinators.node_of(group_id, within_s=self._within_s)
        asked = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=authorized_operations)
        missing: KafkaError | None = None
        try:
            response = await self._coordinators.ask(group_id, asked, lambda one: one.groups[0].error_code, within_s=self._within_s)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
        else:
            group = response.groups[0]
            if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise_for(group.error_code, group.error_message)
                return _of_consumer(group, coordinator)
            missing = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, group.error_message)
        try:
            return await self._describe_classic(group_id, coordinator, authorized_operations)
        except KafkaError as error:
            if missing is not None and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                raise missing from error  # it says which type of group was asked for
            raise

    async def describe_each(
        self, group_ids: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription | KafkaError]:
        return await of_each(group_ids, partial(self.describe, authorized_operations=authorized_operations))

    async def _describe_classic(self, group_id: str, coordinator: Node, authorized_operations: bool) -> GroupDescription:
        request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=authorized_operations)
        response = await self._coordinators.ask(group_id, request, lambda one: one.groups[0].error_code, within_s=self._within_s)
        group = response.groups[0]
        raise_for(group.error_code, group.error_message)
        return _of_classic(group, coordinator)

    async def offsets(self, group_id: str, *, require_stable: bool = False) -> dict[TopicPartition, GroupOffset]:
        """All offsets that the group has committed.

        `require_stable`: not while a transaction that is still open holds offsets of the group (UNSTABLE_OFFSET_COMMIT).

        Errors: KafkaError.
        """
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)], require_stable=require_stable)
        response = await self._coordinators.ask(group_id, request, lambda one: one.groups[0].error_code, within_s=self._within_s)
        group = response.groups[0]
        raise_for(group.error_code)
        if any(not topic.name and topic.topic_id not in self.cluster.view.names for topic in group.topics):
            await self.cluster.refresh()
        found = {}
        for topic in group.topics:
            name = topic.name or self.cluster.view.names.get(topic.topic_id)
            if name is None:
                continue  # the partition was deleted meanwhile
            for one in topic.partitions:
                raise_for(one.error_code)
                if one.committed_offset >= 0:
                    found[TopicPartition(name, one.partition_index)] = GroupOffset(
                        one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                    )
        return found

    async def offsets_of_each(
        self, group_ids: Iterable[str], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, GroupOffset] | KafkaError]:
        return await of_each(group_ids, partial(self.offsets, require_stable=require_stable))

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | GroupOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set a group's offsets.  The group must have no members.  Errors: KafkaError when the request fails as a whole."""
        if not offsets:
            return {}
        placed = {one: wanted if isinstance(wanted, GroupOffset) else GroupOffset(wanted) for one, wanted in offsets.items()}
        topics = by_topic(offsets)
        await self._know(topics)
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=NO_GENERATION,
            member_id="",
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.cluster.view.topic_id_of(topic),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=wanted.offset,
                            committed_leader_epoch=wanted.leader_epoch,
                            committed_metadata=wanted.metadata,
                        )
                        for partition in partitions
                        for wanted in (placed[TopicPartition(topic, partition)],)
                    ],
                )
                for topic, partitions in topics.items()
            ],
        )
        response = await self._coordinators.ask(
            group_id, request, lambda one: one.topics[0].partitions[0].error_code, within_s=self._within_s
        )
        return {
            TopicPartition(topic.name or self.cluster.view.names[topic.topic_id], one.partition_index): error_of(one.error_code)
            for topic in response.topics
            for one in topic.partitions
        }

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        """Forget a group's offsets.  Errors: KafkaError when the request fails as a whole (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP)."""
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition) for partition in indexes]
                )
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        response = await self._coordinators.ask(group_id, request, lambda one: one.error_code, within_s=self._within_s)
        raise_for(response.error_code)
        return {
            TopicPartition(topic.name, one.partition_index): error_of(one.error_code)
            for topic in response.topics
            for one in topic.partitions
        }

    async def delete(self, group_id: str) -> None:
        """Delete a group and its offsets.  Errors: KafkaError (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
        request = DeleteGroupsRequest(groups_names=[group_id])
        response = await self._coordinators.ask(group_id, request, lambda one: one.results[0].error_code, within_s=self._within_s)
        raise_for(response.results[0].error_code)

    async def delete_each(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        return await of_each(group_ids, self.delete)

    async def remove_members(
        self, group_id: str, instance_ids: Sequence[str] | None = None, *, reason: str = "removed by an administrator"
    ) -> dict[str, KafkaError | None]:
        """Remove static members by their instance id, or all members if `instance_ids` is None.

        Answers are by instance id, or by member id for a member without one.

        Errors: KafkaError when the request fails as a whole.
        """
        if instance_ids is None:
            members = [
                MemberIdentity(
                    member_id="" if one.instance_id is not None else one.member_id, group_instance_id=one.instance_id, reason=reason
                )
                for one in (await self.describe(group_id)).members
            ]
        else:
            members = [MemberIdentity(member_id="", group_instance_id=one, reason=reason) for one in instance_ids]
        if not members:
            return {}
        request = LeaveGroupRequest(group_id=group_id, members=members)
        response = await self._coordinators.ask(group_id, request, lambda one: one.error_code, within_s=self._within_s)
        raise_for(response.error_code)
        return {one.group_instance_id or one.member_id: error_of(one.error_code) for one in response.members}

    async def _know(self, topics: Iterable[str]) -> None:
        unknown = set(topics) - self.cluster.view.topics.keys()
        if unknown:
            await self.cluster.refresh(sorted(unknown))
        for topic in topics:
            code = self.cluster.view.error_of(topic) or ErrorCode.NONE
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"topic {topic}: {code.text}")


def _of_consumer(group: consumer.DescribedGroup, coordinator: Node) -> GroupDescription:
    members = [
        MemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _flat(member.assignment),
            member.member_epoch,
            _flat(member.target_assignment),
            None if member.member_type < 0 else member.member_type != CLASSIC_MEMBER,
        )
        for member in group.members
    ]
    return GroupDescription(
        group.group_id,
        "Consumer",
        group.group_state,
        group.assignor_name,
        coordinator,
        members,
        group.group_epoch,
        group.assignment_epoch,
        operations_of(group.authorized_operations),
    )


def _of_classic(group: classic.DescribedGroup, coordinator: Node) -> GroupDescription:
    members = [
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            _classic_assignment(member.member_assignment) if group.protocol_type == CONSUMER else [],
        )
        for member in group.members
    ]
    allowed = operations_of(group.authorized_operations)
    return GroupDescription(
        group.group_id, "Classic", group.group_state, group.protocol_data, coordinator, members, authorized_operations=allowed
    )


def _flat(assignment: consumer.Assignment) -> list[TopicPartition]:
    return [TopicPartition(topic.topic_name, partition) for topic in assignment.topic_partitions for partition in topic.partitions]


def _classic_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions of a member of a classic consumer group; none if `data` cannot be read."""
    if not data:
        return []
    try:
        assignment = decode_newer_too(ConsumerProtocolAssignment, data)
    except DecodeError:
        return []
    return [TopicPartition(topic.topic, partition) for topic in assignment.assigned_partitions for partition in topic.partitions]
