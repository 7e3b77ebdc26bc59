"""`format("moldau")` beside the stock connector on the same broker: each reads what the other writes, and both read the same."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from moldau.pipelines.topics import create_topics
from pyspark_moldau import by_output_partition

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROWS = 3_000
PARTITIONS = 3


def some_records(spark: SparkSession, count: int = ROWS) -> DataFrame:
    """Records with keys, nulls, headers and empty values."""
    number = F.col("id").cast("string")
    header = F.struct(F.lit("h").alias("key"), number.cast("binary").alias("value"))
    return spark.range(count).select(
        F.when(F.col("id") % 11 != 0, number).alias("key"),
        F.when(F.col("id") % 7 != 0, F.repeat(number, (F.col("id") % 9).cast("int"))).alias("value"),
        F.when(F.col("id") % 5 == 0, F.array(header)).alias("headers"),
    )


def read(spark: SparkSession, bootstrap: str, topic: str, form: str = "moldau", **options: Any) -> DataFrame:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    return spark.read.format(form).options(**given | dotted(options)).load()


def dotted(options: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("__", "."): str(value) for name, value in options.items()}


def write(frame: DataFrame, bootstrap: str, topic: str, form: str = "moldau", **options: Any) -> None:
    frame.write.format(form).mode("append").options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic} | dotted(options)).save()


def run(frame: DataFrame, bootstrap: str, topic: str, checkpoint: str, **options: Any) -> StreamingQuery:
    """Runs a query to the end of the records that there are now."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": checkpoint}
    query = frame.writeStream.format("moldau").options(**given | dotted(options)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def stream(spark: SparkSession, bootstrap: str, topic: str, **options: Any) -> DataFrame:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    return spark.readStream.format("moldau").options(**given | dotted(options)).load()


def assert_same(one: DataFrame, other: DataFrame) -> None:
    assert one.count() == other.count()
    assert one.exceptAll(other).isEmpty()


@pytest.fixture
def topics(bootstrap: str, prefix: str) -> tuple[str, str]:
    named = prefix + "in", prefix + "out"
    create_topics(bootstrap, {name: {} for name in named}, partitions=PARTITIONS)
    return named


def test_a_batch_is_what_the_stock_connector_reads(spark: SparkSession, bootstrap: str, topics: tuple[str, str]) -> None:
    write(some_records(spark), bootstrap, topics[0], "kafka")
    ours, stock = read(spark, bootstrap, topics[0]), read(spark, bootstrap, topics[0], "kafka")
    assert ours.schema == stock.schema
    assert_same(ours, stock)
    offsets = json.dumps({topics[0]: {"0": 10, "1": 20, "2": -2}})
    for options in (
        {"startingOffsets": offsets},
        {"endingOffsets": offsets.replace(": -2", ": -1")},
        {"minPartitions": 7},
        {"startingTimestamp": 1},
    ):
        assert_same(read(spark, bootstrap, topics[0], **options), read(spark, bootstrap, topics[0], "kafka", **options))


def test_a_batch_that_we_write_is_what_the_stock_connector_writes(spark: SparkSession, bootstrap: str, topics: tuple[str, str]) -> None:
    records = some_records(spark).where("key IS NOT NULL")
    write(records, bootstrap, topics[0])
    write(records, bootstrap, topics[1], "kafka")
    found = [read(spark, bootstrap, topic, "kafka").select("key", "value", "headers", "partition") for topic in topics]
    assert_same(*found)


def test_rows_name_their_topics_and_partitions(spark: SparkSession, bootstrap: str, topics: tuple[str, str]) -> None:
    records = some_records(spark).withColumn("topic", F.when(F.rand(1) < 0.5, topics[0]).otherwise(topics[1]))
    records = records.withColumn("partition", F.lit(2)).withColumn("timestamp", F.lit("2020-02-02 02:02:02.345").cast("timestamp")).cache()
    records.write.format("moldau").mode("append").option("kafka.bootstrap.servers", bootstrap).option(
        "kafka.compression.type", "zstd"
    ).save()
    found = read(spark, bootstrap, ",".join(topics), "kafka").select("key", "value", "headers", "topic", "partition", "timestamp")
    assert_same(
        found, records.select(F.col("key").cast("binary"), F.col("value").cast("binary"), "headers", "topic", "partition", "timestamp")
    )


def test_a_stream_from_topic_to_topic(spark: SparkSession, bootstrap: str, topics: tuple[str, str], checkpoint: str) -> None:
    source, target = topics
    records = stream(spark, bootstrap, source, maxOffsetsPerTrigger=1_000, kafka__isolation__level="read_committed")
    batches = 0
    for _ in range(2):
        write(some_records(spark), bootstrap, source)
        query = run(records.select("key", "value", "headers"), bootstrap, target, checkpoint)
        batches += sum(progress.numInputRows > 0 for progress in query.recentProgress)
        last = query.lastProgress
        assert last is not None
        end, latest = (json.loads(text) for text in (last.sources[0].endOffset, last.sources[0].latestOffset))
        assert end == latest
        assert sum(int(offset) for number, offset in end[source].items() if number != "id") >= ROWS
    found = [read(spark, bootstrap, topic, kafka__isolation__level="read_committed").select("key", "value", "headers") for topic in topics]
    assert found[0].count() == 2 * ROWS
    assert_same(*found)
    assert batches >= 6


def test_partitions_found_later_are_read_from_their_beginning(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], checkpoint: str
) -> None:
    source, target = topics
    records = stream(spark, bootstrap, source).select("key", "value")
    write(some_records(spark, 100), bootstrap, source)
    run(records, bootstrap, target, checkpoint)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(source, PARTITIONS + 1)]).values():
        future.result()
    write(some_records(spark, 50).withColumn("partition", F.lit(PARTITIONS)), bootstrap, source)
    run(records, bootstrap, target, checkpoint)
    assert read(spark, bootstrap, target).count() == 150


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_made_anew_is_refused(spark: SparkSession, bootstrap: str, topics: tuple[str, str], checkpoint: str, fails: str) -> None:
    source, target = topics
    records = stream(spark, bootstrap, source, failOnDataLoss=fails).select("key", "value")
    write(some_records(spark, 100), bootstrap, source)
    run(records, bootstrap, target, checkpoint)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([source]).values():
        future.result()
    create_topics(bootstrap, {source: {}}, partitions=PARTITIONS)
    write(some_records(spark, 200), bootstrap, source)
    with pytest.raises(Exception, match="was deleted and made anew"):
        run(records, bootstrap, target, checkpoint)
    assert read(spark, bootstrap, target).count() == 100


def test_a_micro_batch_that_is_committed_is_not_written_again(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], checkpoint: str
) -> None:
    """The checkpoint is as after a crash between the commit and Spark's note of it."""
    source, target = topics
    records = stream(spark, bootstrap, source, maxOffsetsPerTrigger=100).select("key", "value")
    write(some_records(spark, 250), bootstrap, source)
    run(records, bootstrap, target, checkpoint)
    noted = sorted((path for path in Path(checkpoint, "commits").iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    forget(noted[-1])
    run(records, bootstrap, target, checkpoint)
    assert read(spark, bootstrap, target).count() == 250
    write(some_records(spark, 30), bootstrap, source)
    run(records, bootstrap, target, checkpoint)
    assert read(spark, bootstrap, target).count() == 280


def test_an_older_checkpoint_and_another_query_are_refused(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], checkpoint: str
) -> None:
    source, target = topics
    records = stream(spark, bootstrap, source, maxOffsetsPerTrigger=100).select("key", "value")
    write(some_records(spark, 250), bootstrap, source)
    run(records, bootstrap, target, checkpoint, sinkId=target)
    noted = sorted((path for path in Path(checkpoint, "commits").iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    for path in noted[-2:]:
        forget(path)
        forget(Path(checkpoint, "offsets", path.name))
    with pytest.raises(Exception, match="the checkpoint is older than the output"):
        run(records, bootstrap, target, checkpoint, sinkId=target)
    with pytest.raises(Exception, match="was written by another query"):
        run(records, bootstrap, target, checkpoint + "-new", sinkId=target)
    assert read(spark, bootstrap, target, kafka__isolation__level="read_committed").count() == 250


def forget(path: Path) -> None:
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def test_errors_name_the_option(spark: SparkSession, bootstrap: str, prefix: str) -> None:
    for options, said in (
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "exactly one of subscribe, subscribePattern, assign"),
        ({"subscribe": "t", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": prefix + "nowhere", "kafka.default.api.timeout.ms": "500"}, f"topic {prefix}nowhere"),
    ):
        with pytest.raises(Exception, match=said):
            spark.read.format("moldau").options(**{"kafka.bootstrap.servers": bootstrap, **options}).load().count()
    with pytest.raises(Exception, match="column 'value' is missing"):
        write(spark.range(3), bootstrap, prefix + "t")


def test_filters_are_told_to_the_reader(spark: SparkSession, bootstrap: str, topics: tuple[str, str]) -> None:
    write(some_records(spark), bootstrap, topics[0])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        everything = read(spark, bootstrap, topics[0])
        some = everything.where("partition = 1 AND offset >= 100 AND offset < 150")
        assert some.count() == 50
        assert some.rdd.getNumPartitions() == 1, "the other partitions are not read"
        late = everything.where("timestamp > timestamp'2100-01-01 00:00:00'")
        assert late.count() == 0
        early = everything.where("timestamp > timestamp'2001-01-01 00:00:00'")
        assert early.count() == ROWS
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_a_frame_arranged_by_output_partition(spark: SparkSession, bootstrap: str, topics: tuple[str, str], checkpoint: str) -> None:
    """Tasks write by themselves: nothing goes through the driver."""
    source, target = topics
    write(some_records(spark), bootstrap, source)
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target, "onePartitionOneTask": "true", "maxBytesThroughDriver": "0"}
    records = by_output_partition(stream(spark, bootstrap, source).select("key", "value", "headers"), options)
    records.writeStream.format("moldau").options(**options, checkpointLocation=checkpoint).trigger(
        availableNow=True
    ).start().awaitTermination()
    found = [read(spark, bootstrap, topic).select("key", "value", "headers", "partition").where("key IS NOT NULL") for topic in topics]
    assert_same(*found)


def test_a_frame_that_is_not_arranged_is_refused_before_it_is_visible(spark: SparkSession, bootstrap: str, topics: tuple[str, str]) -> None:
    with pytest.raises(Exception, match="by_output_partition"):
        write(some_records(spark).repartition(4), bootstrap, topics[0], onePartitionOneTask="true")
    assert read(spark, bootstrap, topics[0], kafka__isolation__level="read_committed").count() == 0


def test_more_than_the_driver_carries_is_written_by_the_task(spark: SparkSession, bootstrap: str, topics: tuple[str, str]) -> None:
    write(some_records(spark).coalesce(1), bootstrap, topics[0], maxBytesThroughDriver=1000, kafka__batch__size=500)
    assert_same(read(spark, bootstrap, topics[0]).select("key", "value", "headers"), bytes_of(some_records(spark)))


def test_more_than_spark_carries_goes_to_the_driver_in_files(spark: SparkSession, bootstrap: str, topics: tuple[str, str]) -> None:
    """Two tasks, each with more than 32 MiB, and rows for every partition in both."""
    rows = 80_000
    number = F.col("id").cast("string")
    frame = spark.range(rows).repartition(2).select(number.alias("key"), F.rpad(number, 1_000, ".").alias("value"))
    write(frame, bootstrap, topics[0])
    found = read(spark, bootstrap, topics[0]).select(F.col("key").cast("string"), "value", "partition")
    assert found.count() == rows
    assert found.select("key").distinct().count() == rows
    assert found.where("value != rpad(key, 1000, '.')").count() == 0
    assert found.select("partition").distinct().count() == PARTITIONS


def bytes_of(frame: DataFrame) -> DataFrame:
    return frame.select(F.col("key").cast("binary"), F.col("value").cast("binary"), "headers")
