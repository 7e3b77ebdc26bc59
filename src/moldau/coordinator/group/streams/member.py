"""◇ A member of a streams group, and the records that keep it.  Source: StreamsGroupMember, StreamsCoordinatorRecordHelpers."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from moldau.coordinator.group.membership import JOIN_EPOCH
from moldau.coordinator.group.streams import records as stored
from moldau.coordinator.group.streams.tasks import HeldTasks, TaskId, Tasks, by_subtopology, read_tasks
from moldau.coordinator.outcome import CoordinatorRecord

NO_TOPOLOGY: int = -1


class MemberState(IntEnum):
    """The states of a member, numbered as in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127
    """A state of a later release: no other member gets its tasks until it joins anew or is out."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


class Endpoint(NamedTuple):
    """The address at which the member answers interactive queries."""

    host: str
    port: int


@dataclass(slots=True, frozen=True)
class Member:
    """A member.  The first fields are its metadata record, the others its current assignment record."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    held: HeldTasks = field(default_factory=HeldTasks)
    pending_revocation: HeldTasks = field(default_factory=HeldTasks)

    def is_settled_at(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def metadata(self) -> tuple[object, ...]:
        """The member's metadata record."""
        return (
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.topology_epoch,
            self.process_id,
            self.endpoint,
            self.client_tags,
        )

    def with_metadata(self, value: stored.StreamsGroupMemberMetadataValue) -> "Member":
        endpoint = value.user_endpoint
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=Endpoint(endpoint.host, endpoint.port) if endpoint is not None else None,
            client_tags=tuple((each.key, each.value) for each in value.client_tags),
        )

    def with_assignment(self, value: stored.StreamsGroupCurrentMemberAssignmentValue) -> "Member":
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            held=HeldTasks(
                _read_epochs(value.active_tasks, value.member_epoch), read_tasks(value.standby_tasks), read_tasks(value.warmup_tasks)
            ),
            pending_revocation=HeldTasks(
                _read_epochs(value.active_tasks_pending_revocation, value.member_epoch),
                read_tasks(value.standby_tasks_pending_revocation),
                read_tasks(value.warmup_tasks_pending_revocation),
            ),
        )

    def without_assignment(self) -> "Member":
        return replace(
            self,
            epoch=JOIN_EPOCH,
            previous_epoch=JOIN_EPOCH,
            state=MemberState.STABLE,
            held=HeldTasks(),
            pending_revocation=HeldTasks(),
        )


def metadata_record(group_id: str, member: Member) -> CoordinatorRecord:
    endpoint = member.endpoint
    value = stored.StreamsGroupMemberMetadataValue(
        instance_id=None,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=stored.Endpoint(host=endpoint.host, port=endpoint.port) if endpoint is not None else None,
        client_tags=[stored.KeyValue(key=key, value=text) for key, text in member.client_tags],
    )
    return CoordinatorRecord(stored.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def assignment_record(group_id: str, member: Member) -> CoordinatorRecord:
    held, pending = member.held, member.pending_revocation
    value = stored.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_with_epochs(held),
        standby_tasks=_without_epochs(held.standby),
        warmup_tasks=_without_epochs(held.warmup),
        active_tasks_pending_revocation=_with_epochs(pending),
        standby_tasks_pending_revocation=_without_epochs(pending.standby),
        warmup_tasks_pending_revocation=_without_epochs(pending.warmup),
    )
    return CoordinatorRecord(stored.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, tasks: Tasks) -> CoordinatorRecord:
    spelled = [
        [
            stored.StreamsGroupTargetAssignmentMemberValueTaskIds(subtopology_id=subtopology_id, partitions=partitions)
            for subtopology_id, partitions in by_subtopology(role)
        ]
        for role in (tasks.active, tasks.standby, tasks.warmup)
    ]
    value = stored.StreamsGroupTargetAssignmentMemberValue(active_tasks=spelled[0], standby_tasks=spelled[1], warmup_tasks=spelled[2])
    return CoordinatorRecord(stored.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def read_target(value: stored.StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(read_tasks(value.active_tasks), read_tasks(value.standby_tasks), read_tasks(value.warmup_tasks))


def removal(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    key = {"group_id": group_id, "member_id": member_id}
    return [
        CoordinatorRecord(stored.StreamsGroupCurrentMemberAssignmentKey(**key), None),
        CoordinatorRecord(stored.StreamsGroupTargetAssignmentMemberKey(**key), None),
        CoordinatorRecord(stored.StreamsGroupMemberMetadataKey(**key), None),
    ]


def _with_epochs(held: HeldTasks) -> list[stored.StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        stored.StreamsGroupCurrentMemberAssignmentValueTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[held.active[TaskId(subtopology_id, partition)] for partition in partitions],
        )
        for subtopology_id, partitions in by_subtopology(held.active)
    ]


def _without_epochs(tasks: Iterable[TaskId]) -> list[stored.StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        stored.StreamsGroupCurrentMemberAssignmentValueTaskIds(subtopology_id=subtopology_id, partitions=partitions, assignment_epochs=None)
        for subtopology_id, partitions in by_subtopology(tasks)
    ]


def _read_epochs(spelled: Iterable[stored.StreamsGroupCurrentMemberAssignmentValueTaskIds], member_epoch: int) -> dict[TaskId, int]:
    """The epochs of tasks.  Records from before tasks had epochs: the member's own epoch stands for all."""
    held: dict[TaskId, int] = {}
    for each in spelled:
        epochs = each.assignment_epochs
        if not epochs or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        held.update((TaskId(each.subtopology_id, partition), epoch) for partition, epoch in zip(each.partitions, epochs, strict=True))
    return held
