"""A share group at work while its broker is killed, loses power, its network, its time: from seeds."""

import functools

import pytest

from proof.cluster.simulation import Result
from proof.shares.simulation import QueueSimulation

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("seeds")]

SEEDS = range(2000, 2006)


@functools.cache
def result_of(seed: int) -> Result:
    return QueueSimulation(seed).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_accepted_comes_again_and_nothing_sent_is_lost(seed: int) -> None:
    result = result_of(seed)
    assert not result.violations, f"seed {seed}: " + "\n".join(result.violations)
    assert result.done["accepted"] > 100, f"seed {seed}: too little happened to prove anything: {result.done}"


def test_members_come_and_go() -> None:
    done = [result_of(seed).done for seed in SEEDS]
    assert any("left" in each for each in done) and any("vanished" in each for each in done)


def test_a_seed_is_the_same_history_twice() -> None:
    assert QueueSimulation(SEEDS[0]).run().digest == result_of(SEEDS[0]).digest
