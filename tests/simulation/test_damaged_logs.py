"""A share of what `python -m proof.storage.damaged_logs` does at length."""

import pytest

from proof.storage.damaged_logs import damaged_logs


@pytest.mark.slow
def test_damaged_small_files_of_logs() -> None:
    outcomes = damaged_logs(1, every=43)
    assert sum(outcomes.values()) > 700
    assert {outcome.partition(":")[0] for outcome in outcomes} == {
        "*.index",
        "*.snapshot",
        "*.timeindex",
        "*.txnindex",
        "cleaner-offset-checkpoint",
        "leader-epoch-checkpoint",
        "leader-epoch-checkpoint.next",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }


@pytest.mark.parametrize("part", ["log-start-offset", "plain-0/leader-epoch"])
def test_of_the_smallest_files_memory_watched(part: str) -> None:
    assert sum(damaged_logs(2, every=17, part=part, watches_memory=True).values()) > 10
