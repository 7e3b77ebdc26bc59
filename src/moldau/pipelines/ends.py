"""● The two ends of every job over `format("moldau")`: a source, and a sink that writes each micro-batch once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

MAX_RECORDS_PER_BATCH = 6_000
# Deadlines pass in silence too, so micro-batches go on without records.  They begin so far apart, unless records keep them busy.
TRIGGER_MS = 500


@dataclass(frozen=True, slots=True)
class Ends:
    bootstrap_servers: str
    checkpoint: str  # a folder or URL that outlives the driver; a query goes on from it
    max_records_per_batch: int = MAX_RECORDS_PER_BATCH  # of each topic
    security: Mapping[str, str] = field(default_factory=dict)  # kafka.security.protocol and options like it, for both ends
    trigger_ms: int = TRIGGER_MS

    @property
    def trigger(self) -> str:
        return f"{self.trigger_ms} milliseconds"

    def folder(self, name: str) -> str:
        """The checkpoint of the query of this name."""
        return f"{self.checkpoint.rstrip('/')}/{name}"

    def read(self, spark: SparkSession, *topics: str) -> DataFrame:
        """Read committed records from the first on.  A record that vanished before it was read fails the query.

        A source costs each micro-batch more than its topics do.
        """
        return (
            spark.readStream.format("moldau")
            .options(**self._servers())
            .option("subscribe", ",".join(topics))
            .option("startingOffsets", "earliest")
            .option("kafka.isolation.level", "read_committed")
            .option("maxOffsetsPerTrigger", self.max_records_per_batch * len(topics))
            .load()
        )

    def write(self, name: str, records: DataFrame) -> DataStreamWriter:
        """A named query, not started yet.  Each record names its topic.  A micro-batch's records become visible together, and once."""
        return (
            records.writeStream.format("moldau")
            .queryName(name)
            .outputMode("append")
            .options(**self._servers())
            .option("kafka.compression.type", "lz4")
            .option("checkpointLocation", self.folder(name))
        )

    def _servers(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **self.security}
