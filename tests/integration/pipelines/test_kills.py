"""A handful of kills at random steps of the sink; `python -m proof.pipelines.kills` does hundreds."""

import pytest

from proof.pipelines import kills

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize(("kind", "seed"), [("copy", 92), ("sum", 260), ("streams", 189)])
def test_what_is_committed_is_the_input_once(kind: str, seed: int) -> None:
    """Kills of workers and the broker; the driver, which takes longest to start again, is killed once in the second and the third."""
    kills.main(["ours", "--kills", "4", "--seed", str(seed), "--records", "900", "--per-batch", "60", "--kind", kind])


def test_without_spark() -> None:
    kills.main(["ours", "--kills", "12", "--seed", "5", "--records", "600", "--kind", "bare"])


@pytest.mark.java
def test_on_apache_kafka() -> None:
    kills.main(["apache", "--kills", "3", "--seed", "8", "--records", "900", "--per-batch", "60"])


@pytest.mark.java
def test_on_apache_kafka_with_transactions_of_version_1() -> None:
    kills.main(["apache", "--kills", "2", "--seed", "9", "--records", "600", "--per-batch", "60", "--transaction-version", "1"])
