"""● `python -m benchmarks.micro [WORD …]`: microseconds a call of hot functions and messages, beside their budgets.

The figures are CPU time of this thread, the best and the median of many short runs.  Other work on the machine hardly shows in them.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.micro.cases import CASES, Call, bench
from benchmarks.micro.marks import hot_functions
from benchmarks.micro.messages import BUDGETS_US

RUN_NS = 2_000_000
RUNS = 40


def microseconds(call: Call) -> tuple[float, float]:
    """The best and the median of the runs."""
    count = calls_a_run(call)
    results = sorted(timed(call, count) / count / 1000 for _ in range(RUNS))
    return results[0], median(results)


def calls_a_run(call: Call) -> int:
    count = 1
    while timed(call, count) < RUN_NS / 2 and count < 1_000_000:
        count *= 2
    return count


def timed(call: Call, count: int) -> int:
    clock = time.thread_time_ns
    begin = clock()
    for _ in range(count):
        call()
    return clock() - begin


async def measure(words: Sequence[str]) -> dict[str, tuple[str, float, float] | None]:
    """Name → budget, best, median; None where the function has no case.  Asynchronous, because connections want a running loop."""
    results: dict[str, tuple[str, float, float] | None] = {}
    for hot in hot_functions():
        if words and not any(word in hot.name for word in words):
            continue
        make = CASES.get(hot.name)
        if make is None:
            results[hot.name] = None
            continue
        with bench() as at:
            results[hot.name] = (hot.budget, *microseconds(make(at)))
    for prepare, budget_us in BUDGETS_US.items():
        name = f"messages.{prepare.__name__}"
        if not words or any(word in name for word in words):
            results[name] = (f"{budget_us:g} µs", *microseconds(prepare()))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro", description="Microseconds a call of hot functions and messages, beside their budgets."
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="only functions whose name contains one of these")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    results = asyncio.run(measure(options.words))
    table = Table("function", "best µs", "median µs", "budget", title="CPU time a call")
    for name, result in results.items():
        table.add_row(name, *(("–", "–", "has no case") if result is None else (f"{result[1]:.2f}", f"{result[2]:.2f}", result[0])))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
    return 1 if None in results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
