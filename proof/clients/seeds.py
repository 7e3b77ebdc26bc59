"""● Runs schedules from the command line: `python -m proof.clients.group_schedules FIRST COUNT`."""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

SHOWN = 4
"""The number of violations of a seed that are printed."""


class Seeded(Protocol):
    """A schedule."""

    done: Counter[str]
    """The counted events."""

    def run(self) -> list[str]: ...


def run_seeds(new: Callable[[int], Seeded]) -> int:
    """Print each violation with its seed.  Ctrl-C ends the run early, with its summary.  Returns the exit status."""
    parser = argparse.ArgumentParser(description="Runs schedules of faults, each from a seed.")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    given = parser.parse_args()
    tried, failed, done, began = 0, 0, Counter[str](), time.monotonic()
    with suppress(KeyboardInterrupt):
        for seed in range(given.first, given.first + given.count):
            schedule = new(seed)
            violations = schedule.run()
            tried += 1
            done.update(schedule.done)
            failed += bool(violations)
            for violation in violations[:SHOWN]:
                print(f"seed {seed}: {violation}", flush=True)
    counted = ", ".join(f"{count} {name}" for name, count in sorted(done.items()))
    print(f"{tried} schedules, {failed} with violations, {time.monotonic() - began:.0f} s; {counted}")
    return 1 if failed else 0
