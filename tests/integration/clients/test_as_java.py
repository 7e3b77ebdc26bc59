"""Partitions of keys and assignments, beside those of Java's own classes, on random inputs."""

import os
import random
from collections import Counter
from collections.abc import Iterable
from itertools import chain

import pytest

from moldau.clients.consumer.assignors import Subscriber
from moldau.clients.consumer.classic import ASSIGN
from moldau.clients.producer.partitioners import partition_for_key
from moldau.protocol.murmur import murmur2
from proof.clients.oracle import choices
from proof.metadata.oracle import javac

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.skipif(javac() is None, reason="there is no javac: Java's classes cannot be asked"),
]

KEYS = int(os.environ.get("MOLDAU_KEYS", "20000"))
GROUPS = int(os.environ.get("MOLDAU_GROUPS", "500"))


def test_keys_land_where_java_puts_them() -> None:
    choice = random.Random(7)
    cases = [(choice.randbytes(choice.choice((0, 1, 3, 4, 5, 8, 17, 300))), choice.choice((1, 3, 64, 1000))) for _ in range(KEYS)]
    answers = choices([f"hash {key.hex()} {count}" for key, count in cases])
    ours = [f"{_signed(murmur2(key))} {partition_for_key(key, count)}" for key, count in cases]
    assert answers == ours


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


Group = tuple[dict[str, int], list[Subscriber]]


def a_group(choice: random.Random, *, are_alike: bool) -> Group:
    topics = {f"t{number}": choice.randint(1, 9) for number in range(choice.randint(1, 4))}
    names = list(topics)
    members = []
    for number in range(choice.randint(1, 6)):
        wanted = names if are_alike else choice.sample(names, choice.randint(1, len(names)))
        instance = f"i{choice.randint(0, 99)}x{number}" if choice.random() < 0.3 else None
        members.append(Subscriber(f"m{choice.randint(0, 999)}x{number}", instance, frozenset(wanted)))
    return topics, members


def asked(name: str, group: Group) -> str:
    topics, members = group
    counts = ",".join(f"{topic}:{count}" for topic, count in topics.items())
    said = ",".join(f"{one.member_id}:{one.instance_id or ''}:{'+'.join(sorted(one.topics))}" for one in members)
    return f"assign {name} {counts} {said}"


def ours(name: str, group: Group) -> dict[str, list[str]]:
    topics, members = group
    assignment = ASSIGN[name](members, {topic: list(range(count)) for topic, count in topics.items()})
    return {member: sorted(map(str, given)) for member, given in assignment.items()}


def theirs(answer: str) -> dict[str, list[str]]:
    pairs = (part.partition("=") for part in answer.split(","))
    return {member: given.split("+") if given else [] for member, _, given in pairs}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_the_same_assignment(name: str) -> None:
    choice = random.Random(7)
    groups = [a_group(choice, are_alike=choice.random() < 0.5) for _ in range(GROUPS)]
    for group, answer in zip(groups, choices([asked(name, group) for group in groups]), strict=True):
        assert ours(name, group) == theirs(answer), asked(name, group)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_the_same_balance(name: str) -> None:
    """Each side chooses freely which of two equal members gets one more partition; the number of members with each count is the same."""
    choice = random.Random(7)
    groups = [a_group(choice, are_alike=choice.random() < 0.5) for _ in range(GROUPS)]
    for group, answer in zip(groups, choices([asked(name, group) for group in groups]), strict=True):
        mine, java = ours(name, group), theirs(answer)
        assert sorted(chain(*mine.values())) == sorted(chain(*java.values())), asked(name, group)
        assert unevenness(mine.values()) <= unevenness(java.values()), asked(name, group)


def unevenness(assigned: Iterable[list[str]]) -> int:
    """The sum of squares: lower is more even."""
    return sum(size * size * count for size, count in Counter(map(len, assigned)).items())
