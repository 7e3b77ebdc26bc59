"""● The promotion's one query: lines in, a verdict a line out.

promo-lines (by customer) ──► promo limit ──► promo-verdicts
                                   └────────► promo.dlq
"""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moldau.pipelines.ends import Ends
from moldau.pipelines.promo import parse
from moldau.pipelines.promo.model import BURGER_LIMIT, PromoTopics
from moldau.pipelines.promo.processor import LineRow, PromoLimit
from moldau.pipelines.records import RECORDS, Kind, parsed, with_headers
from moldau.pipelines.rolling import Limit
from moldau.pipelines.sharded import Sharded

QUERY = "promo"
LINE = Kind(parse.line, LineRow)
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"  # a query takes it over when it starts


@dataclass(frozen=True, slots=True)
class PromoConfig:
    ends: Ends
    topics: PromoTopics = field(default_factory=PromoTopics)
    limit: Limit = BURGER_LIMIT


def build(spark: SparkSession, config: PromoConfig) -> DataStreamWriter:
    """The query, named and with its checkpoint, not started yet."""
    lines = config.ends.read(spark, config.topics.lines).transform(parse_lines)
    limit = Sharded(PromoLimit(config.topics, config.limit), LineRow._make, "customer_id")
    verdicts = lines.groupBy("shard").transformWithState(limit, RECORDS, "Append", "ProcessingTime")
    return config.ends.write(QUERY, verdicts.transform(with_headers))


def start_available(spark: SparkSession, config: PromoConfig) -> StreamingQuery:
    """Judge the lines that are there, then end.  Timers alone would ask for micro-batches for ever, so none begins without records."""
    spark.conf.set(NO_DATA_BATCHES, "false")
    try:
        return build(spark, config).trigger(availableNow=True).start()
    finally:
        spark.conf.unset(NO_DATA_BATCHES)


def start(spark: SparkSession, config: PromoConfig) -> StreamingQuery:
    """Judge until stopped."""
    return build(spark, config).trigger(processingTime=config.ends.trigger).start()


def parse_lines(records: DataFrame) -> DataFrame:
    """Kafka records as events by customer; `malformed` says what is wrong with a record that is no line."""
    return parsed(records, lambda topic: LINE, "customer_id")
