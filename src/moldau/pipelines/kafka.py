"""● The two ends of every job: the stock Kafka connector as source and as sink, with the options that a job wants."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

# A consumer that has read its batch already asks for the next; the broker holds that long poll, and a later request on the
# same connection queues behind it.  With the default of 500 ms each micro-batch took 0.7 s longer.
FETCH_WAIT_MS = 20
MAX_RECORDS_PER_BATCH = 6_000
# No record is refused by our own producer: a dead letter is as large as what a compressed batch held, with headers added.
MOST_RECORD_BYTES = 16 * 1024 * 1024
# Deadlines pass in silence too, so micro-batches go on without records: this is how often, unless records keep them busy.
TRIGGER = "500 milliseconds"


@dataclass(frozen=True, slots=True)
class KafkaEnds:
    bootstrap_servers: str
    checkpoint: str  # a folder or URL that outlives the driver: a query goes on where it says
    max_records_per_batch: int = MAX_RECORDS_PER_BATCH

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        """From the first record on; a record that vanished before it was read fails the query."""
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.max_records_per_batch)
            .load()
        )

    def write(self, name: str, records: DataFrame) -> DataStreamWriter:
        """A named query, not started yet.  Each record says its topic; at-least-once."""
        return (
            records.writeStream.format("kafka")
            .queryName(name)
            .outputMode("append")
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("kafka.max.request.size", MOST_RECORD_BYTES)
            .option("kafka.buffer.memory", 4 * MOST_RECORD_BYTES)
            .option("kafka.compression.type", "lz4")
            .option("checkpointLocation", f"{self.checkpoint.rstrip('/')}/{name}")
        )
