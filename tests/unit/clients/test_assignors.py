"""How a leader shares partitions among the members of a classic group."""

import pytest

from moldau.clients.consumer.assignors import Subscriber, assign_range, assign_round_robin
from moldau.clients.consumer.classic import ASSIGN
from moldau.types import TopicPartition


def subscribers(*names: str, topics: frozenset[str] = frozenset({"t"})) -> list[Subscriber]:
    return [Subscriber(name, None, topics) for name in names]


def indexes(assignment: dict[str, list[TopicPartition]]) -> dict[str, list[int]]:
    return {member_id: [one.partition for one in partitions] for member_id, partitions in assignment.items()}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a"], {"a": [0, 1, 2, 3]}),
        (["a", "b"], {"a": [0, 1], "b": [2, 3]}),
        (["a", "b", "c"], {"a": [0, 1], "b": [2], "c": [3]}),
        (["a", "b", "c", "d", "e"], {"a": [0], "b": [1], "c": [2], "d": [3], "e": []}),
    ],
)
def test_range_shares_four_partitions(names: list[str], expected: dict[str, list[int]]) -> None:
    assert indexes(assign_range(subscribers(*names), {"t": [0, 1, 2, 3]})) == expected


def test_range_takes_each_topic_by_itself() -> None:
    both = subscribers("a", "b", topics=frozenset({"t", "u"}))
    assignment = assign_range(both, {"t": [0, 1, 2], "u": [0, 1, 2]})
    assert [len(partitions) for partitions in assignment.values()] == [4, 2]


def test_round_robin_spreads_over_topics() -> None:
    both = subscribers("a", "b", topics=frozenset({"t", "u"}))
    assignment = assign_round_robin(both, {"t": [0, 1, 2], "u": [0, 1, 2]})
    assert [len(partitions) for partitions in assignment.values()] == [3, 3]


@pytest.mark.parametrize("name", ASSIGN)
def test_only_who_wants_a_topic_gets_it(name: str) -> None:
    members = [Subscriber("a", None, frozenset({"t"})), Subscriber("b", None, frozenset({"u"}))]
    assignment = ASSIGN[name](members, {"t": [0, 1], "u": [0], "nobody's": [0]})
    assert assignment == {"a": [TopicPartition("t", 0), TopicPartition("t", 1)], "b": [TopicPartition("u", 0)]}


def test_a_static_member_keeps_its_place_under_a_new_member_id() -> None:
    before = assign_range([Subscriber("x1", "i", frozenset({"t"})), Subscriber("a", None, frozenset({"t"}))], {"t": [0, 1]})
    after = assign_range([Subscriber("a", None, frozenset({"t"})), Subscriber("z9", "i", frozenset({"t"}))], {"t": [0, 1]})
    assert before["x1"] == after["z9"] == [TopicPartition("t", 0)]
