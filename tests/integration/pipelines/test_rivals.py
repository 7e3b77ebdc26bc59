"""A checkpoint older than its output, two drivers, a driver frozen beyond its time-out: `proof.pipelines.rivals` without Spark."""

import pytest

from proof.pipelines import rivals

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("name", list(rivals.TRIALS))
def test_the_output_is_the_input_once(name: str) -> None:
    rivals.main(["ours", "--kind", "bare", "--only", name])
