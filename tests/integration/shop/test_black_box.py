"""The order system as a black box on Spark, small: `python -m proof.shop.black_box` runs it with more baskets and more kills."""

from pathlib import Path

import pytest

from proof.metadata.oracle import javac
from proof.shop.black_box import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(javac() is None, reason="there is no javac to compile OpenSearch's starter with"),
]
BASKETS, KILLS = 500, 6


def test_verdicts_are_the_oracles_and_each_order_and_state_has_its_mail(tmp_path: Path) -> None:
    outcome = Run(tmp_path, baskets=BASKETS, clients=50, kills=KILLS, seed=1).go()
    assert outcome.mistakes == []
    assert outcome.states.total() == BASKETS
    assert len(outcome.states) == 2
    assert outcome.kills.total() == KILLS
    assert len(outcome.kills) == KILLS, "each part is killed"
