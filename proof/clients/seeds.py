"""● Runs schedules from the command line: `python -m proof.clients.group_schedules FIRST COUNT`."""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

SHOWN = 4


class Seeded(Protocol):
    """A schedule."""

    done: Counter[str]
    """What happened, counted."""

    def run(self) -> list[str]: ...


def run_seeds(new: Callable[[int], Seeded]) -> int:
    """Prints each violation with its seed.  Returns the exit status."""
    parser = argparse.ArgumentParser(description="Runs schedules of faults, each from a seed.")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    given = parser.parse_args()
    failed, done, began = 0, Counter[str](), time.monotonic()
    for seed in range(given.first, given.first + given.count):
        schedule = new(seed)
        violations = schedule.run()
        done.update(schedule.done)
        failed += bool(violations)
        for violation in violations[:SHOWN]:
            print(f"seed {seed}: {violation}", flush=True)
    counted = ", ".join(f"{count} {name}" for name, count in sorted(done.items()))
    print(f"{given.count} schedules, {failed} with violations, {time.monotonic() - began:.0f} s; {counted}")
    return 1 if failed else 0
