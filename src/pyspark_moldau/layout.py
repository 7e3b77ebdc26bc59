"""● A frame arranged for the sink: the rows of one output partition in one task, so that tasks write by themselves.

    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}
    by_output_partition(frame, options).writeStream.format("moldau").options(**options, onePartitionOneTask="true")...

It costs a shuffle, and pays where micro-batches are larger than the driver should carry.  A frame that comes straight from a source, one
task a partition, and names `partition` itself needs only the option.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from pyspark_moldau.options import Options, read_options
from pyspark_moldau.rows import NO_PARTITION, Rows, SinkError, partitions_of, topics_of
from pyspark_moldau.session import cluster_of
from pyspark_moldau.sink import partition_count

COUNTS_FOR_S: Final = 30.0
_counts: dict[Any, tuple[float, int]] = {}


def by_output_partition(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The same rows with the column `partition` filled in.  `options`: the sink's options.  Errors: OptionError, SinkError."""
    parsed = read_options(options)
    topic = parsed.get("topic")
    names = set(frame.columns)
    if topic is None and "topic" not in names:
        raise SinkError("nothing says which topic to write to: give option 'topic' or a column 'topic'")
    topics = F.lit(topic) if topic is not None else F.col("topic")
    keys = F.col("key").cast("binary") if "key" in names else F.lit(None).cast("binary")
    given = F.col("partition").cast("int") if "partition" in names else F.lit(None).cast("int")
    placed = frame.withColumn("partition", F.coalesce(given, _placing(parsed)(topics, keys)))
    return placed.repartition(topics, F.col("partition"))


def _placing(options: Options) -> Any:
    def place(topics: pa.Array, keys: pa.Array) -> pa.Array:
        found = np.zeros(len(keys), np.int32)
        batch = pa.RecordBatch.from_arrays([topics.cast(pa.string())], ["topic"])
        rows = Rows(keys.cast(pa.binary()), keys, None, np.zeros(len(keys), np.int64))
        for topic, places in topics_of(batch, None):
            count = _count(options, topic)
            which = np.arange(len(keys)) if places is None else places
            partitions = partitions_of(rows.part(which), None, topic, count)
            found[which] = np.where(partitions == NO_PARTITION, which % count, partitions)
        return pa.array(found)

    return arrow_udf(place, "int")  # type: ignore[call-overload]  # its stub knows fewer functions than it takes


def _count(options: Options, topic: str) -> int:
    key = (options.get("kafka.bootstrap.servers"), topic)
    asked_s, count = _counts.get(key, (-COUNTS_FOR_S, 0))
    if time.monotonic() - asked_s >= COUNTS_FOR_S:
        count = partition_count(cluster_of(options, "sink"), topic)
        _counts[key] = (time.monotonic(), count)
    return count
