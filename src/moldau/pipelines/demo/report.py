"""● The report: one HTML file that needs nothing else, with its plots as SVG inside.

matplotlib draws them: no JavaScript, no network, some hundred kilobytes, and sharp in print.
"""

import html
import io
import os
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moldau.pipelines.demo.figures import Figures

BLUE, ORANGE, GREEN, RED, GREY = "#2b6cb0", "#dd6b20", "#2f855a", "#c53030", "#718096"
STATE_COLOURS = {"VALIDATED": GREEN, "FAILED": RED, "TIMED_OUT": GREY}

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Moldau demo: order validation</title>
<style>
 body {{ font: 16px/1.5 system-ui, sans-serif; color: #1a202c; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
 table {{ border-collapse: collapse; margin: 1rem 0 }} td {{ padding: .15rem 1.5rem .15rem 0; border-bottom: 1px solid #e2e8f0 }}
 td:last-child {{ text-align: right; font-variant-numeric: tabular-nums }}
 .good {{ color: {green} }} .bad {{ color: {red} }}
 figure {{ margin: 2rem 0 }} figcaption {{ color: #4a5568 }} svg {{ max-width: 100%; height: auto }}
</style></head><body>
<h1>Order validation</h1>
<p class="{tone}"><strong>{verdict}</strong></p>
{remarks}
{tables}
{plots}
<h2>What the figures mean</h2>
<p>Latency is the time between two record timestamps: the order as CREATED, set by the client that sent it, and its verdict, set
by Spark's sink.  It is given for the steady phase; in a flood an order waits behind all before it, so its time says how long the flood
was.  Each order passes two micro-batches and waits half a one before each; a plain consumer would take milliseconds.  In
return, Spark gives state that survives a crash, and the same job on a cluster.</p>
<p>{machine}</p>
</body></html>
"""


def write_report(path: Path, figures: Figures) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report_html(figures), encoding="utf-8")


def report_html(figures: Figures) -> str:
    plots = [
        (_progress_plot, "Orders created and judged, over the whole run."),
        (_latency_plot, "Seconds from CREATED to verdict in the steady phase, order by order and as a distribution."),
        (_batches_plot, "Micro-batches: how long each took, by how many records it had."),
        (_reasons_plot, "Why orders failed; an order may have several reasons."),
    ]
    wrong = len(figures.differences)
    return PAGE.format(
        green=GREEN,
        red=RED,
        tone="bad" if wrong else "good",
        verdict=f"{wrong:,} verdicts differ from the oracle's." if wrong else "Every verdict is the oracle's.",
        tables=_table(_outcome_rows(figures)) + _table(list(figures.settings.items())) + _differences(figures),
        remarks="".join(f"<p class='bad'>{html.escape(remark)}</p>" for remark in figures.remarks()),
        plots="".join(f"<figure>{_svg(draw, figures)}<figcaption>{html.escape(caption)}</figcaption></figure>" for draw, caption in plots),
        machine=html.escape(
            f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        ),
    )


def _outcome_rows(figures: Figures) -> list[tuple[str, str]]:
    rows = [("orders in", f"{figures.orders:,}")]
    rows += [(f"\u2003{state}", f"{count:,}") for state, count in figures.states.most_common()]
    rows += [(f"dead letters: {reason}", f"{count:,}") for reason, count in figures.dead_letters.most_common()]
    if (rate := figures.orders_per_s("flood")) is not None:
        rows.append(("orders judged a second in the flood", f"{rate:,.0f}"))
    for share in (0.5, 0.99):
        if (latency := figures.latency_s("steady", share)) is not None:
            rows.append((f"p{share * 100:.0f} seconds from CREATED to verdict, steady", f"{latency:.2f}"))
    if figures.promo_lines:
        rows.append((f"burger lines, of which {figures.promo_rejected:,} over five in 24 hours", f"{figures.promo_lines:,}"))
    rows.append(("records repeated by the sink", f"{figures.repeats:,}"))
    rows.append(("whole run, seconds", f"{figures.elapsed_s:.0f}"))
    return rows


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _differences(figures: Figures) -> str:
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in figures.differences[:100])
    return f"<ul class='bad'>{lines}</ul>" if lines else ""


def _svg(draw: Callable[[Figure, Figures], None], figures: Figures) -> str:
    with mpl.rc_context({"font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"}):
        figure = Figure(figsize=(9.5, 3.4), layout="constrained")
        draw(figure, figures)
        file = io.StringIO()
        figure.savefig(file, format="svg")
    text = file.getvalue()
    return text[text.index("<svg") :]


def _progress_plot(figure: Figure, figures: Figures) -> None:
    axes = figure.subplots()
    start_ms = min((judgement.created_ms for judgement in figures.judgements), default=0)
    _cumulative(axes, [judgement.created_ms - start_ms for judgement in figures.judgements], "created", BLUE)
    for state, colour in STATE_COLOURS.items():
        judged = [judgement.judged_ms - start_ms for judgement in figures.judgements if judgement.outcome.state == state]
        if judged:
            _cumulative(axes, judged, state, colour)
    axes.set(xlabel="seconds", ylabel="orders so far")
    axes.legend(frameon=False)


def _cumulative(axes: Axes, times_ms: Sequence[int], label: str, colour: str) -> None:
    ordered = sorted(times_ms)
    step = max(1, len(ordered) // 2_000)  # as many points as a screen can show
    axes.plot([at / 1000 for at in ordered[::step]], range(1, len(ordered) + 1, step), label=label, color=colour)


def _latency_plot(figure: Figure, figures: Figures) -> None:
    series, spread = figure.subplots(1, 2)
    steady = sorted(figures.answered("steady"), key=lambda judgement: judgement.created_ms)
    start_ms = steady[0].created_ms if steady else 0
    latencies = [judgement.latency_s for judgement in steady]
    step = max(1, len(steady) // 3_000)
    series.scatter([(one.created_ms - start_ms) / 1000 for one in steady[::step]], latencies[::step], s=3, color=BLUE, linewidths=0)
    series.set(xlabel="seconds into the phase", ylabel="seconds to the verdict", ylim=(0, None))
    spread.hist(latencies, bins=40, color=BLUE)
    for share, colour in ((0.5, GREEN), (0.99, RED)):
        if (at := figures.latency_s("steady", share)) is not None:
            spread.axvline(at, color=colour, label=f"p{share * 100:.0f} {at:.2f} s")
    spread.set(xlabel="seconds to the verdict", ylabel="orders")
    spread.legend(frameon=False)


def _batches_plot(figure: Figure, figures: Figures) -> None:
    axes = figure.subplots()
    for query, colour in zip(sorted({batch.query for batch in figures.micro_batches}), (BLUE, ORANGE, GREEN), strict=False):
        batches = [batch for batch in figures.micro_batches if batch.query == query]
        axes.scatter(
            [batch.rows for batch in batches], [batch.duration_ms / 1000 for batch in batches], s=16, color=colour, label=query, alpha=0.7
        )
    axes.set(xlabel="records in the micro-batch", ylabel="seconds", xscale="log", ylim=(0, None))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(frameon=False)


def _reasons_plot(figure: Figure, figures: Figures) -> None:
    axes = figure.subplots()
    reasons = figures.reasons.most_common()[::-1]
    bars = axes.barh([reason for reason, _ in reasons], [count for _, count in reasons], color=RED)
    axes.bar_label(bars, padding=3)
    axes.set(xlabel="orders")
