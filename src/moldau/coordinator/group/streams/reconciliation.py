"""◇ One step of one member towards its target: give up, report, then take tasks that no other member still holds.

    STABLE ──target changed──▶ UNREVOKED_TASKS ──reported as given up──▶ UNRELEASED_TASKS ──others gave up──▶ STABLE

The rule differs by role: an active task has one process, so it waits for any; a copy must not lie beside another copy of the
same task, so a standby or warm-up task waits for those of its own process.

Source: CurrentAssignmentBuilder of streams groups.  Called by `group.StreamsGroup`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from moldau.coordinator.group.streams.member import Member, MemberState
from moldau.coordinator.group.streams.tasks import HeldTasks, TaskId, TaskIds, Tasks


@dataclass(slots=True, frozen=True)
class Holders:
    """For each task the member that has it, or has not given it up yet."""

    active: Mapping[TaskId, str]
    """The process of each active task."""
    copies: Mapping[str, TaskIds]
    """The standby and warm-up tasks of each process."""

    def has_active(self, process_id: str, task: TaskId) -> bool:
        return self.active.get(task) == process_id

    def has_copy(self, process_id: str, task: TaskId) -> bool:
        return task in self.copies.get(process_id, ())


def holders_of(members: Iterable[Member]) -> Holders:
    active: dict[TaskId, str] = {}
    copies: dict[str, TaskIds] = {}
    for member in members:
        for part in (member.held, member.pending_revocation):
            active.update(dict.fromkeys(part.active, member.process_id))
            copies[member.process_id] = copies.get(member.process_id, frozenset()) | part.standby | part.warmup
    return Holders(active, copies)


def reconcile(member: Member, target: Tasks, target_epoch: int, reported: Tasks | None, holders: Callable[[], Holders]) -> Member:
    """The member's next step.

    `reported`: the tasks that it reports, or None if it does not.  `holders` counts the member itself, too, and is called only if there are
    tasks to take.
    """
    if member.is_settled_at(target_epoch):
        return member
    if member.state is MemberState.UNREVOKED_TASKS and (reported is None or member.pending_revocation.has_any_of(reported)):
        return member
    held = member.held
    kept = HeldTasks(
        {task: epoch for task, epoch in held.active.items() if task in target.active},
        held.standby & target.standby,
        held.warmup & target.warmup,
    )
    given_up = HeldTasks(
        {task: epoch for task, epoch in held.active.items() if task not in target.active},
        held.standby - target.standby,
        held.warmup - target.warmup,
    )
    if given_up and (reported is None or given_up.has_any_of(reported)):
        return replace(member, state=MemberState.UNREVOKED_TASKS, held=kept, pending_revocation=given_up)
    taken = _takable(member, target, target_epoch, kept, holders()) if kept.ids() != target else HeldTasks()
    after = kept | taken
    return replace(
        member,
        epoch=target_epoch,
        previous_epoch=member.epoch if member.epoch != target_epoch else member.previous_epoch,
        state=MemberState.STABLE if after.ids() == target else MemberState.UNRELEASED_TASKS,
        held=after,
        pending_revocation=HeldTasks(),
    )


def _takable(member: Member, target: Tasks, target_epoch: int, kept: HeldTasks, holders: Holders) -> HeldTasks:
    process_id = member.process_id

    def is_free_of_copies(task: TaskId) -> bool:
        return not holders.has_copy(process_id, task)

    def is_free_here(task: TaskId) -> bool:
        return is_free_of_copies(task) and not holders.has_active(process_id, task)

    active = [task for task in target.active if task not in kept.active and task not in holders.active and is_free_of_copies(task)]
    return HeldTasks(
        dict.fromkeys(active, target_epoch),
        frozenset(filter(is_free_here, target.standby - kept.standby)),
        frozenset(filter(is_free_here, target.warmup - kept.warmup)),
    )
