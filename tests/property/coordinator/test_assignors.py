"""Every assignor gives each partition one owner that wants it.  The uniform assignor promises more."""

import time
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.coordinator.group.assignors import ASSIGNORS, uniform
from moldau.coordinator.group.assignors.model import Assignment, Subscriber, TopicIdPartition, TopicView

Case = tuple[dict[str, Subscriber], dict[UUID, TopicView]]
TOPIC_IDS = [UUID(int=number) for number in range(1, 5)]


@st.composite
def cases(draw: st.DrawFn, *, is_homogeneous: bool = False) -> Case:
    topics = {
        topic_id: TopicView(topic_id, f"topic-{index}", draw(st.integers(1, 9)))
        for index, topic_id in enumerate(draw(st.lists(st.sampled_from(TOPIC_IDS), unique=True, min_size=1)))
    }
    all_partitions = [partition for topic in topics.values() for partition in topic.partitions()]
    member_ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1))
    owners = [draw(st.sampled_from([*member_ids, None])) for _ in all_partitions]
    everything = frozenset(topics)
    members = {
        member_id: Subscriber(
            topic_ids=everything if is_homogeneous else draw(st.frozensets(st.sampled_from(sorted(topics)))),
            owned=frozenset(each for each, owner in zip(all_partitions, owners, strict=True) if owner == member_id),
        )
        for member_id in member_ids
    }
    return members, topics


def owners_of(assignment: Assignment) -> dict[TopicIdPartition, list[str]]:
    owners: dict[TopicIdPartition, list[str]] = {}
    for member_id, partitions in assignment.items():
        for partition in partitions:
            owners.setdefault(partition, []).append(member_id)
    return owners


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(case=cases())
def test_each_wanted_partition_has_one_owner_that_wants_it(name: str, case: Case) -> None:
    members, topics = case
    assignment = ASSIGNORS[name](members, topics)
    owners = owners_of(assignment)
    assert assignment.keys() == members.keys()
    for topic in topics.values():
        is_wanted = any(topic.topic_id in member.topic_ids for member in members.values())
        for partition in topic.partitions():
            assert len(owners.get(partition, [])) == (1 if is_wanted else 0)
            assert all(topic.topic_id in members[owner].topic_ids for owner in owners.get(partition, []))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(case=cases())
def test_the_order_of_members_does_not_matter(name: str, case: Case) -> None:
    members, topics = case
    backwards = dict(reversed(members.items()))
    assert ASSIGNORS[name](members, topics) == ASSIGNORS[name](backwards, topics)


@given(case=cases(is_homogeneous=True))
def test_uniform_loads_differ_by_one_at_most(case: Case) -> None:
    loads = [len(partitions) for partitions in uniform.assign(*case).values()]
    assert max(loads) - min(loads) <= 1


@given(case=cases())
def test_uniform_leaves_no_move_that_would_even_out(case: Case) -> None:
    members, topics = case
    assignment = uniform.assign(members, topics)
    for partitions in assignment.values():
        for partition in partitions:
            takers = [each for each in members if partition.topic_id in members[each].topic_ids]
            assert all(len(partitions) - len(assignment[taker]) <= 1 for taker in takers)


@given(case=cases())
def test_uniform_changes_nothing_when_nothing_changed(case: Case) -> None:
    members, topics = case
    first = uniform.assign(members, topics)
    again = {member_id: member._replace(owned=first[member_id]) for member_id, member in members.items()}
    assert uniform.assign(again, topics) == first


@given(case=cases(is_homogeneous=True))
def test_uniform_moves_no_more_than_fairness_needs(case: Case) -> None:
    members, topics = case
    assignment = uniform.assign(members, topics)
    partition_count = sum(topic.partition_count for topic in topics.values())
    share, longer = divmod(partition_count, len(members))
    by_load = sorted((len(member.owned) for member in members.values()), reverse=True)
    can_keep = sum(min(load, share + (1 if index < longer else 0)) for index, load in enumerate(by_load))
    kept = sum(len(assignment[member_id] & member.owned) for member_id, member in members.items())
    assert kept == can_keep


def test_uniform_takes_the_last_partitions_away() -> None:
    topics = {topic_id: TopicView(topic_id, str(topic_id), 4) for topic_id in TOPIC_IDS[:2]}
    everything = frozenset(partition for topic in topics.values() for partition in topic.partitions())
    members = {"a": Subscriber(frozenset(topics), everything), "b": Subscriber(frozenset(topics), frozenset())}
    kept = uniform.assign(members, topics)["a"]
    assert sorted(kept) == [TopicIdPartition(TOPIC_IDS[0], partition) for partition in range(4)]


def test_range_gives_each_member_the_same_piece_of_every_topic() -> None:
    topics = {topic_id: TopicView(topic_id, str(topic_id), 5) for topic_id in TOPIC_IDS[:2]}
    members = {name: Subscriber(frozenset(topics), frozenset()) for name in ("a", "b", "c")}
    assignment = ASSIGNORS["range"](members, topics)
    pieces = {name: sorted({each.partition for each in partitions}) for name, partitions in assignment.items()}
    assert pieces == {"a": [0, 1], "b": [2, 3], "c": [4]}


def test_uniform_prefers_a_member_in_the_rack_of_a_replica() -> None:
    topic = TopicView(TOPIC_IDS[0], "orders", 2, (frozenset({"west"}), frozenset({"east"})))
    members = {
        "a": Subscriber(frozenset({topic.topic_id}), frozenset(), rack_id="east"),
        "b": Subscriber(frozenset({topic.topic_id}), frozenset(), rack_id="west"),
    }
    assignment = uniform.assign(members, {topic.topic_id: topic})
    assert {name: [each.partition for each in partitions] for name, partitions in assignment.items()} == {"a": [1], "b": [0]}


def test_a_large_group_is_assigned_while_others_wait() -> None:
    """One member has every partition, and nine more join.  Looking at everything again for each move took two minutes."""
    topic = TopicView(TOPIC_IDS[0], "large", 20_000)
    members = {
        f"m{number}": Subscriber(frozenset({topic.topic_id}), frozenset(topic.partitions() if number == 0 else ())) for number in range(10)
    }
    began_s = time.process_time()
    assignment = uniform.assign(members, {topic.topic_id: topic})
    assert {len(partitions) for partitions in assignment.values()} == {2_000}
    assert time.process_time() - began_s < 10, "this takes a fifth of a second on a machine with nothing else to do"
