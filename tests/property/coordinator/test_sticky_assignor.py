"""The assignor of streams groups owes each task one active owner and copies on other processes, and moves nothing without need."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.coordinator.group.assignors.sticky import TaskMember, TaskSource, assign
from moldau.coordinator.group.streams.tasks import TaskId, Tasks

Members = dict[str, TaskMember]
Sources = dict[str, TaskSource]

SOURCES = st.dictionaries(st.sampled_from("0123"), st.builds(TaskSource, st.integers(1, 6), st.booleans()), max_size=3)
STANDBYS = st.integers(0, 2)


@st.composite
def groups(draw: st.DrawFn, *, is_new: bool = False) -> tuple[Members, Sources]:
    """Members of some processes.  The tasks that they had may be of subtopologies that are gone, or may have had two owners."""
    sources = draw(SOURCES)
    ids = draw(st.lists(st.sampled_from("abcdefg"), unique=True, min_size=1))
    processes = {member_id: draw(st.sampled_from("PQRS")) for member_id in ids}
    had = st.builds(TaskId, st.sampled_from("01234"), st.integers(0, 7))
    previous = st.just(Tasks()) if is_new else st.builds(Tasks, st.frozensets(had, max_size=8), st.frozensets(had, max_size=8))
    return {member_id: TaskMember(processes[member_id], draw(previous)) for member_id in ids}, sources


def tasks_of(sources: Sources, *, is_stateful: bool = False) -> set[TaskId]:
    return {
        TaskId(key, partition)
        for key, source in sources.items()
        if source.is_stateful or not is_stateful
        for partition in range(source.task_count)
    }


def again(members: Members, sources: Sources, assignment: dict[str, Tasks], standby_count: int) -> dict[str, Tasks]:
    """The group is assigned once more."""
    had = {member_id: member._replace(previous=assignment[member_id]) for member_id, member in members.items()}
    return assign(had, sources, standby_count)


@given(groups(), STANDBYS)
def test_every_task_has_one_active_owner_and_its_copies_lie_elsewhere(group: tuple[Members, Sources], standby_count: int) -> None:
    members, sources = group
    assignment = assign(members, sources, standby_count)
    assert assignment.keys() == members.keys()
    active = [task for tasks in assignment.values() for task in tasks.active]
    assert len(active) == len(set(active))
    assert set(active) == tasks_of(sources)
    places: dict[TaskId, list[str]] = {}
    for member_id, tasks in assignment.items():
        assert not tasks.warmup
        for task in [*tasks.active, *tasks.standby]:
            places.setdefault(task, []).append(members[member_id].process_id)
    process_count = len({member.process_id for member in members.values()})
    for task, processes in places.items():
        assert len(processes) == len(set(processes)), "a process has one copy"
        copies = min(standby_count, process_count - 1) if sources[task.subtopology_id].is_stateful else 0
        assert len(processes) == 1 + copies


@given(groups(is_new=True), STANDBYS)
def test_nothing_moves_when_nothing_changed(group: tuple[Members, Sources], standby_count: int) -> None:
    members, sources = group
    first = assign(members, sources, standby_count)
    active = {member_id: tasks.active for member_id, tasks in first.items()}
    assert {member_id: tasks.active for member_id, tasks in again(members, sources, first, standby_count).items()} == active


@given(groups(is_new=True))
def test_members_that_are_alike_get_alike(group: tuple[Members, Sources]) -> None:
    """Each process has one thread, and the numbers of active tasks differ by one at most."""
    members, sources = group
    alone = {member_id: TaskMember(f"process-of-{member_id}", member.previous) for member_id, member in members.items()}
    counts = [len(tasks.active) for tasks in assign(alone, sources, 0).values()]
    assert max(counts) - min(counts) <= 1


@given(groups(is_new=True))
def test_a_member_that_comes_gets_its_share_and_one_that_goes_leaves_the_others_in_peace(group: tuple[Members, Sources]) -> None:
    members, sources = group
    alone = {member_id: TaskMember(f"process-of-{member_id}", member.previous) for member_id, member in members.items()}
    first = assign(alone, sources, 0)
    joined = again({**alone, "new": TaskMember("process-of-new", Tasks())}, sources, {**first, "new": Tasks()}, 0)
    total = len(tasks_of(sources))
    assert total // len(joined) <= len(joined["new"].active) <= -(-total // len(joined))
    moved = sum(len(tasks.active - joined[member_id].active) for member_id, tasks in first.items())
    assert moved == len(joined["new"].active), "only tasks that the new member gets are moved"
    left = again(alone, sources, joined, 0)
    for member_id in alone:
        assert joined[member_id].active <= left[member_id].active, "the members that stayed keep their tasks"


@given(groups(), STANDBYS)
def test_the_order_of_members_does_not_matter(group: tuple[Members, Sources], standby_count: int) -> None:
    members, sources = group
    assert assign(dict(reversed(members.items())), sources, standby_count) == assign(members, sources, standby_count)


def test_state_decides_who_takes_over() -> None:
    sources = {"0": TaskSource(2, is_stateful=True)}
    first = assign({name: TaskMember(name, Tasks()) for name in "ab"}, sources, 1)
    task = next(iter(first["b"].active))
    assert task in first["a"].standby
    rest = {"a": TaskMember("a", first["a"]), "c": TaskMember("c", Tasks()), "d": TaskMember("d", Tasks())}
    after = assign(rest, sources, 1)
    assert first["a"].active <= after["a"].active
    assert len(after["a"].active) == 1, "a member gets its share, although it has the state of the other task, too"
    both = assign({"a": TaskMember("a", first["a"])}, sources, 1)
    assert both["a"].active == first["a"].active | first["b"].active
