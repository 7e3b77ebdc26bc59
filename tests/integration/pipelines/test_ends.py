"""A job reads from a topic and writes to others, also after a restart, and writes each record once."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from moldau.pipelines.ends import Ends
from moldau.pipelines.topics import create_topics

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_a_job_reads_and_writes(spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str) -> None:
    source, one, other = (prefix + name for name in ("source", "one", "other"))
    create_topics(bootstrap, {name: {} for name in (source, one, other)}, partitions=2)
    ends = Ends(bootstrap, checkpoint, max_records_per_batch=40)
    records = ends.read(spark, source)
    routed = records.select(F.when(F.col("value") == b"1", one).otherwise(other).alias("topic"), "key", "value")
    for _ in range(2):
        rows = spark.range(100).select(F.col("id").cast("string").alias("key"), (F.col("id") % 2).cast("string").alias("value"))
        rows.write.format("moldau").mode("append").options(**{"kafka.bootstrap.servers": bootstrap, "topic": source}).save()
        ends.write("routing", routed).trigger(availableNow=True).start().awaitTermination()
    for topic in (one, other):
        found = spark.read.format("moldau").options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic}).load()
        assert (found.count(), found.select("key").distinct().count()) == (100, 50)
