"""● `python -m benchmarks.python_clients`: Python's Kafka clients side by side on one broker of ours, in rounds.

Each load runs in a process of its own (`python_loads`), the clients in turn.  A ratio compares two clients of the same round, so that the
machine's mood strikes both.  The output is `results/python_clients.md`, its JSON and, with `--plot FILE`, the picture of the README.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.clients import create_topic
from benchmarks.peers import PEERS, Peer
from benchmarks.python_loads import LOADS
from benchmarks.report import Ratio, figure, ratio_of
from benchmarks.scenarios import run_module

OURS: Final = "moldau"
PARTITIONS: Final = 4
FILLER: Final = "confluent-kafka"
RATE: Final = 1000.0


class Case(NamedTuple):
    load: str
    size_name: str
    record_size: int
    records: int
    metrics: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.load}, {self.size_name}"


SPEED: Final = ("records_s", "cpu_us")
CASES: Final = (
    Case("produce-lists", "100 B", 100, 500_000, SPEED),
    Case("produce-lists", "1 KiB", 1024, 200_000, SPEED),
    Case("produce-each", "100 B", 100, 150_000, SPEED),
    Case("consume-batches", "100 B", 100, 1_000_000, SPEED),
    Case("consume-batches", "1 KiB", 1024, 300_000, SPEED),
    Case("consume-batches", "20 to 180 B", 0, 1_000_000, SPEED),
    Case("consume-each", "100 B", 100, 200_000, SPEED),
    Case("latency", "100 B", 100, 3_000, ("p50_ms", "p99_ms")),
)
Results = dict[str, dict[str, list[dict[str, float]]]]
"""Case → client → one dictionary of numbers a round."""


def run(peer: Peer, rounds: int, only: Sequence[str]) -> Results:
    """Run all rounds.  librdkafka fills the topics of the consuming loads once."""
    cases = [case for case in CASES if any(case.name.startswith(word) for word in only)]
    results: Results = {case.name: {client: [] for client in LOADS[case.load]} for case in cases}
    for case in cases:
        topic = f"read-{case.record_size}"
        if case.load.startswith("consume") and not getattr(peer, topic, False):
            create_topic(peer.bootstrap, topic, PARTITIONS)
            most = max(other.records for other in cases if other.record_size == case.record_size)
            run_module("benchmarks.python_loads", spec(peer, case._replace(load="produce-lists", records=most), FILLER, topic))
            setattr(peer, topic, True)
    for number in range(rounds):
        for case in cases:
            clients = list(LOADS[case.load])
            for client in clients[number % len(clients) :] + clients[: number % len(clients)]:
                topic = f"read-{case.record_size}"
                if not case.load.startswith("consume"):
                    topic = f"{case.load}-{case.record_size}-{client}-{number}"
                    create_topic(peer.bootstrap, topic, PARTITIONS)
                numbers = run_module("benchmarks.python_loads", spec(peer, case, client, topic))
                results[case.name][client].append(numbers)  # type: ignore[arg-type]  # a load prints numbers
                print(f"round {number + 1}: {case.name}, {client}: {numbers}", flush=True)
    return results


def spec(peer: Peer, case: Case, client: str, topic: str) -> dict[str, Any]:
    return {
        "client": client,
        "load": case.load,
        "bootstrap": peer.bootstrap,
        "topic": topic,
        "partitions": PARTITIONS,
        "records": case.records,
        "record_size": case.record_size,
        "rate": RATE,
    }


def table(results: Results) -> list[str]:
    """The results in Markdown.  The brackets compare ours with theirs: the median of the rounds' ratios, the lowest and the highest."""
    clients = [OURS, "confluent-kafka", "aiokafka", "kafka-python"]
    lines = [f"| load | metric | {' | '.join(clients)} |", "|" + "---|" * (len(clients) + 2)]
    for case in CASES:
        for metric in case.metrics if case.name in results else ():
            cells = [cell(results[case.name], client, metric) for client in clients]
            lines.append(f"| {case.name} | {metric} | {' | '.join(cells)} |")
    return lines


def cell(rounds: Mapping[str, Sequence[Mapping[str, float]]], client: str, metric: str) -> str:
    numbers = [each[metric] for each in rounds.get(client, ())]
    if not numbers:
        return "–"
    if client == OURS:
        return figure(median(numbers))
    ratio: Ratio | None = ratio_of([each[metric] for each in rounds[OURS]], numbers)
    return f"{figure(median(numbers))} ({ratio})"


def plot(results: Results, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [case.name for case in CASES if case.metrics == SPEED and case.name in results]
    clients = [OURS, "confluent-kafka", "aiokafka", "kafka-python"]
    shown, axes = pyplot.subplots(figsize=(9, 0.7 * len(names) + 1))
    height = 0.8 / len(clients)
    for place, client in enumerate(clients):
        rates = [median([each["records_s"] for each in results[name].get(client, [])] or [0.0]) / 1000 for name in names]
        axes.barh([row + place * height for row in range(len(names))], rates, height, label=client)
    axes.set_yticks([row + 0.3 for row in range(len(names))], names)
    axes.invert_yaxis()
    axes.set_xlabel("thousand records a second")
    axes.legend()
    shown.tight_layout()
    shown.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.python_clients", description="Python's Kafka clients side by side.")
    parser.add_argument("--broker", choices=list(PEERS), default="moldau-os")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="only loads whose name starts with a word")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--plot", type=Path, help="an SVG for the README")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder:
        peer = PEERS[options.broker](Path(folder))
        peer.start()
        try:
            results = run(peer, options.rounds, options.only)
        finally:
            peer.stop()
    about = f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.0f}, Python {platform.python_version()}"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "python_clients.md").write_text("\n".join([about, "", *table(results)]) + "\n", encoding="utf-8")
    (options.out / "python_clients.json").write_text(json.dumps({"about": about, "rounds": results}, indent=1), encoding="utf-8")
    if options.plot is not None:
        plot(results, options.plot)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
