"""A queue under faults, from seeds: what was accepted stays away, what was produced is delivered."""

import pytest

from moldau.testing.share_simulation import ShareSimulation

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("share-seeds")]


@pytest.mark.parametrize("seed", [2016, *range(2000, 2004)])
def test_the_queue_keeps_its_promises(seed: int) -> None:
    result = ShareSimulation(seed).run()
    assert not result.violations, f"seed {seed}: " + "\n".join(result.violations)
    assert result.done["produced"] > 300 and result.done["acknowledged: NONE"] > 300, f"seed {seed}: too little happened: {result.done}"
