"""● The order validation as two streaming queries: the topics wired to the frames and the processors.

    orders (by customer) ──► customer checks ──┐
                                               ├──► order-validations ──► aggregator ──► orders
    stock-requests (by store) ──► stock check ─┘         orders ────────────┘
                       └─► orders.dlq

Two queries and not five, because a micro-batch costs 130–190 ms of planning however small it is: the checks share one
query although they do not share a key, and fraud and details share one pass.

*Time* in the aggregator is the record timestamp of the order, which travels with every answer.  Each of its three inputs has
its own watermark and the slowest decides: an order times out when every check has answered orders accepted ten minutes
later, and not this one.  A check that lags, or a job that was stopped for a day, times nobody out.

The stock sink is at-least-once: after a crash the last micro-batch is computed again from the same offsets and the same
state, so a repeat is equal to what it repeats, and a reader takes the first record of each order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moldau.pipelines.kafka import KafkaEnds
from moldau.pipelines.records import RECORDS, with_headers
from moldau.pipelines.rolling import Limit
from moldau.pipelines.validation.frames import (
    answer_events,
    check_details,
    created_events,
    parse_orders,
    parse_stock_requests,
)
from moldau.pipelines.validation.model import Check, Topics
from moldau.pipelines.validation.processors import (
    PLACED_RECORDS,
    Aggregator,
    CustomerChecks,
    StockCheck,
)

FRAUD_LIMIT = Limit(most=25_000)  # cents a customer within 24 hours
CHECKS, AGGREGATOR = "checks", "aggregator"


@dataclass(frozen=True, slots=True)
class JobConfig:
    kafka: KafkaEnds
    catalogue: Mapping[int, int]  # product id → units on a full shelf
    topics: Topics = field(default_factory=Topics)
    fraud_limit: Limit = FRAUD_LIMIT
    deadline_ms: int = 600_000
    disorder: str = "5 minutes"  # how far the records of one micro-batch may lie apart; older ones would be lost
    forget_disorder: str = "1 day"


def build(spark: SparkSession, config: JobConfig) -> list[DataStreamWriter]:
    """The two queries, named and with their checkpoints, not started yet: the caller chooses the trigger."""
    return [
        config.kafka.write(CHECKS, customer_checks(spark, config).unionByName(stock_check(spark, config))),
        config.kafka.write(AGGREGATOR, aggregator(spark, config)),
    ]


def start(spark: SparkSession, config: JobConfig) -> list[StreamingQuery]:
    """Run until stopped."""
    return [writer.start() for writer in build(spark, config)]


def run_available(spark: SparkSession, config: JobConfig) -> None:
    """Judge what is there and stop: the checks to their end, then the aggregator."""
    for writer in build(spark, config):
        writer.trigger(availableNow=True).start().awaitTermination()


def customer_checks(spark: SparkSession, config: JobConfig) -> DataFrame:
    return (
        config.kafka.read(spark, config.topics.orders)
        .transform(parse_orders)
        .transform(check_details)
        .withWatermark("accepted", config.forget_disorder)
        .groupBy("customer_id")
        .transformWithState(CustomerChecks(config.topics, config.fraud_limit), RECORDS, "Append", "EventTime")
        .transform(with_headers)
    )


def stock_check(spark: SparkSession, config: JobConfig) -> DataFrame:
    return (
        config.kafka.read(spark, config.topics.stock_requests)
        .transform(parse_stock_requests)
        .withWatermark("accepted", config.forget_disorder)
        .groupBy("store_id")
        .transformWithState(StockCheck(config.topics, config.catalogue), RECORDS, "Append", "EventTime")
        .transform(with_headers)
    )


def aggregator(spark: SparkSession, config: JobConfig) -> DataFrame:
    answers = config.kafka.read(spark, config.topics.validations)
    # Fraud and details come from one pass and are equally far; inventory has its own pace, so it gets its own watermark.
    inputs = (
        created_events(config.kafka.read(spark, config.topics.orders)),
        answer_events(answers, [Check.FRAUD, Check.DETAILS]),
        answer_events(answers, [Check.INVENTORY]),
    )
    created, by_customer, by_store = (events.withWatermark("accepted", config.disorder) for events in inputs)
    return (
        created.unionByName(by_customer)
        .unionByName(by_store)
        .groupBy("order_id")
        .transformWithState(Aggregator(config.topics, config.deadline_ms), PLACED_RECORDS, "Append", "EventTime")
    )
