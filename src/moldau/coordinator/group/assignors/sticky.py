"""◇ The assignor of streams groups: tasks stay where their state is, and every process carries its share.

    active     1. who had it   2. who had it as standby   3. the process with the least load
    standby    1. who had it active before   2. who had it as standby   3. the process with the least load that has no copy yet

Steps 1 and 2 stop at a member's fair share, or a new member would stay empty.  Load is tasks a member (a thread), over a process.
Warm-up tasks are not given out: Kafka's own assignor has none yet.

Source: StickyTaskAssignor, ProcessState; KIP-1071.  Called by `streams.group`.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from moldau.coordinator.group.streams.tasks import TaskId, Tasks


class TaskMember(NamedTuple):
    """A member as the assignor sees it."""

    process_id: str
    previous: Tasks
    """The member's present target."""


class TaskSource(NamedTuple):
    """A subtopology as the assignor sees it."""

    task_count: int
    is_stateful: bool


def assign(members: Mapping[str, TaskMember], sources: Mapping[str, TaskSource], standby_count: int) -> dict[str, Tasks]:
    """Assign tasks.  Returns tasks by member id; every member has an entry, every task one active owner.

    A task of a subtopology with state has as many standbys as asked for, or as there are other processes.
    """
    if not members:
        return {}
    return _Assignment(members, sources, standby_count).made()


class _Process:
    __slots__ = ("counts", "process_id", "task_count", "tasks")

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}
        """Tasks by member."""
        self.tasks: set[TaskId] = set()
        self.task_count = 0

    @property
    def load(self) -> float:
        return self.task_count / len(self.counts)

    def least_loaded_member(self) -> str:
        return min(self.counts, key=self.counts.__getitem__)


class _Share:
    """The most tasks that a member gets while others have fewer."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._tasks = task_count
        self._members = member_count
        self.of_member = _per_member(task_count, member_count)

    def given(self, count: int) -> None:
        """Note that a member has `count` tasks now: once it is full, the others share the rest."""
        if count == self.of_member:
            self._members -= 1
            self._tasks -= count
            self.of_member = _per_member(self._tasks, self._members)


def _per_member(task_count: int, member_count: int) -> int:
    return -(-task_count // member_count) if member_count else 0


class _Assignment:
    def __init__(self, members: Mapping[str, TaskMember], sources: Mapping[str, TaskSource], standby_count: int) -> None:
        self._standby_count = standby_count
        self._process_of: dict[str, _Process] = {}
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[TaskId, str] = {}
        self._had_standby: dict[TaskId, list[str]] = {}
        for member_id, member in sorted(members.items()):
            process = self._processes.setdefault(member.process_id, _Process(member.process_id))
            process.counts[member_id] = 0
            self._process_of[member_id] = process
            self._had_active.update(dict.fromkeys(member.previous.active, member_id))
            for task in sorted(member.previous.standby):
                self._had_standby.setdefault(task, []).append(member_id)
        self._active_tasks = list(_tasks_of(sources))
        self._stateful_tasks = list(_tasks_of({key: source for key, source in sources.items() if source.is_stateful}))
        total = len(self._active_tasks) + len(self._stateful_tasks) * standby_count
        self._active_share = _Share(len(self._active_tasks), len(members))
        self._share = _Share(total, len(members))
        self._active: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        self._standby: dict[str, set[TaskId]] = {member_id: set() for member_id in members}

    def made(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._standby_count:
            self._assign_standby()
        return {
            member_id: Tasks(frozenset(active), frozenset(self._standby[member_id])) for member_id, active in sorted(self._active.items())
        }

    # -- active ---------------------------------------------------------------------------------------------------------------

    def _assign_active(self) -> None:
        left = []
        for task in sorted(self._active_tasks, key=_by_partition):
            if not self._keep_active(task, self._had_active.get(task)):
                left.append(task)
        left = [task for task in left if not self._keep_active(task, self._least_loaded(self._had_standby.get(task, ())))]
        heap = self._by_load()
        for task in sorted(left):
            _, process_id = heap[0]
            process = self._processes[process_id]
            self._give_active(process.least_loaded_member(), task)
            heapq.heapreplace(heap, (process.load, process_id))

    def _keep_active(self, task: TaskId, member_id: str | None) -> bool:
        """Whether the member could take it within its share."""
        if member_id is None or self._count_of(member_id) >= self._active_share.of_member:
            return False
        self._give_active(member_id, task)
        return True

    def _give_active(self, member_id: str, task: TaskId) -> None:
        self._active[member_id].add(task)
        count = self._counted(member_id, task)
        self._active_share.given(count)
        self._share.given(count)

    # -- standby --------------------------------------------------------------------------------------------------------------

    def _assign_standby(self) -> None:
        """Assign standby tasks, the last tasks first: the first ones filled the members that come first."""
        left: list[tuple[TaskId, int]] = []
        for task in sorted(self._stateful_tasks, key=_by_partition, reverse=True):
            for number in range(self._standby_count):
                if not self._keep_standby(task):
                    left.append((task, self._standby_count - number))
                    break
        heap = self._by_load()
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                if not self._give_least_loaded(task, heap):
                    break  # fewer processes than copies asked for

    def _keep_standby(self, task: TaskId) -> bool:
        for member_id in (self._had_active.get(task), self._least_loaded(self._had_standby.get(task, ()), task)):
            if member_id is None or task in self._process_of[member_id].tasks:
                continue
            if self._count_of(member_id) < self._share.of_member:
                self._give_standby(member_id, task)
                return True
        return False

    def _give_least_loaded(self, task: TaskId, heap: list[tuple[float, str]]) -> bool:
        passed = []
        is_given = False
        while heap and not is_given:
            process = self._processes[heapq.heappop(heap)[1]]
            if task not in process.tasks:
                self._give_standby(process.least_loaded_member(), task)
                is_given = True
            passed.append(process)
        for process in passed:
            heapq.heappush(heap, (process.load, process.process_id))
        return is_given

    def _give_standby(self, member_id: str, task: TaskId) -> None:
        self._standby[member_id].add(task)
        self._share.given(self._counted(member_id, task))

    # -- both -----------------------------------------------------------------------------------------------------------------

    def _count_of(self, member_id: str) -> int:
        return self._process_of[member_id].counts[member_id]

    def _counted(self, member_id: str, task: TaskId) -> int:
        """Give the task to the member.  Returns how many tasks it has now."""
        process = self._process_of[member_id]
        assert task not in process.tasks, "one copy of a task a process"
        process.tasks.add(task)
        process.task_count += 1
        process.counts[member_id] += 1
        return process.counts[member_id]

    def _least_loaded(self, member_ids: Iterable[str], task: TaskId | None = None) -> str | None:
        """The least loaded member whose process has no copy of `task`."""
        free = [each for each in member_ids if task not in self._process_of[each].tasks]
        return min(free, key=lambda each: (self._process_of[each].load, self._count_of(each)), default=None)

    def _by_load(self) -> list[tuple[float, str]]:
        heap = [(process.load, process_id) for process_id, process in self._processes.items()]
        heapq.heapify(heap)
        return heap


def _tasks_of(sources: Mapping[str, TaskSource]) -> Iterator[TaskId]:
    for subtopology_id, source in sources.items():
        for partition in range(source.task_count):
            yield TaskId(subtopology_id, partition)


def _by_partition(task: TaskId) -> tuple[int, str]:
    """The order in which partitions that are joined lie together: neighbours go to one member."""
    return task.partition, task.subtopology_id
