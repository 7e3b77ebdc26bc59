"""● The pictures of docs/reference/performance.md, drawn by matplotlib as SVG.  The same results give the same bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import report
from benchmarks.published import read, series
from benchmarks.python_clients import CASES, CLIENTS, OURS, SPEED
from benchmarks.scenarios import SCENARIOS

COLOURS: Final = {OURS: "#0b6e99", "confluent-kafka": "#f2a541", "aiokafka": "#8e6bbf", "kafka-python": "#9aa5ac"}
TITLES: Final = {"moldau-os": "on our broker", "kafka": "on Apache Kafka 4.3.1"}
CALLS: Final = {
    "produce-lists": "send, lists",
    "produce-each": "send, each",
    "consume-batches": "read, batches",
    "consume-each": "read, each",
}
STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "moldau",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(results: Path, folder: Path) -> list[Path]:
    """Draw what has results.  Returns the files."""
    drawn = []
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, picture in (("clients", _clients), ("broker", _broker)):
            found = read(name, results)
            if found is not None:
                path = folder / f"{name}.svg"
                picture(found).savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
                drawn.append(path)
    return drawn


def _clients(found: Mapping[str, Any]) -> Figure:
    brokers: Mapping[str, Any] = found["brokers"]
    names = [case for case in CASES if case.metrics == SPEED and all(case.name in results for results in brokers.values())]
    figure = Figure(figsize=(5.2 * len(brokers), 0.55 * len(names) + 1.2))
    all_axes: Sequence[Axes] = figure.subplots(1, len(brokers), sharey=True, sharex=True, squeeze=False)[0]
    height = 0.8 / len(CLIENTS)
    for axes, (broker, results) in zip(all_axes, brokers.items(), strict=True):
        for place, client in enumerate(CLIENTS):
            bars = [(row, values) for row, case in enumerate(names) if (values := series(results, case.name, client, "records_s"))]
            middles = [median(values) for _, values in bars]
            whiskers = [
                [middle - min(values) for middle, (_, values) in zip(middles, bars, strict=True)],
                [max(values) - middle for middle, (_, values) in zip(middles, bars, strict=True)],
            ]
            rows = [row + (place - 1.5) * height for row, _ in bars]
            axes.barh(rows, middles, height, xerr=whiskers, error_kw={"lw": 0.8}, label=client, color=COLOURS[client])
        axes.set_title(TITLES.get(broker, broker))
        axes.set_xscale("log")
        axes.set_xlabel("records a second")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(axis="x", lw=0.4, alpha=0.6)
        axes.set_axisbelow(True)
    all_axes[0].set_yticks(range(len(names)), [f"{CALLS[case.load]}, {case.size_name}" for case in names])
    all_axes[0].invert_yaxis()
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(CLIENTS), frameon=False, bbox_to_anchor=(0.5, -0.08))
    return figure


def _broker(found: Mapping[str, Any]) -> Figure:
    """Ratios of the first pair of brokers that was measured, turned so that more is better."""
    bars = []
    for scenario in SCENARIOS:
        for metric, row in zip(scenario.metrics, report.rows(scenario, found["scenarios"].get(scenario.name, {})), strict=True):
            ratio = row.ratios[0] if row.ratios else None
            if ratio is not None and ratio.low > 0:
                better = ratio if metric.more_is_better else report.Ratio(1 / ratio.median, 1 / ratio.high, 1 / ratio.low)
                bars.append((f"{scenario.name}: {metric.label}", better))
    figure = Figure(figsize=(8, 0.26 * len(bars) + 1))
    axes = figure.subplots()
    whiskers = [[ratio.median - ratio.low for _, ratio in bars], [ratio.high - ratio.median for _, ratio in bars]]
    colours = [COLOURS[OURS] if ratio.median >= 1 else "#c4553b" for _, ratio in bars]
    axes.barh(range(len(bars)), [ratio.median for _, ratio in bars], 0.7, xerr=whiskers, error_kw={"lw": 0.8}, color=colours)
    axes.set_yticks(range(len(bars)), [label for label, _ in bars])
    axes.invert_yaxis()
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.set_xlabel("times as good as Apache Kafka")
    return figure
