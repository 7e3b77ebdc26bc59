"""◇ From the rounds' numbers to medians, ratios and a verdict; as rows for the terminal, Markdown and JSON.

Ratios are taken round by round, between measurements that ran one after the other, so that other work on the machine
hit both sides.  The report shows their median.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from benchmarks.scenarios import Metric, Scenario

PAIRS = (("moldau", "kafka"), ("moldau-os", "kafka"), ("moldau", "kafka-synced"), ("moldau", "moldau-before"))
"""Pairs of our broker and the peer that it is compared with.  The first pair takes both as they come; the next two give both the same
promise, first Kafka's, then ours; the last compares with an older tree.  The verdict is about the first pair that was measured.
"""
Rounds = Mapping[str, Sequence[Mapping[str, float]]]
"""Peer → one dictionary of numbers for each round."""


class Ratio(NamedTuple):
    """The ratio of rounds: the median, and the lowest and highest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}× ({self.low:.2f}–{self.high:.2f})"


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one scenario."""

    scenario: str
    metric: str
    medians: Mapping[str, float]
    ratios: Sequence[Ratio | None]
    """In the order of `pairs_of` the peers."""
    wanted: str
    met: bool | None

    def cells(self, peers: Sequence[str]) -> list[str]:
        values = [figure(self.medians[peer]) if peer in self.medians else "–" for peer in peers]
        ratios = ["–" if ratio is None else str(ratio) for ratio in self.ratios]
        return [self.scenario, self.metric, *values, *ratios, self.wanted, {None: "", True: "yes", False: "no"}[self.met]]


def pairs_of(peers: Collection[str]) -> list[tuple[str, str]]:
    return [pair for pair in PAIRS if set(pair) <= set(peers)]


def rows(scenario: Scenario, rounds: Rounds) -> list[Row]:
    return [row(scenario, metric, rounds) for metric in scenario.metrics]


def row(scenario: Scenario, metric: Metric, rounds: Rounds) -> Row:
    series = {peer: [numbers[metric.key] for numbers in each if metric.key in numbers] for peer, each in rounds.items()}
    medians = {peer: median(values) for peer, values in series.items() if values}
    pairs = pairs_of(rounds)
    ratios = [ratio_of(series[ours], series[theirs]) for ours, theirs in pairs]
    judged = pairs[0][0] if pairs else next((ours for ours, _ in PAIRS if ours in rounds), "")
    wanted, met = verdict(metric, medians.get(judged), ratios[0].median if ratios and ratios[0] else None)
    return Row(scenario.name, metric.label, medians, ratios, wanted, met)


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    ratios = sorted(our / their for our, their in zip(ours, theirs, strict=False) if their)
    return Ratio(median(ratios), ratios[0], ratios[-1]) if ratios else None


def verdict(metric: Metric, ours: float | None, ratio: float | None) -> tuple[str, bool | None]:
    if metric.limit is not None:
        return f"< {metric.limit:g}", None if ours is None else ours < metric.limit
    if metric.target is None:
        return "", None
    if metric.more_is_better:
        return f"≥ {metric.target:g}×", None if ratio is None else ratio >= metric.target
    return f"≤ {metric.target:g}×", None if ratio is None else ratio <= metric.target


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def headings(peers: Sequence[str]) -> list[str]:
    return ["scenario", "metric", *peers, *(f"{ours} : {theirs}" for ours, theirs in pairs_of(peers)), "wanted", "met"]


def markdown(table: Sequence[Row], peers: Sequence[str], about: str) -> str:
    lines = [headings(peers), ["---"] * len(headings(peers)), *(each.cells(peers) for each in table)]
    return f"# Beside Apache Kafka\n\n{about}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
