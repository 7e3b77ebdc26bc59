"""◇ Kafka records as frames: taking them apart with a parser in Python, and putting records together for the sink.

Every function takes a DataFrame and returns one, batch or stream.  A parser is a pure function `(key, value) → fields`
that raises `Malformed`; whatever it meets, a row comes out of it, and no row ends the query.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from moldau.pipelines.rolling import Outcome
from moldau.pipelines.shards import PACKS, Event, Pack, packs
from moldau.pipelines.strict import Malformed

NO_KEY = ""  # malformed records have no key: they share this one
PARSER_FAILED = "PARSER_FAILED"
# A record's place and content, as the order of judging and a dead letter need them.
PLACE = ("topic", "partition", "offset", "accepted_ms", "key", "value")
RECORDS = "topic STRING, key BINARY, value BINARY, partition INT, reason STRING, source STRING"

Parser = Callable[[bytes | None, bytes | None], tuple[object, ...]]


def parsed(
    records: DataFrame, parser: Parser, row: Any, key: str, *, leave_out: Callable[[tuple[Any, ...]], bool] = lambda _: False
) -> DataFrame:
    """Rows of `PACKS`.  An event is a tuple of `row`: `malformed` (the reason why there are no fields, or None), the place, and the fields
    that the parser found.  `key` names the field by which events go to shards.

    *Accepted* is the record's timestamp, but never later than the micro-batch: a client may set it to anything.  The
    micro-batch's own time is in Spark's offset log, so a repeated batch has the same one.  `leave_out`
    says, by its fields, whether nobody looks at a well-formed record.
    """
    nothing = (None,) * (len(row._fields) - 1 - len(PLACE))
    key_at = row._fields.index(key)

    def parse(key: bytes | None, value: bytes | None) -> tuple[str | None, tuple[Any, ...]]:
        try:
            return None, tuple(parser(key, value))
        except Malformed as error:
            return error.reason, nothing
        except Exception:
            return PARSER_FAILED, nothing

    def events(batch: pa.RecordBatch) -> Iterator[Event]:
        for place in zip(*(batch.column(name).to_pylist() for name in PLACE), strict=True):
            malformed, fields = parse(place[-2], place[-1])
            if malformed is not None or not leave_out(fields):
                yield (malformed, *place, *fields)

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = list(packs(events(batch), lambda event: NO_KEY if event[0] is not None else event[key_at]))
            columns = [pa.array([pack.shard for pack in found], pa.int32()), pa.array([pack.events for pack in found], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=list(Pack._fields))

    now_ms = F.unix_millis(F.current_timestamp())
    sent_ms = F.unix_millis("timestamp")
    accepted_ms = F.when(sent_ms < 0, now_ms).otherwise(F.least(sent_ms, now_ms))
    return records.withColumn("accepted_ms", F.coalesce(accepted_ms, now_ms)).select(*PLACE).mapInArrow(packed, PACKS)


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
