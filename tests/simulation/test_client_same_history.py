"""A seed of the clients' schedules is the same history in every run, whatever Python's hashes are."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("schedules", "seed"),
    [
        ("schedules", 0),
        ("group_schedules", 1),
        ("cluster_schedules", 3),
        ("share_schedules", 0),
        ("transaction_schedules", 8),
        ("cluster_share_schedules", 2),
        ("cluster_transaction_schedules", 2),
    ],
)
def test_a_seed_is_one_history(schedules: str, seed: int) -> None:
    assert traces(schedules, seed, hash_seed=1) == traces(schedules, seed, hash_seed=2)


def traces(schedules: str, seed: int, *, hash_seed: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", f"proof.clients.{schedules}", str(seed), "1", "--trace"],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line for line in done.stdout.splitlines() if " trace " in line]
    assert found, done.stdout
    return found
