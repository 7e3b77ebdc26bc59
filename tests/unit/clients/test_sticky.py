"""Assignments are balanced and sticky, and never give a partition two owners: over rounds in which members come and go."""

import random

import pytest

from moldau.clients.consumer.assignors import Assignment, Subscriber
from moldau.clients.consumer.sticky import (
    assign_cooperative_sticky,
    assign_sticky,
    cooperative_user_data,
    read_cooperative_user_data,
    read_sticky_user_data,
    sticky_user_data,
)
from moldau.types import TopicPartition


def a_member(name: str, topics: frozenset[str], had: Assignment, generation: int) -> Subscriber:
    return Subscriber(name, None, topics, tuple(had.get(name, ())), generation if name in had else -1)


@pytest.mark.parametrize("seed", range(30))
def test_rounds_of_members_that_come_and_go(seed: int) -> None:
    choice = random.Random(seed)
    partitions = {"t": list(range(choice.randint(1, 12))), "u": list(range(choice.randint(1, 5)))}
    everything = sorted(TopicPartition(topic, index) for topic, indexes in partitions.items() for index in indexes)
    topics = frozenset(partitions)
    names = [f"m{number}" for number in range(choice.randint(1, 5))]
    had: Assignment = {}
    for generation in range(6):
        assigned = assign_sticky([a_member(name, topics, had, generation) for name in names], partitions)
        assert sorted(one for given in assigned.values() for one in given) == everything
        sizes = [len(given) for given in assigned.values()]
        assert max(sizes) - min(sizes) <= 1
        if set(names) == set(had):
            assert assigned == had, "nothing moves when nothing has changed"
        stayed = sum(len(set(had.get(name, ())) & set(assigned[name])) for name in names)
        assert stayed >= sum(min(len(had.get(name, ())), len(everything) // len(names)) for name in names)
        had = assigned
        if choice.random() < 0.5:
            names = [*names, f"m{generation + 10}"]
        elif len(names) > 1:
            names.remove(choice.choice(names))


@pytest.mark.parametrize("seed", range(30))
def test_a_cooperative_round_gives_nobody_what_another_holds(seed: int) -> None:
    choice = random.Random(seed)
    partitions = {"t": list(range(choice.randint(2, 12)))}
    topics = frozenset(partitions)
    had = assign_sticky([Subscriber("a", None, topics), Subscriber("b", None, topics)], partitions)
    names = ["a", "b", "c"]
    held = {one: name for name, given in had.items() for one in given}
    first = assign_cooperative_sticky([a_member(name, topics, had, 1) for name in names], partitions)
    for name, given in first.items():
        assert all(held.get(one, name) == name for one in given)
    kept = {name: [one for one in had.get(name, ()) if one in first[name]] for name in names}
    second = assign_cooperative_sticky([a_member(name, topics, kept, 2) for name in names], partitions)
    assert sorted(one.partition for given in second.values() for one in given) == partitions["t"]
    assert max(map(len, second.values())) - min(map(len, second.values())) <= 1


def test_of_two_claims_the_newer_generation_holds() -> None:
    one = TopicPartition("t", 0)
    topics = frozenset({"t"})
    old, new = Subscriber("a", None, topics, (one,), 4), Subscriber("b", None, topics, (one,), 5)
    assert assign_sticky([old, new], {"t": [0]}) == {"a": [], "b": [one]}


def test_user_data_goes_and_comes() -> None:
    owned = [TopicPartition("a", 1), TopicPartition("a", 3), TopicPartition("ü", 0)]
    assert read_sticky_user_data(sticky_user_data(owned, 7)) == (owned, 7)
    assert read_cooperative_user_data(cooperative_user_data(7)) == 7


@pytest.mark.parametrize("size", range(40))
def test_broken_user_data_is_none(size: int) -> None:
    whole = sticky_user_data([TopicPartition("topic", 1), TopicPartition("topic", 2)], 7)
    owned, _ = read_sticky_user_data(whole[:size])
    assert all(one.topic == "topic" for one in owned)
    read_sticky_user_data(bytes([255] * size))
    assert read_sticky_user_data(None) == ([], -1)
    assert read_cooperative_user_data(whole[:3]) == -1
