"""Spark's stock Kafka connector reads and writes the broker, batch and stream."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from moldau.pipelines.topics import create_topics

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROWS = 5_000
PARTITIONS = 3


def some_records(spark: SparkSession, topic: str) -> DataFrame:
    number = F.col("id").cast("string")
    header = F.struct(F.lit("h").alias("key"), number.cast("binary").alias("value"))
    return spark.range(ROWS).select(
        F.lit(topic).alias("topic"),
        number.alias("key"),
        F.repeat(number, 20).alias("value"),
        F.pmod("id", F.lit(PARTITIONS)).cast("int").alias("partition"),
        F.array(header).alias("headers"),
    )


def read_batch(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    return (
        spark.read.format("kafka")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"} | options)
        .load()
    )


def assert_is_some_records(found: DataFrame) -> None:
    row = found.select(
        F.count("*").alias("count"),
        F.countDistinct(F.col("key").cast("bigint")).alias("keys"),
        F.min(F.col("value").cast("string") == F.repeat(F.col("key").cast("string"), 20)).alias("values"),
        F.min(F.col("partition") == F.col("key").cast("string").cast("bigint") % PARTITIONS).alias("partitions"),
        F.min(F.col("headers")[0]["value"] == F.col("key")).alias("headers"),
    ).first()
    assert row is not None
    assert row.asDict() == {"count": ROWS, "keys": ROWS, "values": True, "partitions": True, "headers": True}


def test_batch(spark: SparkSession, bootstrap: str, prefix: str) -> None:
    topic = prefix + "batch"
    create_topics(bootstrap, {topic: {}}, partitions=PARTITIONS)
    some_records(spark, topic).write.format("kafka").option("kafka.bootstrap.servers", bootstrap).save()
    found = read_batch(spark, bootstrap, topic)
    assert_is_some_records(found.withColumn("key", F.col("key").cast("string")))
    tail = read_batch(spark, bootstrap, topic, startingOffsets=f'{{"{topic}":{{"0":1000,"1":1600,"2":-2}}}}')
    assert {(row.partition, row["count"]) for row in tail.groupBy("partition").count().collect()} == {(0, 667), (1, 67), (2, 1666)}


def test_stream_from_topic_to_topic(spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str) -> None:
    source, target = prefix + "source", prefix + "target"
    create_topics(bootstrap, {source: {}, target: {}}, partitions=PARTITIONS)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "includeHeaders": "true"}
    stream = spark.readStream.format("kafka").options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="1000").load()
    copied = stream.select(F.lit(target).alias("topic"), "key", "value", "partition", "headers")
    batches = 0
    for half in (F.col("partition") < 1, F.col("partition") >= 1):
        some_records(spark, source).where(half).write.format("kafka").option("kafka.bootstrap.servers", bootstrap).save()
        sink = copied.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("checkpointLocation", checkpoint)
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
        batches += sum(update.numInputRows > 0 for update in query.recentProgress)
    assert_is_some_records(read_batch(spark, bootstrap, target).withColumn("key", F.col("key").cast("string")))
    assert batches >= ROWS // 1_000
