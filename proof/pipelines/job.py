"""● A driver that is to be killed.  It copies a topic, or keeps sums or counts of it, until all present records are written.

    python -m proof.pipelines.job KIND BOOTSTRAP SOURCE TARGET CHECKPOINT RECORDS_PER_BATCH [TIMEOUT_MS [MOST_FAILURES [MASTER]]]

KIND: copy; alone, a copy whose tasks write by themselves, in small batches; sum; or streams, which counts with a topology of
`moldau.pipelines.streams`.

A query that fails is started again, as a runner does.  The process ends with 0 when a query has come to the end.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines.running.keeper import reason_of
from moldau.pipelines.session import SHORT_LIVED, open_session
from moldau.pipelines.streams import STRING, StreamsBuilder, Topology, TopologyError
from moldau.pipelines.streams.spark import start
from proof.pipelines.patience import Patience
from pyspark_moldau import by_output_partition

Begin = Callable[[], StreamingQuery]
SMALL_BATCH: Final = "2000"
"""Bytes.  A task needs several requests, so that it can die between two answers."""


class Sums(StatefulProcessor):
    """A running sum for each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "total BIGINT")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        kept = self.total.get()
        total = (kept[0] if kept else 0) + sum(row.number for row in rows)
        self.total.update((total,))
        yield Row(key=key[0], value=str(total))

    def close(self) -> None:
        pass


def summed(records: DataFrame) -> DataFrame:
    """Running sums by the numbers' remainder modulo ten, kept in state.  A Python sink gets appended rows only."""
    number = F.col("value").cast("string").cast("bigint")
    keyed = records.select((number % 10).cast("string").alias("key"), number.alias("number")).groupBy("key")
    return keyed.transformWithState(Sums(), "key STRING, value STRING", "Append", "None")


def counted(source: str, target: str) -> Topology:
    """Counts by the numbers' last digit, each update written: the records of a key are 1, 2, 3, … if nothing is lost or repeated."""
    builder = StreamsBuilder()
    digits = builder.stream(source, value=STRING).group_by(lambda key, number: number[-1])
    digits.count().map_values(lambda digit, count: str(count)).to_stream().to(target, value=STRING)
    return builder.build()


def query_of(kind: str, spark: SparkSession, source: str, target: str, given: dict[str, str], per_batch: str, checkpoint: str) -> Begin:
    """A function that starts the query."""
    if kind == "streams":
        bootstrap = given.pop("kafka.bootstrap.servers")
        return lambda: start(
            spark,
            counted(source, target),
            bootstrap,
            application_id=target,
            checkpoint=checkpoint,
            max_offsets_per_trigger=int(per_batch),
            trigger={"availableNow": True},
            options=given,
        )
    options = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": per_batch}
    records = spark.readStream.format("moldau").options(**given, **options).load()
    frame = summed(records) if kind == "sum" else records.select("key", "value")
    if kind == "alone":
        frame = by_output_partition(frame, {**given, "topic": target})
        given |= {"onePartitionOneTask": "true", "kafka.batch.size": SMALL_BATCH}
    writer = frame.writeStream.format("moldau").outputMode("append")
    writer = writer.options(**given, topic=target, checkpointLocation=checkpoint).trigger(availableNow=True)
    return writer.start


def main(
    kind: str,
    bootstrap: str,
    source: str,
    target: str,
    checkpoint: str,
    records_per_batch: str,
    transaction_timeout_ms: str = "600000",
    most_failures: str = "500",
    master: str = "local[2]",
) -> None:
    log_file = Path(checkpoint).with_name("spark.log")
    spark = open_session("kills", master=master, log_file=log_file, settings={**SHORT_LIVED, "spark.log.level": "OFF"})
    given = {"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": "10000"}
    given["kafka.transaction.timeout.ms"] = transaction_timeout_ms
    begin = query_of(kind, spark, source, target, given, records_per_batch, checkpoint)
    patience = Patience()
    for _ in range(int(most_failures)):
        query = None
        try:
            query = begin()
            query.awaitTermination()
        except TopologyError as error:  # the broker is away
            print("failed:", error, flush=True)
        except StreamingQueryException as error:
            print("failed:", reason_of(error), flush=True)
        else:
            print("done", flush=True)
            return
        if query is not None and query.lastProgress is not None:
            patience.worked()
        patience.wait()
    sys.exit("it fails for good")


if __name__ == "__main__":
    main(*sys.argv[1:])
