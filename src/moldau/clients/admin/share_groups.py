"""● Describes and deletes share groups (KIP-932), and reads and changes their offsets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from moldau.clients.admin.acls import AclOperation, operations_of
from moldau.clients.admin.answers import error_of, raise_for
from moldau.clients.admin.groups import GroupAdmin
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.several import of_each
from moldau.clients.cluster import GIVE_UP_AFTER_S, Cluster
from moldau.clients.coordinators import Coordinators
from moldau.clients.view import Node
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages import alter_share_group_offsets as alter
from moldau.protocol.messages import delete_share_group_offsets as delete
from moldau.protocol.messages import describe_share_group_offsets as describe
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from moldau.types import TopicPartition

SHARE: Final = "share"


class ShareOffset(NamedTuple):
    """The state of one partition in a share group.

    `start_offset` is the first record that is not finished.  It is None if no member has read the partition yet, and the lag is None if
    the broker does not count it.
    """

    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    client_id: str
    host: str
    rack_id: str | None
    epoch: int
    assignment: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    group_id: str
    state: str
    assignor: str
    coordinator: Node
    members: Sequence[ShareMember]
    epoch: int
    target_epoch: int
    authorized_operations: frozenset[AclOperation] | None = None
    """Those of the caller.  None: not asked for."""


class ShareGroupAdmin(Limited):
    """Answers for share groups.  `within_s`: how many seconds to wait for a coordinator that is not there yet."""

    def __init__(self, cluster: Cluster, *, within_s: float = GIVE_UP_AFTER_S) -> None:
        self.cluster = cluster
        self.groups = GroupAdmin(cluster, within_s=within_s)
        self._coordinators = Coordinators(cluster)
        self._within_s = within_s

    async def list_groups(self, *, states: Iterable[str] = ()) -> list[ListedGroup]:
        """The share groups of all brokers.  Errors: KafkaError."""
        return await self.groups.list_groups(states=states, types=[SHARE])

    async def describe(self, group_id: str, *, authorized_operations: bool = False) -> ShareGroupDescription:
        """Describe one share group.  Errors: KafkaError, GROUP_ID_NOT_FOUND among them."""
        coordinator = await self._coordinators.node_of(group_id, within_s=self._within_s)
        request = ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=authorized_operations)
        response = await self._coordinators.ask(group_id, request, lambda one: one.groups[0].error_code, within_s=self._within_s)
        group = response.groups[0]
        raise_for(group.error_code, group.error_message)
        members = [
            ShareMember(
                member.member_id,
                member.client_id,
                member.client_host,
                member.rack_id,
                member.member_epoch,
                [TopicPartition(topic.topic_name, index) for topic in member.assignment.topic_partitions for index in topic.partitions],
            )
            for member in group.members
        ]
        return ShareGroupDescription(
            group_id,
            group.group_state,
            group.assignor_name,
            coordinator,
            members,
            group.group_epoch,
            group.assignment_epoch,
            operations_of(group.authorized_operations),
        )

    async def describe_each(
        self, group_ids: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, ShareGroupDescription | KafkaError]:
        return await of_each(group_ids, partial(self.describe, authorized_operations=authorized_operations))

    async def offsets(self, group_id: str) -> dict[TopicPartition, ShareOffset]:
        """The offsets of all partitions that the group has read or is subscribed to.  Errors: KafkaError."""
        asked = describe.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
        request = describe.DescribeShareGroupOffsetsRequest(groups=[asked])
        response = await self._coordinators.ask(group_id, request, lambda one: one.groups[0].error_code, within_s=self._within_s)
        group = response.groups[0]
        raise_for(group.error_code, group.error_message)
        return {
            TopicPartition(topic.topic_name, one.partition_index): _share_offset(one)
            for topic in group.topics
            for one in topic.partitions
            if one.error_code == ErrorCode.NONE
        }

    async def offsets_of_each(self, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, ShareOffset] | KafkaError]:
        return await of_each(group_ids, self.offsets)

    async def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, KafkaError | None]:
        """Set a group's start offsets.  The group must have no members; a missing group is created.

        Errors: KafkaError when the request fails as a whole.
        """
        topics: dict[str, list[alter.AlterShareGroupOffsetsRequestPartition]] = {}
        for one, offset in offsets.items():
            asked = alter.AlterShareGroupOffsetsRequestPartition(partition_index=one.partition, start_offset=offset)
            topics.setdefault(one.topic, []).append(asked)
        request = alter.AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[alter.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=asked) for topic, asked in topics.items()],
        )
        response = await self._coordinators.ask(group_id, request, lambda one: one.error_code, within_s=self._within_s)
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.topic_name, one.partition_index): error_of(one.error_code, one.error_message)
            for topic in response.responses
            for one in topic.partitions
        }

    async def delete_offsets(self, group_id: str, topics: Iterable[str]) -> dict[str, KafkaError | None]:
        """Forget a group's offsets of whole topics.  Errors: KafkaError when the request fails as a whole (GROUP_ID_NOT_FOUND,
        NON_EMPTY_GROUP).
        """
        asked = [delete.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in dict.fromkeys(topics)]
        request = delete.DeleteShareGroupOffsetsRequest(group_id=group_id, topics=asked)
        response = await self._coordinators.ask(group_id, request, lambda one: one.error_code, within_s=self._within_s)
        raise_for(response.error_code, response.error_message)
        return {topic.topic_name: error_of(topic.error_code, topic.error_message) for topic in response.responses}

    async def delete(self, group_id: str) -> None:
        """Delete a share group.  Errors: KafkaError (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
        await self.groups.delete(group_id)

    async def delete_each(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        return await of_each(group_ids, self.delete)


def _share_offset(found: describe.DescribeShareGroupOffsetsResponsePartition) -> ShareOffset:
    if found.start_offset < 0:
        return ShareOffset(None, None, None)
    return ShareOffset(found.start_offset, found.leader_epoch if found.leader_epoch >= 0 else None, found.lag if found.lag >= 0 else None)
