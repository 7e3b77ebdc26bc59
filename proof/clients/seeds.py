"""● Runs schedules from the command line: `python -m proof.clients.group_schedules FIRST COUNT [--plant NAME] [--trace]`."""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Protocol

from moldau.testing.loop import SimLoop
from proof.clients.plants import Plant, planted

SHOWN = 4
"""The number of violations of a seed that are printed."""


class OnALoop(Protocol):
    @property
    def loop(self) -> SimLoop: ...


class Seeded(Protocol):
    """A schedule."""

    @property
    def world(self) -> OnALoop: ...

    done: Counter[str]
    """The counted events."""

    def run(self) -> list[str]: ...


def seed_that_finds(plant: Plant, new: Callable[[int], Seeded], first: int, tried: int = 600) -> int | None:
    """The seed that finds a planted fault: `first`, or else the lowest of so many.

    Any change of a client or of a broker makes another history of a seed, so no single seed finds a fault for good.
    """
    with planted(plant):
        return next((seed for seed in (first, *range(tried)) if new(seed).run()), None)


def run_seeds(new: Callable[[int], Seeded], plants: Mapping[str, Plant]) -> int:
    """Print each violation with its seed.  With a planted fault the first seed that finds it is the last.

    Ctrl-C ends the run early, with its summary.  Returns the exit status.
    """
    parser = argparse.ArgumentParser(description="Runs schedules of faults, each from a seed.")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--plant", choices=plants, help="break the client in this way, and stop at the first seed that shows it")
    parser.add_argument("--trace", action="store_true", help="print a digest of each seed's history: it is the same in every run")
    given = parser.parse_args()
    tried, failed, done, began = 0, 0, Counter[str](), time.monotonic()
    with suppress(KeyboardInterrupt):
        for seed in range(given.first, given.first + given.count):
            schedule = new(seed)
            with planted(plants[given.plant]) if given.plant else nullcontext():
                violations = schedule.run()
            tried += 1
            if given.trace:
                print(f"seed {seed}: trace {schedule.world.loop.trace.digest}", flush=True)
            done.update(schedule.done)
            failed += bool(violations)
            for violation in violations[:SHOWN]:
                print(f"seed {seed}: {violation}", flush=True)
            if given.plant and violations:
                break
    counted = ", ".join(f"{count} {name}" for name, count in sorted(done.items()))
    print(f"{tried} schedules, {failed} with violations, {time.monotonic() - began:.0f} s; {counted}")
    return 1 if failed else 0
