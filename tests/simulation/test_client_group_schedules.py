"""A few seeds of the consumers' schedules at the desk; `python -m proof.clients.group_schedules` takes thousands."""

import pytest

from proof.clients.group_schedules import GroupSchedule
from proof.clients.plants import CONSUMER_PLANTS
from proof.clients.seeds import seed_that_finds


@pytest.mark.parametrize("seed", [3, 5, 6, 7, 8, 11, 13, 30026])
def test_members_of_one_group(seed: int) -> None:
    assert GroupSchedule(seed).run() == []


@pytest.mark.parametrize(
    ("name", "seed"), [("keeps-reading", 3), ("commits-what-was-fetched", 66), ("forgets-an-assignment", 128), ("hands-out-backwards", 0)]
)
def test_a_planted_fault_is_found(name: str, seed: int) -> None:
    """The same seed finds nothing without the fault."""
    found = seed_that_finds(CONSUMER_PLANTS[name], GroupSchedule, first=seed)
    assert found is not None
    assert GroupSchedule(found).run() == []
