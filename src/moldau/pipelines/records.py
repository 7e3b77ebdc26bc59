"""◇ Kafka records as frames: taking them apart with a parser in Python, and putting records together for the sink.

Every function takes a DataFrame and returns one, batch or stream.  A parser is a pure function `(key, value) → fields`
that raises `Malformed`; whatever it meets, a row comes out of it, and no row ends the query.
"""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

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


class Kind(NamedTuple):
    """One kind of records: the parser, and the rows that come out of it.

    A row is a tuple of `row`: `malformed` (the reason why there are no fields, or None), the place, and the fields that the parser found.
    `leave_out` says, by its fields, whether nobody looks at a well-formed record.
    """

    parser: Parser
    row: Any
    leave_out: Callable[[tuple[Any, ...]], bool] = lambda _: False


KindOf = Callable[[str], Kind]
"""The kind of the records of a topic."""


def row_of(kind_of: KindOf) -> Callable[[Event], Any]:
    """The function that makes the row of an event."""
    return lambda event: kind_of(event[1]).row._make(event)


def parsed(records: DataFrame, kind_of: KindOf, key: str) -> DataFrame:
    """Rows of `PACKS`, whose events are rows as tuples.  `key` names the attribute of a row by which it goes to a shard.

    *Accepted* is the record's timestamp, but never later than the micro-batch: a client may set it to anything.  The
    micro-batch's own time is in Spark's offset log, so a repeated batch has the same one.
    """
    key_of = attrgetter(key)

    def row(place: Event) -> Any:
        """None for a record that is left out."""
        kind = kind_of(place[0])
        try:
            fields = tuple(kind.parser(place[-2], place[-1]))
        except Malformed as error:
            return _malformed(kind, error.reason, place)
        except Exception:
            return _malformed(kind, PARSER_FAILED, place)
        return None if kind.leave_out(fields) else kind.row._make((None, *place, *fields))

    def rows(batch: pa.RecordBatch) -> Iterator[Any]:
        places = zip(*(batch.column(name).to_pylist() for name in PLACE), strict=True)
        return (found for place in places if (found := row(place)) is not None)

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = list(packs(rows(batch), lambda row: NO_KEY if row.malformed is not None else key_of(row)))
            columns = [pa.array([pack.shard for pack in found], pa.int32()), pa.array([pack.events for pack in found], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=list(Pack._fields))

    now_ms = F.unix_millis(F.current_timestamp())
    sent_ms = F.unix_millis("timestamp")
    accepted_ms = F.when(sent_ms < 0, now_ms).otherwise(F.least(sent_ms, now_ms))
    return records.withColumn("accepted_ms", F.coalesce(accepted_ms, now_ms)).select(*PLACE).mapInArrow(packed, PACKS)


def _malformed(kind: Kind, reason: str, place: Event) -> Any:
    nothing = (None,) * (len(kind.row._fields) - 1 - len(PLACE))
    return kind.row._make((reason, *place, *nothing))


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
