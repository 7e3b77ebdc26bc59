"""A tenth of what `python -m proof.storage.recovery` does at length."""

import pytest

from proof.storage.recovery import crash_states, damaged_segments, damaged_side_files, failing_calls

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(1000, 1008))
def test_crashes(seed: int) -> None:
    assert crash_states(seed, images_at_once=8) > 500


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_faults(seed: int) -> None:
    assert sum(failing_calls(seed, every=3).values()) > 50


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_damage(seed: int) -> None:
    assert sum(damaged_segments(seed, every=41).values()) > 10_000


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_side_files(seed: int) -> None:
    assert sum(damaged_side_files(seed, every=7).values()) > 500
