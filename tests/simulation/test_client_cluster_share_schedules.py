"""A few seeds of share groups around three brokers at the desk; `python -m proof.clients.cluster_share_schedules` takes thousands."""

import pytest

from proof.clients.cluster_share_schedules import ClusterShareSchedule
from proof.clients.plants import CLUSTER_SHARE_PLANTS
from proof.clients.seeds import seed_that_finds


@pytest.mark.parametrize("seed", [0, 1, 7, 100708])
def test_members_of_a_share_group_whose_brokers_change(seed: int) -> None:
    assert ClusterShareSchedule(seed).run() == []


@pytest.mark.parametrize(("name", "seed"), [("keeps-the-leaders", 5), ("forgets-acknowledgements", 5), ("confirms-doubts", 11)])
def test_a_planted_fault_is_found(name: str, seed: int) -> None:
    """The same seed finds nothing without the fault."""
    found = seed_that_finds(CLUSTER_SHARE_PLANTS[name], ClusterShareSchedule, first=seed)
    assert found is not None
    assert ClusterShareSchedule(found).run() == []
