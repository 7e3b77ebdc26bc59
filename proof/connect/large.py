"""● One large transaction of PostgreSQL, told while our connector's task is cut off: each row comes once, and in order.

    python -m proof.connect.large --rows 1000000 --kills 3

A task that is cut off leaves its slot where it was, so the next one reads the transaction from its beginning and passes over the rows that
were told.
"""

import argparse
import asyncio
import resource
import sys
import time
from collections.abc import Mapping
from random import Random
from typing import Any

from moldau.connect.connectors.postgres.source import PostgresTask
from proof.connect.postgres import Postgres


class _Committed:
    offset_of_last: Mapping[str, Any] | None = None

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.offset_of_last


async def run(rows: int, kills: int, seed: int) -> int:
    """Returns the number of rows that are lost, repeated or out of order."""
    random, committed = Random(seed), _Committed()
    ends = sorted(random.randrange(1, rows) for _ in range(kills))
    with Postgres() as server, server.connect() as db:
        db.execute("CREATE TABLE large (id int PRIMARY KEY, name text)")
        config = {**server.options, "topic.prefix": "db", "snapshot.mode": "never", "slot.name": "large", "poll.interval.ms": "10"}
        task = PostgresTask()
        await task.start(config, committed)
        db.execute("INSERT INTO large SELECT n, 'row ' || n FROM generate_series(1, %s) n", [rows])
        begin, expected, wrong = time.process_time(), 1, 0
        while expected <= rows:
            records = await task.poll()
            for record in records:
                assert record.value is not None
                wrong += record.value.values["after"].values["id"] != expected
                expected += 1
            if records:
                committed.offset_of_last = records[-1].source_offset
            if ends and expected > ends[0]:
                ends.pop(0)
                await task.stop()
                task = PostgresTask()
                await task.start(config, committed)
            else:
                await task.commit()
        wrong += len(await task.poll())
        await task.stop()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{rows} rows, {kills} kills: {wrong} wrong, {time.process_time() - begin:.0f} CPU seconds, {memory} MiB at most")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Read one large transaction while the reader is cut off.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many rows (1000000)")
    parser.add_argument("--kills", type=int, default=3, help="how often the task is cut off (3)")
    parser.add_argument("--seed", type=int, default=1, help="where it is cut off (1)")
    options = parser.parse_args()
    return 1 if asyncio.run(run(options.rows, options.kills, options.seed)) else 0


if __name__ == "__main__":
    sys.exit(main())
