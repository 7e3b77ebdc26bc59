"""A share of what `python -m proof.storage.damaged_folder` does at length."""

import pytest

from proof.storage.damaged_folder import damaged_folders


@pytest.mark.slow
def test_a_damaged_file_is_mended_or_refused_by_name() -> None:
    outcomes = damaged_folders(every=307)
    assert sum(outcomes.values()) > 300
    assert any("checkpoint: refused" in outcome for outcome in outcomes)


@pytest.mark.parametrize("part", ["log-start-offset", "quorum-state"])
def test_of_the_smallest_files(part: str) -> None:
    assert sum(damaged_folders(every=19, part=part).values()) > 10
