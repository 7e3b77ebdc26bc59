"""● `python -m proof.transactions.schedules`: runs schedules from seeds, and prints counts of their events and the violations.

The exit code is 1 if there are violations.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from proof.transactions.schedules.plants import PLANTS, planted
from proof.transactions.schedules.schedule import Outcome, Schedule

SHOWN: Final = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.transactions.schedules", description="Transactions under ghosts, from seeds.")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--schedules", type=int, default=1000, help="how many seeds, each as version 1 and 2 (default 1000)")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="break the broker like this, and stop at the first seed that finds it")
    parser.add_argument("--version", type=int, choices=(1, 2), help="only clients of this transaction.version")
    options = parser.parse_args(arguments)
    if options.plant is not None:
        return _plant(options)
    began = time.monotonic()
    done: Counter[str] = Counter()
    bad: list[Outcome] = []
    versions = (options.version,) if options.version else (1, 2)
    for seed in range(options.seed, options.seed + options.schedules):
        for version in versions:
            outcome = Schedule(seed, version=version).run()
            done.update(outcome.done)
            done["schedules"] += 1
            if outcome.violations:
                bad.append(outcome)
                if len(bad) <= SHOWN:
                    print(f"seed {seed}, version {version}:", *outcome.violations[:4], sep="\n    ", flush=True)
    elapsed_s = time.monotonic() - began
    print(f"{done.pop('schedules')} schedules from seed {options.seed} in {elapsed_s:.0f} s: {len(bad)} with violations")
    print("    " + ", ".join(f"{name} {count:,}" for name, count in sorted(done.items())))
    return 1 if bad else 0


def _plant(options: argparse.Namespace) -> int:
    """Print the seed that finds the planted fault."""
    with planted(options.plant):
        for version in (options.version,) if options.version else (1, 2):
            found = first_found(version, range(options.seed, options.seed + options.schedules))
            print(f"{options.plant}, version {version}: ", end="")
            print(f"seed {found.seed}: {found.violations[0]}" if found else f"not found in {options.schedules} seeds")
    return 0


def first_found(version: int, seeds: Iterable[int]) -> Outcome | None:
    outcomes = (Schedule(seed, version=version).run() for seed in seeds)
    return next((outcome for outcome in outcomes if outcome.violations), None)


if __name__ == "__main__":
    logging.disable()  # the brokers would log every fault
    sys.exit(main())
