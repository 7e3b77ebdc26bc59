"""◇ Tasks of a streams program: one task is one partition of one subtopology, in one of three roles.

active    reads, computes, writes: one process at a time has it
standby   keeps a copy of the state, on another process than the active task
warm-up   a standby that is to become active once it has caught up
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class TaskId(NamedTuple):
    subtopology_id: str
    partition: int


TaskIds = frozenset[TaskId]


@dataclass(slots=True, frozen=True)
class Tasks:
    """The tasks that a member should have, or reports."""

    active: TaskIds = frozenset()
    standby: TaskIds = frozenset()
    warmup: TaskIds = frozenset()

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


@dataclass(slots=True, frozen=True)
class HeldTasks:
    """The tasks of a member; active tasks with the member epoch at which each was assigned."""

    active: Mapping[TaskId, int] = field(default_factory=dict)
    standby: TaskIds = frozenset()
    warmup: TaskIds = frozenset()

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def __or__(self, other: "HeldTasks") -> "HeldTasks":
        return HeldTasks({**self.active, **other.active}, self.standby | other.standby, self.warmup | other.warmup)

    def ids(self) -> Tasks:
        return Tasks(frozenset(self.active), self.standby, self.warmup)

    def has_any_of(self, tasks: Tasks) -> bool:
        """Whether both have a task in the same role."""
        return bool(tasks.active & self.active.keys() or tasks.standby & self.standby or tasks.warmup & self.warmup)

    def has_all_of(self, tasks: Tasks) -> bool:
        return tasks.active <= self.active.keys() and tasks.standby <= self.standby and tasks.warmup <= self.warmup


class PartitionsOfSubtopology(Protocol):
    """Tasks in the form of requests and records."""

    subtopology_id: str
    partitions: list[int]


def read_tasks(spelled: Iterable[PartitionsOfSubtopology]) -> TaskIds:
    return frozenset(TaskId(each.subtopology_id, partition) for each in spelled for partition in each.partitions)


def by_subtopology(tasks: Iterable[TaskId]) -> Iterator[tuple[str, list[int]]]:
    """Tasks by subtopology, in order."""
    grouped: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        grouped.setdefault(subtopology_id, []).append(partition)
    yield from grouped.items()
