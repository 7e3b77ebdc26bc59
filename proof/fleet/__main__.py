"""● `python -m proof.fleet --seeds 100`: simulates so many lives of clusters of real nodes, and prints the violations."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from proof.fleet.counting import Counting
from proof.fleet.fleet import SHAPES
from proof.fleet.forgetting import Forgetting
from proof.fleet.hunts import HUNTS, HUNTS_IN_PAGE_CACHES, HUNTS_WITHOUT_ELR, Hunt
from proof.fleet.life import Life, live
from proof.fleet.plants import COORDINATOR_PLANTS, PLANTS, planted
from proof.fleet.reading import Reading
from proof.fleet.sharing import Sharing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds.  Returns the exit code: 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m proof.fleet", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--shape", choices=[str(one) for one in SHAPES], help="only this one; otherwise the seed chooses")
    parser.add_argument("--count", action="store_true", help="lives with transactions, too")
    parser.add_argument("--forget", action="store_true", help="lives in which a topic and its records are deleted, too")
    parser.add_argument("--read", action="store_true", help="lives with a group of readers, too")
    parser.add_argument("--share", action="store_true", help="lives with a share group, too")
    parser.add_argument("--hunt", action="store_true", help="lives that bring rare events together on purpose")
    hunts = sorted({one.__name__.removeprefix("_") for one in (*HUNTS, *HUNTS_IN_PAGE_CACHES, *HUNTS_WITHOUT_ELR)})
    parser.add_argument("--only", choices=hunts, help="hunt, and only in this way")
    parser.add_argument(
        "--plant", choices=sorted((*PLANTS, *COORDINATOR_PLANTS)), action="append", help="plant only this fault; may be given several times"
    )
    parser.add_argument(
        "--plants", action="store_true", help="plant each fault in turn, with --count those of coordinators, and tell which seed finds it"
    )
    parser.add_argument("--verbose", action="store_true", help="show what the nodes log")
    given = parser.parse_args(arguments)
    shape = next((one for one in SHAPES if str(one) == given.shape), None)
    kinds: dict[str, Callable[..., Life]] = {
        "count": Counting,
        "forget": Forgetting,
        "read": Reading,
        "share": Sharing,
        "hunt": partial(Hunt, only=given.only),
    }
    chosen = "hunt" if given.only else next((name for name in kinds if getattr(given, name)), None)
    kind = Life if chosen is None else kinds[chosen]
    if given.plants or given.plant:
        names = given.plant or (COORDINATOR_PLANTS if given.count else PLANTS)
        return sum(not _found(name, kind, given.first, given.seeds) for name in names)
    done: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    alive_s: list[float] = []
    bad: list[int] = []
    virtual_s, looks, begun = 0.0, 0, time.process_time()
    for number, seed in enumerate(range(given.first, given.first + given.seeds), start=1):
        result = live(seed, kind=kind, shape=shape, verbose=given.verbose)
        done += result.done
        shapes[result.shape] += 1
        virtual_s, looks = virtual_s + result.virtual_s, looks + result.looks
        alive_s.append(result.alive_s)
        if result.violations:
            bad.append(seed)
            _say(f"seed {seed} ({result.shape}): " + "\n  ".join(result.violations[:5]))
        if number % 100 == 0 or number == given.seeds:
            _say(
                f"{number} seeds to {seed}: {time.process_time() - begun:.0f} s of a processor, {virtual_s / 3600:.2f} hours of clusters, "
                f"looked {looks:,} times, {done['acknowledged']:,} records acknowledged, {done['start']:,} starts, "
                f"alive after {max(alive_s):.1f} s at most, bad {bad}"
            )
    _say(", ".join(f"{name} {count:,}" for name, count in sorted((done + shapes).items())))
    return int(bool(bad))


def _found(name: str, kind: Callable[..., Life], first: int, seeds: int) -> bool:
    with planted(name):
        for number in range(seeds):
            result = live(first + number, kind=kind)
            if result.violations:
                _say(f"{name}: {number + 1}: {result.violations[0][:200]}")
                return True
    _say(f"{name}: not in {seeds}")
    return False


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
