"""A few seeds of transactions around three brokers at the desk; `python -m proof.clients.cluster_transaction_schedules` takes thousands."""

import pytest

from proof.clients.cluster_transaction_schedules import ClusterTransactionSchedule
from proof.clients.plants import CLUSTER_TRANSACTION_PLANTS
from proof.clients.seeds import seed_that_finds


@pytest.mark.parametrize("seed", [6, 22, 43, 100351])
def test_transactions_are_all_or_nothing_where_coordinators_and_leaders_move(seed: int) -> None:
    assert ClusterTransactionSchedule(seed).run() == []


@pytest.mark.parametrize(("name", "seed"), [("keeps-the-coordinator", 1), ("keeps-the-leaders", 1), ("forgives-a-lost-record", 2)])
def test_a_planted_fault_is_found(name: str, seed: int) -> None:
    """The same seed finds nothing without the fault."""
    found = seed_that_finds(CLUSTER_TRANSACTION_PLANTS[name], ClusterTransactionSchedule, first=seed)
    assert found is not None
    assert ClusterTransactionSchedule(found).run() == []
