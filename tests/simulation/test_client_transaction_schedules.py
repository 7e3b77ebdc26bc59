"""A few seeds of the transactions' schedules at the desk; `python -m proof.clients.transaction_schedules` takes thousands."""

import pytest

from proof.clients.plants import TRANSACTION_PLANTS
from proof.clients.seeds import seed_that_finds
from proof.clients.transaction_schedules import TransactionSchedule


@pytest.mark.parametrize("seed", [2, 16, 18, 28, 44, 107, 137, 570, 100604, 102487, 105819])
def test_transactions_are_all_or_nothing(seed: int) -> None:
    assert TransactionSchedule(seed).run() == []


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("commits-at-once", 0),
        ("forgives-a-lost-record", 22),
        ("commits-an-abort", 0),
        ("keeps-offsets", 0),
    ],
)
def test_a_planted_fault_is_found(name: str, seed: int) -> None:
    """The same seed finds nothing without the fault."""
    found = seed_that_finds(TRANSACTION_PLANTS[name], TransactionSchedule, first=seed)
    assert found is not None
    assert TransactionSchedule(found).run() == []
