"""◇ Kafka records as frames: taking them apart with a parser in Python, and putting records together for the sink.

Every function takes a DataFrame and returns one, batch or stream.  A parser is a pure function `(key, value) → fields`
that raises `Malformed`; whatever it meets, a row comes out of it, and no row ends the query.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from moldau.pipelines.rolling import Outcome
from moldau.pipelines.strict import Malformed

NO_KEY = ""  # malformed records have no key: they share this one
PARSER_FAILED = "PARSER_FAILED"
# A record's place and content, as the order of judging and a dead letter need them.
PLACE = ("topic", "partition", "offset", "accepted_ms", "key", "value")
RECORDS = "topic STRING, key BINARY, value BINARY, partition INT, reason STRING, source STRING"

Parser = Callable[[bytes | None, bytes | None], tuple[object, ...]]


def parsed(records: DataFrame, parser: Parser, schema: str, *, leave_out: Callable[[tuple[Any, ...]], bool] = lambda _: False) -> DataFrame:
    """The record's place, `malformed` (the reason why there are no fields, or null), and the fields of `schema`.

    *Accepted* is the record's timestamp, but never later than the micro-batch: a client may set it to anything.  The
    micro-batch's own time is in Spark's offset log, so a repeated batch has the same one.  `leave_out`
    says, by its fields, whether nobody looks at a well-formed record.
    """
    fields = cast(StructType, StructType.fromDDL(schema))
    result = StructType([StructField("malformed", StringType()), *fields.fields])
    nothing = (None,) * len(fields.fields)

    def parse(key: bytes | None, value: bytes | None) -> tuple[Any, ...]:
        try:
            return (None, *parser(key, value))
        except Malformed as error:
            return (error.reason, *nothing)
        except Exception:
            return (PARSER_FAILED, *nothing)

    def taken_apart(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Works by columns: a row as an object of its own would cost as much as its parsing."""
        types = to_arrow_schema(result)
        for batch in batches:
            pairs = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
            found = [parse(key, value) for key, value in pairs]
            kept = [place for place, of_it in enumerate(found) if of_it[0] is not None or not leave_out(of_it[1:])]
            if len(kept) < len(found):
                batch, found = batch.take(pa.array(kept, pa.int64())), [found[place] for place in kept]
            columns = list(zip(*found, strict=True)) or [()] * len(types)
            made = [_column(column, field.type) for column, field in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays([*(batch.column(name) for name in PLACE), *made], names=[*PLACE, *types.names])

    now_ms = F.unix_millis(F.current_timestamp())
    sent_ms = F.unix_millis("timestamp")
    accepted_ms = F.when(sent_ms < 0, now_ms).otherwise(F.least(sent_ms, now_ms))
    placed = records.withColumn("accepted_ms", F.coalesce(accepted_ms, now_ms)).select(*PLACE)
    return placed.mapInArrow(taken_apart, StructType([*placed.schema.fields, *result.fields]))


def _column(values: Sequence[Any], declared: pa.DataType) -> pa.Array:
    if pa.types.is_map(declared):
        values = [None if one is None else list(one.items()) for one in values]
    return pa.array(values, declared)


def key_of(name: str) -> Column:
    """The field as the key of the next step; malformed records share `NO_KEY`."""
    return F.when(F.col("malformed").isNull(), F.col(name)).otherwise(NO_KEY)


def with_headers(records: DataFrame) -> DataFrame:
    """Turn rows of `RECORDS` into the sink's form.

    A dead letter's headers say why it is one and where it came from; its key and value stay as they were sent.  A micro-batch's
    progress tells the number of dead letters, as `written`.
    """
    is_late = F.col("reason") == Outcome.LATE
    told = records.observe("written", F.count_if(F.col("reason").isNotNull()).alias("dead_letters"), F.count_if(is_late).alias("late"))
    headers = F.when(F.col("reason").isNotNull(), F.array(_header("reason"), _header("source")))
    return told.select("topic", "key", "value", "partition", headers.alias("headers"))


def _header(name: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.col(name).cast("binary").alias("value"))
