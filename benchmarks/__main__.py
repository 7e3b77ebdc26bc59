"""● `python -m benchmarks`: rounds of the scenarios over the peers in turn, then a table, JSON and Markdown."""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks import report
from benchmarks.peers import PEERS, Peer
from benchmarks.published import PUBLISHED, box, publish
from benchmarks.scenarios import SCENARIOS, Scenario, raw_consume, raw_produce

WARM_S = 15.0
ONCE = {"memory"}
DEFAULT_PEERS = ["kafka", "tansu", "moldau"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Rounds of the scenarios over the peers in turn, then a table, JSON and Markdown."
    )
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help=f"scenarios whose name starts with a word: {', '.join(names)}"
    )
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=DEFAULT_PEERS, help="default: kafka tansu moldau")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured time of one load; a second of the same load goes before it")
    parser.add_argument("--warm", type=float, default=WARM_S, help="seconds of load before the first round, for the JVM's sake")
    parser.add_argument("--dir", type=Path, help="the folder for the brokers' data, on the disk to measure; default: the temporary folder")
    parser.add_argument("--publish", action="store_true", help="store the results for docs/reference/performance.md, too")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where JSON and Markdown go")
    return parser.parse_args()


def warm(peer: Peer, seconds: float) -> None:
    """Run small versions of the scenarios' loads, so that a JIT compiler has compiled every path."""
    each = max(seconds / 4, 0.1)
    raw_produce(peer, each, 990, tag="warm")
    raw_produce(peer, each, 991, tag="warm", partitions=1, records=1, record_size=100)
    raw_produce(peer, each, 992, tag="warm", partitions=1, records=1, record_size=100, connections=10)
    raw_consume(peer, each, 0, consumers=1)


def measure(peer: Peer, scenario: Scenario, seconds: float, number: int, console: Console) -> dict[str, float] | None:
    """One round of one scenario on one peer; a failure is told and leaves a gap."""
    if not peer.keeps_data and scenario.name not in ONCE | {"start"}:
        peer.stop()
        peer.start()
    try:
        return scenario.run(peer, seconds, number)
    except Exception as error:  # a scenario that fails must not end the others
        console.print(f"[yellow]{peer.name}: {scenario.name}: {error}", highlight=False)
        return None


def run(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, dict[str, list[dict[str, float]]]]:
    chosen = [scenario for scenario in SCENARIOS if any(scenario.name.startswith(word) for word in options.only)]
    results: dict[str, dict[str, list[dict[str, float]]]] = {s.name: {name: [] for name in options.peers} for s in chosen}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with ExitStack() as stack, Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        peers = []
        for name in options.peers:
            console.print(f"Starting {name}", highlight=False)
            peer = PEERS[name](directory)
            stack.callback(peer.stop)
            peer.start()
            peers.append(peer)
        for peer in peers:
            console.print(f"Warming {peer.name}", highlight=False)
            try:
                warm(peer, options.warm if peer.name == "kafka" else min(options.warm, 1.0))
            except Exception as error:  # the same failure shows again, with its scenario's name
                console.print(f"[yellow]{peer.name}: warming: {error}", highlight=False)
        task = progress.add_task("rounds", total=options.rounds * len(chosen) * len(peers))
        for number in range(options.rounds):
            for scenario in chosen:
                for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                    progress.update(task, description=f"round {number + 1}: {scenario.name} on {peer.name}")
                    if scenario.name not in ONCE or number == options.rounds - 1:
                        numbers = measure(peer, scenario, options.seconds, number, console)
                        results[scenario.name][peer.name] += [numbers] if numbers else []
                    progress.advance(task)
            if not console.is_terminal:
                console.print(f"round {number + 1} of {options.rounds} done", highlight=False)
    return results


def show(table: Sequence[report.Row], peers: Sequence[str], console: Console) -> None:
    shown = Table(title="Medians; ratios round by round", header_style="bold")
    for index, heading in enumerate(report.headings(peers)):
        shown.add_column(heading, justify="left" if index < 2 else "right", no_wrap=True)
    for each in table:
        style = {None: "", True: "green", False: "red"}[each.met]
        shown.add_row(*each.cells(peers), style=style)
    console.print(shown)


def main() -> int:
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else 200)
    about_box = box()
    directory = Path(tempfile.mkdtemp(prefix="moldau-bench-", dir=options.dir))
    try:
        results = run(options, directory, console)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    table = [row for scenario in SCENARIOS if scenario.name in results for row in report.rows(scenario, results[scenario.name])]
    show(table, options.peers, console)
    about = (
        f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}; "
        f"medians of {options.rounds} interleaved rounds of {options.seconds:g} s."
    )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "latest.md").write_text(report.markdown(table, options.peers, about), encoding="utf-8")
    (options.out / "latest.json").write_text(json.dumps({"about": about, "rounds": results}, indent=1), encoding="utf-8")
    if options.publish:
        publish(PUBLISHED / "broker.json", {"box": about_box, "rounds": options.rounds, "scenarios": results})
    console.print(f"Written: {options.out}/latest.md and latest.json", highlight=False)
    return 0 if all(row.met is not False for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
