"""● `make sim SEED=7 HOURS=10`: simulates hours of a cluster's life under faults, in minutes, and prints what went wrong.

    python -m proof.cluster.simulate --seed 7 --hours 0.5 --seeds 20
    python -m proof.cluster.simulate --plant aborted-given --seeds 20     # how soon a planted fault is found

Seeds that find something are printed and appended to `--seeds-file`; every run of the tests begins with the seeds in
`tests/simulation/seeds.txt`.  After such a seed the exit code is 1.
"""

import argparse
import gc
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from proof.cluster.plants import ALL_PLANTS, planted
from proof.cluster.simulation import ROUND_S, Result, Simulation
from proof.coordination import watched_decisions

SHOWN_VIOLATIONS: Final = 10


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    gc.collect()
    gc.freeze()  # each simulation collects garbage at its end, and need not look through modules and classes
    try:
        with watched_decisions(), planted(options.plant) if options.plant else nullcontext():
            return _simulate(options)
    finally:
        gc.unfreeze()


def _simulate(options: argparse.Namespace) -> int:
    bad: list[Result] = []
    total: Counter[str] = Counter()
    events, virtual_s, began = 0, 0.0, time.monotonic()
    seeds = range(options.seed, options.seed + options.seeds)
    for seed in seeds:
        _show(f"seed {seed}: begins; {len(bad)} of {seed - options.seed} seeds found something")
        result = Simulation(seed, rounds=options.rounds, on_round=_show, verbose=options.verbose).run()
        total.update(result.done)
        events += result.events
        virtual_s += result.virtual_s
        if result.violations:
            bad.append(result)
            _tell(result)
            if options.seeds_file is not None and not options.plant:
                _remember(options.seeds_file, seed, result.violations[0])
            if options.plant:
                break
        elif options.seeds == 1:
            _line(f"seed {seed}: trace {result.digest}")
    elapsed_s = time.monotonic() - began
    _line(
        f"{len(seeds)} seed(s) from {options.seed}: {virtual_s / 3600:.2f} hours of cluster time in {elapsed_s:.0f} s, {events:,} events, "
        f"{total['send OK']:,} sends acknowledged, {total['poll']:,} polls, {total['broker start']:,} starts of a broker"
    )
    _line("  " + ", ".join(f"{name} {count:,}" for name, count in sorted(total.items())))
    if bad:
        _line(f"FAILED: seed(s) {', '.join(str(result.seed) for result in bad)}")
        return 1
    _line("passed: nothing acknowledged was lost, doubled, reordered or made up")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof.cluster.simulate", description="Simulate a cluster under faults, from a seed.")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other (default 1)")
    parser.add_argument("--hours", type=float, default=0.1, help="virtual hours a seed (default 0.1)")
    parser.add_argument("--seeds-file", type=Path, help="append seeds that find something to this file")
    parser.add_argument("--plant", choices=sorted(ALL_PLANTS), help="break the node like this, and stop at the first seed that finds it")
    parser.add_argument("--verbose", action="store_true", help="show what the brokers log")
    options = parser.parse_args(arguments)
    options.rounds = max(1, math.ceil(options.hours * 3600 / ROUND_S))
    return options


def _tell(result: Result) -> None:
    _line(f"seed {result.seed}: {len(result.violations)} violation(s) after {result.virtual_s:.0f} virtual seconds, trace {result.digest}")
    for violation in result.violations[:SHOWN_VIOLATIONS]:
        _line("  " + violation.replace("\n", "\n  "))
    if len(result.violations) > SHOWN_VIOLATIONS:
        _line(f"  and {len(result.violations) - SHOWN_VIOLATIONS} more")


def _remember(path: Path, seed: int, why: str) -> None:
    known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if not any(line.split("#")[0].strip() == str(seed) for line in known):
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{seed}  # {why.splitlines()[0][:120]}\n")


def _show(text: str) -> None:
    """Show progress on one line.  The next call replaces the line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _line(text: str) -> None:
    _show("")
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
