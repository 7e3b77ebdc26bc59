"""● The command: see the package."""

import argparse
import asyncio
import resource
import sys
import time
from contextlib import ExitStack
from random import Random

from moldau.testing.process import BrokerProcess
from proof.connect.debezium.busy import compare_busy
from proof.connect.debezium.oracle import Debezium
from proof.connect.debezium.play import compare, compare_killed
from proof.connect.postgres import Postgres
from proof.connect.stories import LARGE, story

FILL = 3000
STEPS = 5000
"""More than a busy story plays."""


async def run(stories: int, seed: int, large: int | None, kills: int, is_busy: bool) -> int:
    """Returns the number of stories that differ."""
    wrong = records = 0
    with ExitStack() as stack:
        server, debezium = stack.enter_context(Postgres()), stack.enter_context(Debezium())
        broker = stack.enter_context(BrokerProcess()) if kills else None
        for number in range(seed, seed + stories):
            begin = time.monotonic()
            if is_busy:
                found = await compare_busy(server, debezium, story(Random(number), steps=STEPS, fill=FILL), f"busy_{number}")
            else:
                told = story(Random(number), large=large or LARGE, has_large=large is not None)
                if broker is None:
                    found = await compare(server, debezium, told, f"story_{number}")
                else:
                    found = await compare_killed(server, debezium, broker, told, f"killed_{number}", kills)
            count, differences = found
            records += count
            wrong += bool(differences)
            took = f"story {number}: {count} records, {time.monotonic() - begin:.0f} s"
            print(took, *differences, sep="\n  ", flush=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{stories} stories, {records} records: {wrong} stories differ; {memory} MiB at most")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="proof.connect.debezium", description="Compare Debezium's records with ours on random stories.")
    parser.add_argument("--stories", type=int, default=10, help="how many stories (10)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first story; each next one has the next number (1)")
    parser.add_argument("--large", type=int, metavar="ROWS", help="each story has one transaction of so many rows")
    parser.add_argument("--kills", type=int, default=0, help="how often a worker of ours is killed in a story; none: a task is cut off")
    parser.add_argument("--busy", action="store_true", help="the tables change during the snapshots")
    options = parser.parse_args()
    if options.busy and (options.large or options.kills):
        parser.error("--busy goes without --large and --kills")
    return 1 if asyncio.run(run(options.stories, options.seed, options.large, options.kills, options.busy)) else 0


if __name__ == "__main__":
    sys.exit(main())
