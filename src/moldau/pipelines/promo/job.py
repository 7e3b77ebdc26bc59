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
from moldau.pipelines.promo.processor import PromoLimit
from moldau.pipelines.records import PLACE, RECORDS, key_of, parsed, with_headers
from moldau.pipelines.rolling import Limit

QUERY = "promo"
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"  # a query takes it over when it starts
LINE_FIELDS = "line_id STRING, customer_id STRING, bought_ms BIGINT, quantity BIGINT"


@dataclass(frozen=True, slots=True)
class PromoConfig:
    ends: Ends
    topics: PromoTopics = field(default_factory=PromoTopics)
    limit: Limit = BURGER_LIMIT


def build(spark: SparkSession, config: PromoConfig) -> DataStreamWriter:
    """The query, named and with its checkpoint, not started yet."""
    lines = config.ends.read(spark, config.topics.lines).transform(parse_lines)
    limit = PromoLimit(config.topics, config.limit)
    verdicts = lines.groupBy("customer_id").transformWithState(limit, RECORDS, "Append", "ProcessingTime")
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
    """Kafka records as rows keyed by customer; `malformed` says what is wrong with a record that is no line."""
    return parsed(records, parse.line, LINE_FIELDS).select(
        key_of("customer_id").alias("customer_id"), "malformed", "line_id", "bought_ms", "quantity", *PLACE
    )
