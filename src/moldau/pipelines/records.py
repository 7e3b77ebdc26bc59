"""◇ Kafka records as frames: taking their JSON apart, and putting records together for the sink.

Every function takes a DataFrame and returns one, batch or stream.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

NO_KEY = ""  # what is no order has no key: heartbeats and malformed records share this one
# Where a record stands and what it held: the clock of the jobs, and what a dead letter needs.
PLACE = ("topic", "partition", "offset", "accepted", "accepted_ms", "key", "value")
RECORDS = "topic STRING, key STRING, value BINARY, reason STRING, source STRING"


def with_body(records: DataFrame, schema: str) -> DataFrame:
    """The record's place, and its value as `body`; the schema ends with `corrupt STRING`, set where the value is no such JSON."""
    return records.select(
        *("topic", "partition", "offset", "value"),
        F.col("key").cast("string").alias("key"),
        F.col("timestamp").alias("accepted"),
        F.unix_millis("timestamp").alias("accepted_ms"),
        F.from_json(F.col("value").cast("string"), schema, {"columnNameOfCorruptRecord": "corrupt"}).alias("body"),
    )


def is_no_json() -> Column:
    return F.col("body").isNull() | F.col("body.corrupt").isNotNull()  # an empty text parses to nothing at all


def any_missing(*fields: str) -> Column:
    return reduce(or_, (F.col(f"body.{field}").isNull() for field in fields))


def is_blank(*names: str) -> Column:
    """An empty text cannot be a key: it is `NO_KEY`."""
    return reduce(or_, (F.col(name) == NO_KEY for name in names))


def body_fields(*names: str) -> list[Column]:
    return [F.col(f"body.{name}").alias(name) for name in names]


def with_headers(records: DataFrame) -> DataFrame:
    """From rows of `RECORDS` to what the sink takes.

    A dead letter says why it is one and where it came from in headers: its value stays what was sent.
    """
    headers = F.when(F.col("reason").isNotNull(), F.array(_header("reason"), _header("source")))
    return records.select("topic", "key", "value", headers.alias("headers"))


def _header(name: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.col(name).cast("binary").alias("value"))
