"""◇ How the leader of a classic group shares partitions among its members: range and round-robin, as Java's clients do.

Members are taken static ones first, by instance id, then the others by member id, so that an assignment does not depend on who came first.
Source: RangeAssignor.java, RoundRobinAssignor.java.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from moldau.types import TopicPartition


class Subscriber(NamedTuple):
    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    """In which it got what it owns; -1: it does not say."""

    @property
    def rank(self) -> tuple[bool, str]:
        return (self.instance_id is None, self.instance_id or self.member_id)


Assignment = dict[str, list[TopicPartition]]
"""By member id; every subscriber has an entry."""

ClientAssignor = Callable[[Sequence[Subscriber], Mapping[str, Sequence[int]]], Assignment]
"""(subscribers, partitions of each topic that is there) → who reads what."""


def assign_range(subscribers: Sequence[Subscriber], partitions: Mapping[str, Sequence[int]]) -> Assignment:
    """Each topic by itself: a run of neighbouring partitions for each subscriber, the first ones get one more."""
    assignment: Assignment = {each.member_id: [] for each in subscribers}
    ranked = sorted(subscribers, key=lambda each: each.rank)
    for topic, indexes in sorted(partitions.items()):
        members = [each for each in ranked if topic in each.topics]
        start = 0
        for position, member in enumerate(members):
            share, rest = divmod(len(indexes), len(members))
            end = start + share + (position < rest)
            assignment[member.member_id] += [TopicPartition(topic, index) for index in sorted(indexes)[start:end]]
            start = end
    return assignment


def assign_round_robin(subscribers: Sequence[Subscriber], partitions: Mapping[str, Sequence[int]]) -> Assignment:
    """All partitions of all topics, one after the other, to the next subscriber that wants them."""
    assignment: Assignment = {each.member_id: [] for each in subscribers}
    ranked = sorted(subscribers, key=lambda each: each.rank)
    turn = cycle(ranked)
    for topic, indexes in sorted(partitions.items()):
        if not any(topic in each.topics for each in ranked):
            continue
        for index in sorted(indexes):
            member = next(each for each in turn if topic in each.topics)
            assignment[member.member_id].append(TopicPartition(topic, index))
    return assignment
