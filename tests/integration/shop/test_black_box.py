"""The order system as a black box on Spark, small: `python -m proof.shop.black_box` runs it with more baskets and more kills."""

from pathlib import Path

import pytest

from proof.shop.black_box import Run

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def test_verdicts_are_the_oracles_and_each_order_and_state_has_its_mail(tmp_path: Path) -> None:
    outcome = Run(tmp_path, baskets=300, kills=3, seed=1, clients=10, kills_pipeline=False).go()
    assert outcome.mistakes == []
    assert outcome.states.total() == 300
    assert len(outcome.states) == 2
    assert outcome.kills == 3
