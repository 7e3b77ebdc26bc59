"""◇ From the rounds' numbers to medians, ratios and a verdict; as rows for the terminal, Markdown and JSON.

Ratios are taken round by round, between measurements that ran one after the other, and their median is shown: what
else the machine was doing then hit both sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.scenarios import Metric, Scenario

BASELINE, OURS = "kafka", ("moldau", "moldau-os")
Rounds = Mapping[str, Sequence[Mapping[str, float]]]
"""Peer → one dictionary of numbers a round."""


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one scenario."""

    scenario: str
    metric: str
    medians: Mapping[str, float]
    ratio: float | None
    spread: tuple[float, float] | None
    wanted: str
    met: bool | None

    def cells(self, peers: Sequence[str]) -> list[str]:
        values = [figure(self.medians[peer]) if peer in self.medians else "–" for peer in peers]
        ratio = "–" if self.ratio is None or self.spread is None else f"{self.ratio:.2f}× ({self.spread[0]:.2f}–{self.spread[1]:.2f})"
        verdict = {None: "", True: "yes", False: "no"}[self.met]
        return [self.scenario, self.metric, *values, ratio, self.wanted, verdict]


def rows(scenario: Scenario, rounds: Rounds) -> list[Row]:
    return [row(scenario, metric, rounds) for metric in scenario.metrics]


def row(scenario: Scenario, metric: Metric, rounds: Rounds) -> Row:
    series = {peer: [numbers[metric.key] for numbers in each if metric.key in numbers] for peer, each in rounds.items()}
    medians = {peer: median(values) for peer, values in series.items() if values}
    us = next((peer for peer in OURS if peer in series), "")
    pairs = list(zip(series.get(us, ()), series.get(BASELINE, ()), strict=False))
    ratios = sorted(ours / theirs for ours, theirs in pairs if theirs)
    ratio = median(ratios) if ratios else None
    wanted, met = verdict(metric, medians.get(us), ratio)
    return Row(scenario.name, metric.label, medians, ratio, (ratios[0], ratios[-1]) if ratios else None, wanted, met)


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
    return ["scenario", "metric", *peers, "us : Kafka (spread)", "wanted", "met"]


def markdown(table: Sequence[Row], peers: Sequence[str], about: str) -> str:
    lines = [headings(peers), ["---"] * len(headings(peers)), *(each.cells(peers) for each in table)]
    return f"# Beside Apache Kafka\n\n{about}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
