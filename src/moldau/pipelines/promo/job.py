"""● The promotion's one query: lines in, a verdict a line out.

promo-lines (by customer) ──► promo limit ──► promo-verdicts
                                   └────────► promo.dlq
"""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moldau.pipelines.kafka import KafkaEnds
from moldau.pipelines.promo.model import BURGER_LIMIT, PromoTopics
from moldau.pipelines.promo.processor import PromoLimit
from moldau.pipelines.records import NO_KEY, PLACE, RECORDS, any_missing, body_fields, is_blank, is_no_json, with_body, with_headers
from moldau.pipelines.rolling import Limit

QUERY = "promo"
LINE_SCHEMA = "line_id STRING, customer_id STRING, bought_ms BIGINT, quantity BIGINT, corrupt STRING"


@dataclass(frozen=True, slots=True)
class PromoConfig:
    kafka: KafkaEnds
    topics: PromoTopics = field(default_factory=PromoTopics)
    limit: Limit = BURGER_LIMIT
    forget_disorder: str = "1 day"


def build(spark: SparkSession, config: PromoConfig) -> DataStreamWriter:
    """The query, named and with its checkpoint, not started yet."""
    lines = config.kafka.read(spark, config.topics.lines).transform(parse_lines).withWatermark("accepted", config.forget_disorder)
    limit = PromoLimit(config.topics, config.limit)
    verdicts = lines.groupBy("customer_id").transformWithState(limit, RECORDS, "Append", "EventTime")
    return config.kafka.write(QUERY, verdicts.transform(with_headers))


def parse_lines(records: DataFrame) -> DataFrame:
    """Kafka records as rows keyed by customer; `malformed` says what is wrong with one that is no line."""
    missing = any_missing("line_id", "customer_id", "bought_ms", "quantity") | is_blank("body.customer_id")
    malformed = F.when(is_no_json(), "NOT_JSON").when(missing | (F.col("body.quantity") < 1), "MISSING_FIELD")
    return (
        with_body(records, LINE_SCHEMA)
        .withColumn("malformed", malformed)
        .select(
            F.when(F.col("malformed").isNull(), F.col("body.customer_id")).otherwise(NO_KEY).alias("customer_id"),
            "malformed",
            *body_fields("line_id", "bought_ms", "quantity"),
            *PLACE,
        )
    )
