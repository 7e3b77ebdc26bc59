"""Faults of replication, planted: random schedules find them."""

import pytest

from proof.replication.plants import PLANTS, RARE, planted
from proof.replication.schedules import Schedule, Violation

STEPS = 200
FOUND_WITHIN = 100
"""The number of seeds that are tried; docs/reliability/replication.md says how many each fault takes."""


@pytest.mark.parametrize("name", [name for name in PLANTS if name not in RARE])
def test_planted_faults_are_found(name: str) -> None:
    with planted(name):
        for seed in range(FOUND_WITHIN):
            try:
                Schedule(seed).run(STEPS)
            except Violation:
                return
    raise AssertionError(f"{name} is not found: {PLANTS[name][0]}")
