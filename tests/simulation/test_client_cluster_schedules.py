"""A few seeds of a group around three brokers at the desk; `python -m proof.clients.cluster_schedules` takes thousands."""

import pytest

from proof.clients.cluster_schedules import ClusterSchedule
from proof.clients.plants import CLUSTER_PLANTS
from proof.clients.seeds import seed_that_finds


@pytest.mark.parametrize("seed", [1, 2, 3, 43058])
def test_members_of_a_group_whose_brokers_change(seed: int) -> None:
    assert ClusterSchedule(seed).run() == []


@pytest.mark.parametrize(("name", "seed"), [("keeps-the-coordinator", 1), ("keeps-the-leaders", 1), ("keeps-reading", 0)])
def test_a_planted_fault_is_found(name: str, seed: int) -> None:
    """The same seed finds nothing without the fault."""
    found = seed_that_finds(CLUSTER_PLANTS[name], ClusterSchedule, first=seed)
    assert found is not None
    assert ClusterSchedule(found).run() == []
