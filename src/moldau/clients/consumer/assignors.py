"""◇ The assignors of a classic group's leader: range and round-robin, as Java's clients do them.

Static members come first, by instance id, then the others by member id.  So the order of joining does not change an assignment.
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
    """The generation in which the member got its partitions; -1: it does not say."""

    @property
    def rank(self) -> tuple[bool, str]:
        return (self.instance_id is None, self.instance_id or self.member_id)


Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id; every subscriber has an entry."""

ClientAssignor = Callable[[Sequence[Subscriber], Mapping[str, Sequence[int]]], Assignment]
"""A function of (subscribers, partition counts by topic) that assigns the partitions."""


def assign_range(subscribers: Sequence[Subscriber], partitions: Mapping[str, Sequence[int]]) -> Assignment:
    """Assign each topic by itself: each subscriber gets a run of neighbouring partitions, the first subscribers one more."""
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
    """Assign all partitions of all topics, one after the other, to the next subscriber of their topic."""
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
