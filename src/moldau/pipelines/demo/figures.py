"""◇ The figures of a run: counts, rates and latencies, from the ledger and the queries' progress."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.pipelines.validation.oracle import Expected

HELD = 0.95
GROWN = 1.5


class Judgement(NamedTuple):
    """One order from creation to verdict, on the records' own timestamps."""

    phase: str
    is_answered: bool  # by all checks; other orders waited for their deadline
    created_ms: int
    judged_ms: int
    outcome: Expected

    @property
    def latency_s(self) -> float:
        return (self.judged_ms - self.created_ms) / 1000


class MicroBatch(NamedTuple):
    query: str
    ended_ms: int
    rows: int
    duration_ms: int


class Figures(NamedTuple):
    orders: int
    judgements: Sequence[Judgement]
    dead_letters: Counter[str]
    repeats: int
    micro_batches: Sequence[MicroBatch]
    differences: Sequence[str]
    promo_lines: int
    promo_rejected: int
    settings: Mapping[str, str]
    elapsed_s: float
    steady_rate: float = 0.0  # orders a second that were asked for

    @property
    def states(self) -> Counter[str]:
        return Counter(str(judgement.outcome.state) for judgement in self.judgements)

    @property
    def reasons(self) -> Counter[str]:
        return Counter(reason for judgement in self.judgements for reason in judgement.outcome.reasons)

    def answered(self, phase: str) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.phase == phase and judgement.is_answered]

    def orders_per_s(self, phase: str) -> float | None:
        """Orders a second from the phase's first order to its last verdict."""
        answered = self.answered(phase)
        if len(answered) < 2:
            return None
        span_ms = max(judgement.judged_ms for judgement in answered) - min(judgement.created_ms for judgement in answered)
        return len(answered) * 1000 / max(span_ms, 1)

    def sent_per_s(self, phase: str) -> float | None:
        """Orders a second from the phase's first order to its last."""
        created = [judgement.created_ms for judgement in self.judgements if judgement.phase == phase]
        if len(created) < 2:
            return None
        return (len(created) - 1) * 1000 / max(max(created) - min(created), 1)

    def remarks(self) -> list[str]:
        """Remarks that a reader of the steady phase's figures has to know."""
        sent, found = self.sent_per_s("steady"), []
        if self.steady_rate and sent is not None and sent < HELD * self.steady_rate:
            found.append(f"The steady rate of {self.steady_rate:g} orders a second was not held: {sent:.0f} a second were sent.")
        ordered = sorted(self.answered("steady"), key=lambda judgement: judgement.created_ms)
        third = len(ordered) // 3
        first, last = (quantile([one.latency_s for one in part], 0.5) for part in (ordered[:third], ordered[len(ordered) - third :]))
        if first is not None and last is not None and last > GROWN * first + 1:
            found.append(
                f"Orders came faster than they were judged: in the first third of the steady phase the verdict took {first:.1f} s, in the "
                f"last {last:.1f} s. Its latencies are queueing times, and would grow with a longer run."
            )
        middle = self.latency_s("steady", 0.5)
        if ordered and middle is not None and middle > (span_s := (ordered[-1].created_ms - ordered[0].created_ms) / 1000):
            found.append(
                f"The steady phase was over after {span_s:.0f} s, and half of its orders waited {middle:.1f} s or longer: it was too short "
                "to tell how long orders wait in a steady stream."
            )
        return found

    def latency_s(self, phase: str, share: float) -> float | None:
        """The latency that `share` of the phase's orders did not exceed."""
        return quantile([judgement.latency_s for judgement in self.answered(phase)], share)


def quantile(values: Sequence[float], share: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
