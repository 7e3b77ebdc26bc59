"""Consensus machines with a bag of messages: seeds that must hold, and mistakes that must be found."""

import os

import pytest

from proof.raft import bag
from proof.raft.plants import PLANTS

SEEDS = int(os.environ.get("MOLDAU_RAFT_SEEDS", "60"))
FOUND_WITHIN = 60
QUICKLY_FOUND = (
    "VotesForAnyLog",
    "ComparesLogsByLength",
    "VotesTwice",
    "CountsUnsynced",
    "FetchesUnsynced",
    "NoDivergence",
    "CountsAnyDirectory",
    "ObserversCount",
    "NeverPersists",
    "AppendsAreDurableAtOnce",
)
"""All of them, and how many seeds each needs, are in docs/reliability/cluster.md."""
ONCE_BROKEN = (3843, 27_167)
"""A voter that had voted and was removed then never found the leader; the simulation took a disk away after it had healed everything."""


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_what_was_found_stays_away(seed: int) -> None:
    bag.run(seed)


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_no_seed_breaks_consensus(first: int) -> None:
    for seed in range(first, min(first + 20, SEEDS)):
        bag.run(seed)


@pytest.mark.parametrize("name", QUICKLY_FOUND)
def test_a_planted_mistake_is_found(name: str) -> None:
    with pytest.raises(bag.Broken):
        run_many(name)


def run_many(name: str) -> None:
    for seed in range(FOUND_WITHIN):
        bag.run(seed, PLANTS[name])
