"""● The order validation as a service of its own: `python -m moldau.pipelines.validation --bootstrap-server … --checkpoint …`.

It runs until it is stopped, goes on from its checkpoint when it is started again, and starts a failed query again itself.
Ctrl-C and SIGTERM end it cleanly; a SIGKILL costs nothing but the repetition of one micro-batch.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial

from moldau.pipelines import retail
from moldau.pipelines.kafka import MAX_RECORDS_PER_BATCH, KafkaEnds
from moldau.pipelines.runner import Kept, keep_running
from moldau.pipelines.session import noted_interrupts, open_session
from moldau.pipelines.validation import job
from moldau.pipelines.validation.model import Topics


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m moldau.pipelines.validation", description="Judge orders until stopped; goes on from its checkpoint."
    )
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    parser.add_argument("--checkpoint", required=True, metavar="URL", help="a folder or URL that outlives the job")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--topic-prefix", default="")
    parser.add_argument("--max-records-per-batch", type=int, default=MAX_RECORDS_PER_BATCH)
    parser.add_argument("--deadline", type=int, default=600, metavar="SECONDS", help="an order without all answers is judged then")
    parser.add_argument("--straggler", type=int, default=600, metavar="SECONDS", help="the same, counted from the order's first answer")
    given = parser.parse_args(arguments)
    spark = open_session("order validation", master=given.master)
    stopping = noted_interrupts()
    ends = KafkaEnds(given.bootstrap_server, given.checkpoint, given.max_records_per_batch)
    waits = {"deadline_ms": given.deadline * 1000, "straggler_ms": given.straggler * 1000}
    config = job.JobConfig(ends, retail.catalogue(), Topics.prefixed(given.topic_prefix), **waits)
    queries = [Kept(name, partial(job.start_one, spark, config, name)) for name in (job.CHECKS, job.AGGREGATOR)]
    keep_running(queries, stopping, lambda line: print(line, file=sys.stderr, flush=True), time.monotonic)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
