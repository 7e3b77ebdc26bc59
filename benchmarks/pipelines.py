"""● `format("moldau")` beside Spark's stock connector, in one session and taking turns.

    python -m benchmarks.pipelines ours          python -m benchmarks.pipelines apache --rounds 5 --rows 400000

Source: a stream reads a topic and drops the rows.  Sink: a stream writes rows that Spark makes up; our sink writes one transaction a
micro-batch, the stock sink is at-least-once.  The figures are medians of rows a second while micro-batches run, and of CPU time a row, of
Spark's JVM, its Python workers, the broker and this process together: on a busy machine only the latter can be compared.  A query's first
micro-batch, which starts its processes, does not count, and neither does the first round.  `--rows` is the size of a query.  The order
pipeline itself is measured by `benchmarks.orders`.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.processes import cpu_by_kind
from benchmarks.published import PUBLISHED, box, publish
from moldau.pipelines.session import open_session
from moldau.pipelines.topics import create_topics
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka
from proof.kafka.jars import spark_connector_jars

OURS, STOCK = "moldau", "kafka"
VALUE_BYTES = 100
PARTITIONS = 4
LOOK_S = 0.02
BATCHES = 6
"""The first one starts processes and connections."""


class Rate(NamedTuple):
    rows_per_s: float
    cpu_us: float
    """CPU time a row."""


def with_records(query: StreamingQuery) -> list[StreamingQueryProgress]:
    return [progress for progress in query.recentProgress if progress.numInputRows]


class Bench:
    def __init__(self, spark: SparkSession, bootstrap: str, broker: int, rows: int) -> None:
        self.spark = spark
        self.broker = broker
        self.servers = {"kafka.bootstrap.servers": bootstrap}
        self.bootstrap = bootstrap
        self.rows = rows
        self.folder = Path(tempfile.mkdtemp(prefix="bench-pipelines-"))
        self.count = 0

    def cpu_s(self) -> float:
        return sum(cpu_by_kind(self.broker).values())

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"

    def topic(self, kind: str) -> str:
        name = self.name(kind)
        create_topics(self.bootstrap, {name: {}}, partitions=PARTITIONS)
        return name

    def fill(self) -> str:
        topic = self.topic("source")
        rows = self.spark.range(self.rows).select(F.col("id").cast("string").alias("key"), F.repeat(F.lit("v"), VALUE_BYTES).alias("value"))
        rows.write.format(STOCK).options(**self.servers, topic=topic).save()
        return topic

    def source(self, kind: str, topic: str) -> Rate:
        options = {**self.servers, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(self.rows // BATCHES)}
        records = self.spark.readStream.format(kind).options(**options).load().select("key", "value")
        writer = records.writeStream.format("noop").option("checkpointLocation", str(self.folder / self.name("read")))
        return self.rate(writer.trigger(availableNow=True).start())

    def sink(self, kind: str, extra: Mapping[str, str]) -> Rate:
        options = {**self.servers, **extra, "topic": self.topic(f"sink-{kind}")}
        writer = self.made_up().writeStream.format(kind).options(**options)
        writer = writer.option("checkpointLocation", str(self.folder / self.name("written")))
        return self.rate(writer.trigger(processingTime="0 seconds").start())

    def rate(self, query: StreamingQuery) -> Rate:
        """Over the micro-batches after the first one.  CPU time is taken when the end of a micro-batch is seen, so it is about theirs."""
        seen = self.wait_for(query, 1)
        before = self.cpu_s()
        last = self.wait_for(query, BATCHES)
        used_s = self.cpu_s() - before
        query.stop()
        rows = sum(progress.numInputRows for progress in last[len(seen) :])
        return Rate(rows / sum(progress.batchDuration for progress in last[len(seen) :]) * 1000, used_s / rows * 1e6)

    def wait_for(self, query: StreamingQuery, count: int) -> list[StreamingQueryProgress]:
        while query.isActive and len(with_records(query)) < count:
            time.sleep(LOOK_S)
        assert query.exception() is None, query.exception()
        return with_records(query)

    def made_up(self) -> DataFrame:
        made = self.spark.readStream.format("rate-micro-batch").options(rowsPerBatch=self.rows // BATCHES, numPartitions=2).load()
        return made.select(F.col("value").cast("string").alias("key"), F.repeat(F.lit("v"), VALUE_BYTES).alias("value"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=["ours", "apache"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_200_000, help="rows of one query, which has six micro-batches (%(default)s)")
    parser.add_argument("--publish", action="store_true", help="store the results for docs/reference/performance.md")
    told = parser.parse_args()
    about = box()
    broker: NodeProcess = BrokerProcess() if told.broker == "ours" else ApacheKafka()
    with broker:
        # Spark's own way of evaluating, since millions of rows are what the stock connector is made for.
        settings = {"spark.jars": ",".join(map(str, spark_connector_jars())), "spark.sql.codegen.factoryMode": "FALLBACK"}
        log_file = Path(tempfile.mkdtemp(prefix="bench-spark-")) / "spark.log"
        spark = open_session("bench", master="local[2]", log_file=log_file, settings=settings)
        bench = Bench(spark, broker.bootstrap, broker.pid, told.rows)
        topic = bench.fill()
        found: dict[str, list[Rate]] = {}
        for _ in range(told.rounds + 1):
            for kind in (STOCK, OURS):
                found.setdefault(f"source {kind}", []).append(bench.source(kind, topic))
                found.setdefault(f"sink {kind}", []).append(bench.sink(kind, {}))
        spark.stop()
    counted = {name: rates[1:] for name, rates in sorted(found.items())}
    for name, rates in counted.items():
        for field, unit in (("rows_per_s", "rows/s"), ("cpu_us", "µs of CPU a row")):
            figures = [getattr(one, field) for one in rates]
            print(f"{name:<14} {statistics.median(figures):>11,.1f} {unit:<16} {', '.join(f'{one:,.1f}' for one in figures)}")
    if told.publish:
        rounds = {name: [rate._asdict() for rate in rates] for name, rates in counted.items()}
        publish(PUBLISHED / f"pipelines-{told.broker}.json", {"box": about, "rounds": told.rounds, "broker": told.broker, "rates": rounds})
    for end in ("source", "sink"):
        pairs = list(zip(counted[f"{end} {OURS}"], counted[f"{end} {STOCK}"], strict=True))
        rows = statistics.median(ours.rows_per_s / stock.rows_per_s for ours, stock in pairs)
        cpu = statistics.median(ours.cpu_us / stock.cpu_us for ours, stock in pairs)
        print(f"{end}: in the same round ours has {rows:.2f} times the rows/s of the stock one, and {cpu:.2f} times its CPU time a row")


if __name__ == "__main__":
    main()
