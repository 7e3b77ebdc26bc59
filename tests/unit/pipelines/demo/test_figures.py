"""Rates and latencies, worked out by hand."""

from collections import Counter
from collections.abc import Callable
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


def steady(created_every_ms: int, latency_ms: Callable[[int], int]) -> Figures:
    judgements = [Judgement("steady", True, n * created_every_ms, n * created_every_ms + latency_ms(n), FINE) for n in range(300)]
    return figures(*judgements)._replace(steady_rate=100.0)


def test_a_rate_that_was_not_held_is_said() -> None:
    assert steady(10, lambda _: 900).remarks() == []
    (remark,) = steady(20, lambda _: 900).remarks()
    assert "100 orders a second was not held: 50 a second were sent" in remark


def test_a_phase_shorter_than_its_latencies_tells_nothing() -> None:
    (remark,) = steady(10, lambda _: 4_000).remarks()
    assert "too short" in remark
    assert "after 3 s, and half of its orders waited 4.0 s" in remark


def test_times_that_grow_are_queueing_times_and_called_so() -> None:
    (remark,) = steady(10, lambda n: 100 + 8 * n).remarks()
    assert "queueing times" in remark
    assert "the verdict took 0.5 s, in the last 2.1 s" in " ".join(remark.split())
