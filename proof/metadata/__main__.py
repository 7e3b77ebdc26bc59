"""● `python -m proof.metadata --seeds 100000`: decides so many cases with our rules and with Kafka's, and prints the differences."""

import argparse
import sys
import time
from collections import Counter

from proof.metadata.comparison import begin, differences
from proof.metadata.oracle import Oracle


def main() -> int:
    """Run the seeds.  Returns the exit code: 1 if we differ somewhere without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=3_000, help="how many")
    given = parser.parse_args()
    steps: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    unexplained = 0
    begun = time.monotonic()
    with Oracle() as oracle:
        for seed in range(given.first, given.first + given.seeds):
            case = begin(seed)
            steps.update(one.step.op for one in case.decided)
            for found in differences(case, oracle.ask(case.question())):
                if found.accepted is not None:
                    accepted[found.accepted] += 1
                    continue
                unexplained += 1
                print(
                    f"seed {seed}: {found.step.op}, {found.what}\n  ours   {found.ours}\n  Kafka's {found.theirs}\n  {found.step.request}"
                )
    print(f"{given.seeds} cases, {sum(steps.values())} decisions in {time.monotonic() - begun:.0f} s: {dict(steps)}")
    for why, count in accepted.most_common():
        print(f"{count:6} {why}")
    print(f"{unexplained:6} without a reason")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
