"""◇ A member of a consumer group (KIP-848): its fields, its records, and its next step towards its target.

Source: ConsumerGroupMember, CurrentAssignmentBuilder, GroupCoordinatorRecordHelpers.  Used by `consumer` and those it calls.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from moldau.coordinator.group import records as stored
from moldau.coordinator.group.assignors.model import TopicIdPartition
from moldau.coordinator.group.membership import JOIN_EPOCH, by_topic
from moldau.coordinator.outcome import CoordinatorRecord


class MemberState(IntEnum):
    """The states of a member, numbered as in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """A state of a later release: no other member gets its partitions until it joins anew or is out."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


Owned = Mapping[TopicIdPartition, int]
"""Partitions, each with the member epoch at which it was assigned."""


Subscription = tuple[tuple[str, ...], str | None]
"""The subscribed topics by name, and a regular expression for others."""


@dataclass(slots=True, frozen=True)
class ClassicMember:
    """The stored part of a member that speaks the classic protocol in a consumer group (`classic_members`)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """The protocols with metadata, in the member's order of preference."""


@dataclass(slots=True, frozen=True)
class Member:
    """A member.  The first fields are its metadata record, the others its current assignment record."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMember | None = None

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    owned: Owned = field(default_factory=dict)
    pending_revocation: Owned = field(default_factory=dict)

    def holds(self) -> Iterable[TopicIdPartition]:
        """The partitions that no other member may get: assigned, or being given up."""
        yield from self.owned
        yield from self.pending_revocation

    def is_settled_at(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def metadata(self) -> tuple[object, ...]:
        """The member's metadata record."""
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.topic_regex,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.classic,
        )

    def subscription(self) -> Subscription:
        """The fields that begin a new group epoch when they change; rack and assignor count from the next one on."""
        return (self.topic_names, self.topic_regex)

    def with_metadata(self, value: stored.ConsumerGroupMemberMetadataValue) -> "Member":
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or None,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=_classic_of(value.classic_member_metadata),
        )

    def with_assignment(self, value: stored.ConsumerGroupCurrentMemberAssignmentValue) -> "Member":
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            owned=_owned_of(value.assigned_partitions, value.member_epoch),
            pending_revocation=_owned_of(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> "Member":
        return replace(self, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH, state=MemberState.STABLE, owned={}, pending_revocation={})


def reconcile(
    member: Member,
    is_free: Callable[[TopicIdPartition], bool],
    target: frozenset[TopicIdPartition],
    target_epoch: int,
    reported: frozenset[TopicIdPartition] | None,
) -> Member:
    """The member's next step towards its target: revoke, wait for others, or take.

    `is_free` says whether no other member holds a partition.
    """
    if member.pending_revocation and (reported is None or reported & member.pending_revocation.keys()):
        return member
    kept = {partition: epoch for partition, epoch in member.owned.items() if partition in target}
    given_up = {partition: epoch for partition, epoch in member.owned.items() if partition not in target}
    if given_up and (reported is None or reported & given_up.keys()):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, owned=kept, pending_revocation=given_up)
    taken = {partition: target_epoch for partition in target if partition not in kept and is_free(partition)}
    is_waiting = len(kept) + len(taken) < len(target)
    return replace(
        member,
        epoch=target_epoch,
        previous_epoch=member.epoch if member.epoch != target_epoch else member.previous_epoch,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        owned=kept | taken,
        pending_revocation={},
    )


def metadata_record(group_id: str, member: Member) -> CoordinatorRecord:
    key = stored.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    value = stored.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        # Null is written, not left out: a missing field means a classic member without protocols.
        classic_member_metadata=_stored_classic(member.classic),
    )
    return CoordinatorRecord(key, value)


def target_record(group_id: str, member_id: str, partitions: frozenset[TopicIdPartition]) -> CoordinatorRecord:
    key = stored.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    topics = [stored.TopicPartition(topic_id=topic_id, partitions=indexes) for topic_id, indexes in by_topic(partitions).items()]
    return CoordinatorRecord(key, stored.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def current_record(group_id: str, member: Member) -> CoordinatorRecord:
    key = stored.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    value = stored.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_stored_partitions(member.owned),
        partitions_pending_revocation=_stored_partitions(member.pending_revocation),
    )
    return CoordinatorRecord(key, value)


def removal(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    key = {"group_id": group_id, "member_id": member_id}
    return [
        CoordinatorRecord(stored.ConsumerGroupCurrentMemberAssignmentKey(**key), None),
        CoordinatorRecord(stored.ConsumerGroupTargetAssignmentMemberKey(**key), None),
        CoordinatorRecord(stored.ConsumerGroupMemberMetadataKey(**key), None),
    ]


def _classic_of(value: stored.ClassicMemberMetadata | None) -> ClassicMember | None:
    if value is None or not value.supported_protocols:
        return None
    return ClassicMember(value.session_timeout_ms, tuple((each.name, bytes(each.metadata)) for each in value.supported_protocols))


def _stored_classic(member: ClassicMember | None) -> stored.ClassicMemberMetadata | None:
    if member is None:
        return None
    protocols = [stored.ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols]
    return stored.ClassicMemberMetadata(session_timeout_ms=member.session_timeout_ms, supported_protocols=protocols)


def _stored_partitions(owned: Owned) -> list[stored.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions]:
    return [
        stored.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=[owned[TopicIdPartition(topic_id, partition)] for partition in partitions],
        )
        for topic_id, partitions in by_topic(owned).items()
    ]


def _owned_of(topics: Iterable[stored.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions], member_epoch: int) -> Owned:
    """The owned partitions of a record.

    Records from before KIP-1251 have no epochs; the member's own epoch then stands for all.
    """
    owned: dict[TopicIdPartition, int] = {}
    for each in topics:
        epochs = each.assignment_epochs
        if not epochs or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        owned.update((TopicIdPartition(each.topic_id, partition), epoch) for partition, epoch in zip(each.partitions, epochs, strict=True))
    return owned


def partitions_of(topics: Iterable[stored.TopicPartition]) -> Iterable[TopicIdPartition]:
    return (TopicIdPartition(each.topic_id, partition) for each in topics for partition in each.partitions)
