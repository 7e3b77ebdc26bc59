"""● The order validation as a service of its own: `python -m moldau.pipelines.validation --bootstrap-server … --checkpoint …`.

It runs until it is stopped and goes on from its checkpoint when it is started again.  Ctrl-C and SIGTERM end it cleanly;
a SIGKILL costs nothing but the repetition of one micro-batch.
"""

import argparse
import sys
from collections.abc import Sequence

from moldau.pipelines import retail
from moldau.pipelines.kafka import MAX_RECORDS_PER_BATCH, KafkaEnds
from moldau.pipelines.session import noted_interrupts, open_session
from moldau.pipelines.validation import job
from moldau.pipelines.validation.model import Topics

LOOKS_EVERY_S = 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m moldau.pipelines.validation", description="Judge orders until stopped; goes on from its checkpoint."
    )
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    parser.add_argument("--checkpoint", required=True, metavar="URL", help="a folder or URL that outlives the job")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--topic-prefix", default="")
    parser.add_argument("--max-records-per-batch", type=int, default=MAX_RECORDS_PER_BATCH)
    given = parser.parse_args(arguments)
    spark = open_session("order validation", master=given.master)
    stopping = noted_interrupts()
    ends = KafkaEnds(given.bootstrap_server, given.checkpoint, given.max_records_per_batch)
    queries = job.start(spark, job.JobConfig(ends, retail.catalogue(), Topics.prefixed(given.topic_prefix)))
    while not stopping.is_set() and not spark.streams.awaitAnyTermination(LOOKS_EVERY_S):
        pass
    for query in queries:
        query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
