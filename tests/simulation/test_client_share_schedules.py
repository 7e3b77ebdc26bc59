"""A few seeds of the share consumers' schedules at the desk; `python -m proof.clients.share_schedules` takes thousands."""

import pytest

from proof.clients.plants import SHARE_PLANTS
from proof.clients.seeds import seed_that_finds
from proof.clients.share_schedules import ShareSchedule


@pytest.mark.parametrize("seed", [1, 2, 5, 7, 41228, 42036, 100064])
def test_members_of_a_share_group(seed: int) -> None:
    assert ShareSchedule(seed).run() == []


@pytest.mark.parametrize(("name", "seed"), [("accepts-all", 0), ("forgets-acknowledgements", 3), ("confirms-doubts", 11)])
def test_a_planted_fault_is_found(name: str, seed: int) -> None:
    """The same seed finds nothing without the fault."""
    found = seed_that_finds(SHARE_PLANTS[name], ShareSchedule, first=seed)
    assert found is not None
    assert ShareSchedule(found).run() == []
