"""Rates and latencies, by hand."""

from collections import Counter
from typing import Any

from moldau.pipelines.demo.figures import Figures, Judgement, quantile
from moldau.pipelines.validation.model import State
from moldau.pipelines.validation.oracle import Expected

FINE = Expected(State.VALIDATED, [])
LATE = Expected(State.FAILED, ["LATE", "QUANTITY"])


def figures(*judgements: Judgement) -> Figures:
    rest: dict[str, Any] = {"repeats": 0, "micro_batches": [], "differences": [], "promo_lines": 0, "promo_rejected": 0, "settings": {}}
    return Figures(orders=len(judgements), judgements=judgements, dead_letters=Counter(), elapsed_s=1.0, **rest)


def test_an_order_that_waited_for_its_deadline_says_nothing_about_speed() -> None:
    found = figures(
        Judgement("steady", True, 0, 1_000, FINE), Judgement("steady", True, 500, 2_000, LATE), Judgement("steady", False, 0, 90_000, FINE)
    )
    assert found.orders_per_s("steady") == 1.0
    assert found.latency_s("steady", 0.99) == 1.5
    assert found.orders_per_s("flood") is None
    assert found.states == {"VALIDATED": 2, "FAILED": 1}
    assert found.reasons == {"LATE": 1, "QUANTITY": 1}


def test_quantiles() -> None:
    hundred = [float(n) for n in range(1, 101)]
    assert (quantile(hundred, 0.5), quantile(hundred, 0.99), quantile(hundred, 1.0)) == (51.0, 100.0, 100.0)
    assert quantile([], 0.5) is None
