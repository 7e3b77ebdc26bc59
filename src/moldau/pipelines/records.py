"""◇ Kafka records as frames: taking them apart with a parser in Python, and putting records together for the sink.

Every function takes a DataFrame and returns one, batch or stream.  A parser is a pure function `(key, value) → fields`
that raises `Malformed`; whatever it meets, a row comes out of it, and no row ends the query.
"""

from collections.abc import Callable
from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from moldau.pipelines.rolling import Outcome
from moldau.pipelines.strict import Malformed

NO_KEY = ""  # what is malformed has no key: such records share this one
PARSER_FAILED = "PARSER_FAILED"
# Where a record stands and what it held: what the order of judging and a dead letter need.
PLACE = ("topic", "partition", "offset", "accepted_ms", "key", "value")
RECORDS = "topic STRING, key BINARY, value BINARY, partition INT, reason STRING, source STRING"

Parser = Callable[[bytes | None, bytes | None], tuple[object, ...]]


def parsed(records: DataFrame, parser: Parser, schema: str) -> DataFrame:
    """The record's place, the fields of `schema`, and `malformed`: the reason why there are none, or null.

    *Accepted* is the record's timestamp, but never later than the micro-batch: a client may set it to anything.  The
    micro-batch's own time is in Spark's offset log, so a repeated batch has the same one.
    """
    fields = cast(StructType, StructType.fromDDL(schema))
    result = StructType([StructField("malformed", StringType()), *fields.fields])
    nothing = (None,) * len(fields.fields)

    def parse(key: bytes | None, value: bytes | None) -> tuple[object, ...]:
        try:
            return (None, *parser(key, value))
        except Malformed as error:
            return (error.reason, *nothing)
        except Exception:
            return (PARSER_FAILED, *nothing)

    now_ms = F.unix_millis(F.current_timestamp())
    sent_ms = F.unix_millis("timestamp")
    accepted_ms = F.when(sent_ms < 0, now_ms).otherwise(F.least(sent_ms, now_ms))
    body = F.udf(parse, result)(F.col("key"), F.col("value"))
    return records.select(
        *("topic", "partition", "offset", "key", "value"),
        F.coalesce(accepted_ms, now_ms).alias("accepted_ms"),
        body.alias("body"),
    ).select(*PLACE, "body.*")


def key_of(name: str) -> Column:
    """The field as the key of the next step; malformed records share `NO_KEY`."""
    return F.when(F.col("malformed").isNull(), F.col(name)).otherwise(NO_KEY)


def with_headers(records: DataFrame) -> DataFrame:
    """Turn rows of `RECORDS` into the sink's form.

    A dead letter says why it is one and where it came from in headers: its key and value stay what was sent.  How many there
    were, a micro-batch tells in its progress, as `written`.
    """
    is_late = F.col("reason") == Outcome.LATE
    told = records.observe("written", F.count_if(F.col("reason").isNotNull()).alias("dead_letters"), F.count_if(is_late).alias("late"))
    headers = F.when(F.col("reason").isNotNull(), F.array(_header("reason"), _header("source")))
    return told.select("topic", "key", "value", "partition", headers.alias("headers"))


def _header(name: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.col(name).cast("binary").alias("value"))
