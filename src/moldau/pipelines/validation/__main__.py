"""● The order validation as a service of its own: `python -m moldau.pipelines.validation --bootstrap-server … --checkpoint …`.

It runs until it is stopped and goes on from its checkpoint when it is started again.  Ctrl-C and SIGTERM end it cleanly;
a SIGKILL costs nothing but the repetition of one micro-batch.
"""

import argparse
import logging
import sys
from collections.abc import Sequence

from moldau.pipelines import retail
from moldau.pipelines.kafka import MAX_RECORDS_PER_BATCH, KafkaEnds
from moldau.pipelines.session import open_session, plain_interrupts
from moldau.pipelines.validation import job
from moldau.pipelines.validation.model import Topics


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="moldau.pipelines.validation", description=__doc__)
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    parser.add_argument("--checkpoint", required=True, metavar="URL", help="a folder or URL that outlives the job")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--topic-prefix", default="")
    parser.add_argument("--max-records-per-batch", type=int, default=MAX_RECORDS_PER_BATCH)
    given = parser.parse_args(arguments)
    logging.getLogger().addHandler(logging.NullHandler())  # py4j's stack trace of the call that a signal cuts short
    spark = open_session("order validation", master=given.master)
    plain_interrupts()
    ends = KafkaEnds(given.bootstrap_server, given.checkpoint, given.max_records_per_batch)
    queries = job.start(spark, job.JobConfig(ends, retail.catalogue(), Topics.prefixed(given.topic_prefix)))
    try:
        spark.streams.awaitAnyTermination()
    except KeyboardInterrupt:
        for query in queries:
            query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
