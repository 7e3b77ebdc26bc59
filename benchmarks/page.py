"""● `python -m benchmarks.page`: docs/reference/performance.md and its pictures, from the results in `benchmarks/published`."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from string import Template
from typing import Any, Final

from benchmarks import report
from benchmarks.published import PUBLISHED, read, series, told
from benchmarks.python_clients import CASES, CLIENTS, OURS
from benchmarks.scenarios import SCENARIOS

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/reference/performance.md"
IMAGES: Final = ROOT / "docs/images"
BROKERS: Final = {"moldau-os": "our broker, with `log.flush.policy=os`", "kafka": "Apache Kafka 4.3.1"}
CALLS: Final = {
    "produce-lists": "`send_many`",
    "produce-each": "`send`, record by record",
    "consume-batches": "`poll`, all values",
    "consume-each": "`async for`",
    "latency": "1,000 records a second",
}
MEMORY: Final = {
    "send": "`send`, record by record, without a wait",
    "send_many": "`send_many`, a caller for each list",
    "poll": "`poll`, records of 4 MiB, a slow caller",
}
NOT_YET: Final = "Not measured for this page yet: `{command}` does."


def page(folder: Path = PUBLISHED) -> str:
    """The whole page."""
    template = Template((Path(__file__).parent / "page_template.md").read_text(encoding="utf-8"))
    return template.substitute(clients=clients(folder), memory=memory(folder), broker=broker(folder), pipelines=pipelines(folder))


def table(rows: Sequence[Sequence[str]]) -> str:
    heading, *others = rows
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *others]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def spread(values: Sequence[float]) -> str:
    """The median, the lowest and the highest."""
    if not values:
        return "–"
    if len(values) == 1:
        return report.figure(values[0])
    return f"{report.figure(median(values))} ({report.figure(min(values))}–{report.figure(max(values))})"


# ---------------------------------------------------------------- clients


def clients(folder: Path) -> str:
    found = read("clients", folder)
    if found is None:
        return NOT_YET.format(command="make performance")
    parts = [f"{told(found['box'])}  Rounds: {found['rounds']}.", "![Records a second of each client](../images/clients.svg)"]
    for name, results in found["brokers"].items():
        parts.append(f"On {BROKERS.get(name, name)}, records a second; behind each other client, ours to it:")
        parts.append(table([["load", "ours", *CLIENTS[1:]], *_case_rows(results, "records_s", _beside_ours)]))
        parts.append("Microseconds of a processor that the client's process takes for a record:")
        parts.append(table([["load", "ours", *CLIENTS[1:]], *_case_rows(results, "cpu_us", _alone)]))
        parts.append("From when a record of 100 B was due until its acknowledgement, in milliseconds; in a later run, with exact timers:")
        latencies = [[f"{label} of 1,000 a second", *cells] for label, cells in _latencies(results)]
        parts.append(table([["", "ours", *CLIENTS[1:]], *latencies]))
    return "\n\n".join(parts)


def _case_rows(results: Mapping[str, Any], metric: str, cell: Callable[[Mapping[str, Any], str, str, str], str]) -> list[list[str]]:
    shown = [case for case in CASES if case.name in results and metric in case.metrics]
    return [
        [f"{CALLS[case.load]}, {case.size_name}", spread(series(results, case.name, OURS, metric))]
        + [cell(results, case.name, client, metric) for client in CLIENTS[1:]]
        for case in shown
    ]


def _alone(results: Mapping[str, Any], case: str, client: str, metric: str) -> str:
    return spread(series(results, case, client, metric))


def _beside_ours(results: Mapping[str, Any], case: str, client: str, metric: str) -> str:
    rounds = zip(results[case].get(OURS, ()), results[case].get(client, ()), strict=False)
    pairs = [(ours[metric], theirs[metric]) for ours, theirs in rounds if metric in ours and metric in theirs]
    ratio = report.ratio_of([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
    return "–" if ratio is None else f"{report.figure(median(theirs for _, theirs in pairs))}: {ratio}"


def _latencies(results: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    case = next((case for case in CASES if case.load == "latency" and case.name in results), None)
    if case is None:
        return []
    labels = {"p50_ms": "half of the records", "p99_ms": "99 of 100 records"}
    return [(label, [spread(series(results, case.name, client, metric)) for client in CLIENTS]) for metric, label in labels.items()]


# ---------------------------------------------------------------- memory, broker, pipelines


def memory(folder: Path) -> str:
    found = read("memory", folder)
    if found is None:
        return NOT_YET.format(command="make performance")
    rows = [["load", "offered, GB/s", "limit, MB", "grown, MB", "grown : limit"]]
    for name, rounds in found["loads"].items():
        cells = [spread([one[key] for one in rounds if key in one]) for key in ("offered_gb_s", "limit_mb", "grown_mb", "grown_to_limit")]
        cells[1] = report.figure(rounds[0]["limit_mb"])
        rows.append([MEMORY[name], *cells])
    return "\n\n".join(
        [
            "The broker stands still (SIGSTOP) while 16 tasks offer values of 64 KiB to one producer.  The limit is `buffer_memory`, and "
            "`prefetch_max_bytes` of the consumer.  `send` keeps the buffer once in batches, and once more in records that wait for room; "
            "then it refuses with `BufferFull`.  Every record that was taken is acknowledged once the broker goes on.",
            f"{told(found['box'])}  Rounds: {found['rounds']}.",
            table(rows),
        ]
    )


def broker(folder: Path) -> str:
    found = read("broker", folder)
    if found is None:
        return NOT_YET.format(command="make bench ARGS=--publish")
    scenarios = {scenario.name: scenario for scenario in SCENARIOS}
    peers = list(dict.fromkeys(peer for rounds in found["scenarios"].values() for peer in rounds))
    rows = [row for name, rounds in found["scenarios"].items() if name in scenarios for row in report.rows(scenarios[name], rounds)]
    return "\n\n".join(
        [
            f"{told(found['box'])}  Rounds: {found['rounds']}.",
            "![Our broker's figures as multiples of Apache Kafka's](../images/broker.svg)",
            table([report.headings(peers), *(row.cells(peers) for row in rows)]),
        ]
    )


def pipelines(folder: Path) -> str:
    parts = []
    for kind, title in (("ours", "our broker"), ("apache", "Apache Kafka 4.3.1")):
        found = read(f"pipelines-{kind}", folder)
        if found is None:
            continue
        rows = [["on " + title, "rows a second", "µs of a processor a row"]]
        for name, rates in found["rates"].items():
            rows.append([name, spread([one["rows_per_s"] for one in rates]), spread([one["cpu_us"] for one in rates])])
        parts += [f"{told(found['box'])}  Rounds: {found['rounds']}.  `kafka` is Spark's stock connector.", table(rows)]
    return "\n\n".join(parts) or NOT_YET.format(command="python -m benchmarks.pipelines ours --publish")


def main() -> int:
    argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__).parse_args()
    from benchmarks import pictures

    PAGE.write_text(page(), encoding="utf-8")
    drawn = pictures.draw(PUBLISHED, IMAGES)
    print(f"Written: {', '.join(str(path.relative_to(ROOT)) for path in (PAGE, *drawn))}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
