"""● A topology on Spark: frames of records in, one frame of records out, exactly once through `format("moldau")`.

    query = start(spark, topology, "localhost:9092", application_id="orders-by-customer", checkpoint="/var/lib/orders-by-customer")
    query.awaitTermination()

`applied` is the same without topics: with frames of your own, before and after.  `typed` gives the rows of one topic typed columns.
"""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from moldau.pipelines.streams.internal_topology import TopologyError
from moldau.pipelines.streams.processor import DONE, ROWS, StageProcessor
from moldau.pipelines.streams.serdes import Serde
from moldau.pipelines.streams.topology import Topology
from pyspark_moldau import by_output_partition

MAX_OFFSETS_PER_TRIGGER: Final = 10_000
TIMEOUT_S: Final = 30.0
_COLUMNS: Final = ("stage", "partition", "input", "from_partition", "offset", "key", "value", "timestamp", "headers", "source")


def applied(topology: Topology, frames: Mapping[str, DataFrame], partitions: int) -> DataFrame:
    """Turns streaming frames by topic, with the columns of `format("moldau")`, into one to write: topic, key, value, timestamp, headers.

    `partitions`: the number of the widest topic's partitions; repartitions have as many.  Without a column `headers` records have none.
    Errors: TopologyError.
    """
    missing = {source.name for source in topology.sources.values()} - frames.keys()
    if missing:
        raise TopologyError(f"no frame for topic {', '.join(sorted(missing))}: give one for each that the topology reads")
    rows: DataFrame | None = None
    for number, stage in enumerate(topology.stages):
        for name in stage.inputs:
            if name in topology.sources:
                topic = topology.sources[name].name
                entering = _entering(frames[topic], topic, name, number)
                if name in stage.everywhere:
                    entering = entering.withColumn("partition", F.explode(F.sequence(F.lit(0), F.lit(partitions - 1))))
                rows = entering if rows is None else rows.unionByName(entering)
        assert rows is not None, "the first stage has a source"
        processor = StageProcessor(topology, number, partitions)
        rows = rows.groupBy("partition").transformWithState(processor, ROWS, "Append", "None")
    assert rows is not None, "a topology has a stage"
    return rows.where(F.col("stage") == DONE).select(
        F.col("input").alias("topic"), "key", "value", F.timestamp_millis("timestamp").alias("timestamp"), "headers"
    )


def typed(topology: Topology, written: DataFrame, topic: str) -> DataFrame:
    """The rows of one topic, with the columns key and value of the types that the topic's serdes declare, timestamp and headers.

    `written`: the frame of `applied`, or one that was read from the topic, for a stream as well as for a batch.  Errors: TopologyError.
    """
    sink = topology.sinks.get(topic)
    if sink is None:
        raise TopologyError(f"nothing is written to {topic}: there are {', '.join(sorted(topology.sinks))}")
    columns = [_read_by(serde, name, topic) for name, serde in (("key", sink.key), ("value", sink.value))]
    return written.where(F.col("topic") == topic).select(*columns, "timestamp", "headers")


def _read_by(serde: Serde, name: str, topic: str) -> Column:
    if serde.type is None:
        raise TopologyError(f"the serde of the {name}s of {topic} declares no type: give json_as(type), or a Serde with a type")
    read = serde.read
    return F.udf(lambda data: read(None if data is None else bytes(data)), serde.type)(F.col(name)).alias(name)


def start(
    spark: SparkSession,
    topology: Topology,
    bootstrap_servers: str,
    *,
    application_id: str,
    checkpoint: str,
    max_offsets_per_trigger: int = MAX_OFFSETS_PER_TRIGGER,
    trigger: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Read the topics from their beginning, or from the checkpoint on, and write the results, exactly once.

    `application_id` names the sink: two queries with one id end each other.  `trigger`: as for `DataStreamWriter.trigger`.  `options` go to
    sources and sink, such as `kafka.security.protocol`.  Errors: TopologyError.
    """
    shared = {"kafka.bootstrap.servers": bootstrap_servers, **(options or {})}
    counts = partition_counts(bootstrap_servers, {source.name for source in topology.sources.values()}, options or {})
    check_copartitioned(topology, counts)
    frames = {topic: _read(spark, topic, shared, None if _is_global(topology, topic) else max_offsets_per_trigger) for topic in counts}
    # The records are arranged for the sink: otherwise a micro-batch with more than `maxBytesThroughDriver` could never be committed.
    # A key's records stay in their order: they come from one task, and a shuffle keeps the order of records from one task to another.
    written = by_output_partition(applied(topology, frames, max(counts.values())), shared)
    writer = written.writeStream.format("moldau").queryName(application_id)
    writer = writer.options(**shared, sinkId=application_id, onePartitionOneTask="true")
    if trigger:
        writer = writer.trigger(**trigger)  # type: ignore[call-overload]  # one keyword of several types
    return writer.option("checkpointLocation", checkpoint).start()


def partition_counts(bootstrap_servers: str, topics: set[str], options: Mapping[str, str]) -> dict[str, int]:
    """Errors: TopologyError for a topic that is not there."""
    client = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 4, **client})
    try:
        known = admin.list_topics(timeout=TIMEOUT_S).topics
    except KafkaException as error:
        raise TopologyError(f"no broker answers at {bootstrap_servers}: {error}") from error
    missing = sorted(topics - known.keys())
    if missing:
        raise TopologyError(f"topic {', '.join(missing)} is not there: create it before the application starts")
    return {topic: len(known[topic].partitions) for topic in sorted(topics)}


def check_copartitioned(topology: Topology, counts: Mapping[str, int]) -> None:
    """Topics whose records meet in one state must have as many partitions.  Errors: TopologyError."""
    widest = max(counts.values())
    for stage in topology.stages:
        for names in stage.meeting():
            topics = {topology.sources[name].name if name in topology.sources else None for name in names}
            found = {topic or "a repartition": counts.get(topic, widest) if topic else widest for topic in topics}
            if len(set(found.values())) > 1:
                told = ", ".join(f"{topic} has {count}" for topic, count in found.items())
                raise TopologyError(
                    f"records that meet must be partitioned alike, and {told}: call .repartition() on each, or widen the topic"
                )


def _is_global(topology: Topology, topic: str) -> bool:
    everywhere = {name for stage in topology.stages for name in stage.everywhere}
    return any(source.name == topic and name in everywhere for name, source in topology.sources.items())


def _read(spark: SparkSession, topic: str, options: Mapping[str, str], limit: int | None) -> DataFrame:
    reader = spark.readStream.format("moldau").options(**options, subscribe=topic, startingOffsets="earliest", includeHeaders="true")
    return (reader if limit is None else reader.option("maxOffsetsPerTrigger", limit)).load()


def _entering(frame: DataFrame, topic: str, name: str, stage: int) -> DataFrame:
    headers = F.col("headers") if "headers" in frame.columns else F.lit(None).cast("array<struct<key:string,value:binary>>")
    return frame.select(
        F.lit(stage).alias("stage"),
        F.col("partition"),
        F.lit(name).alias("input"),
        F.col("partition").alias("from_partition"),
        F.col("offset"),
        F.col("key").cast("binary").alias("key"),
        F.col("value").cast("binary").alias("value"),
        F.unix_millis(F.col("timestamp")).alias("timestamp"),
        headers.alias("headers"),
        F.lit(topic).alias("source"),
    ).select(*_COLUMNS)
