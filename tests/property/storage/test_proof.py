"""A small share of the storage proof; `python -m proof.storage.recovery` is the whole of it."""

import pytest

from proof.storage.recovery import crash_states, damaged_segments, damaged_side_files, failing_calls


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_crash_anywhere_leaves_what_was_promised(seed: int) -> None:
    assert crash_states(seed, images_at_once=2, steps=20) > 40


@pytest.mark.parametrize("seed", [1, 2])
def test_a_call_that_fails_costs_nothing_that_was_promised(seed: int) -> None:
    assert sum(failing_calls(seed, steps=15, every=12).values()) > 10


def test_damage_leaves_the_exact_prefix_or_is_refused() -> None:
    outcomes = damaged_segments(3, size=16 << 10, every=1201)
    assert set(outcomes) == {"refused: below the recovery point", "the exact prefix of whole batches"}


def test_a_damaged_index_or_snapshot_loses_nothing() -> None:
    assert sum(damaged_side_files(4, every=101).values()) > 50
