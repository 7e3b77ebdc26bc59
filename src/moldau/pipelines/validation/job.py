"""● The order validation as two streaming queries: the topics wired to the frames and the processors.

    orders (by customer) ──► customer checks ──┐
                                               ├──► order-validations ──► aggregator ──► orders
    stock-requests (by store) ──► stock check ─┘         orders ────────────┘
                       └─► orders.dlq

Two queries and not five, because a micro-batch costs 130–190 ms of planning however small it is: the checks share one
query although they do not share a key, and fraud and details share one pass.

*Time* in the aggregator is the time of its micro-batches, which no client can move and which passes without records too.  An
order times out when a check has not answered it in time, by `deadline_ms` from when it was seen and `straggler_ms` from its
first answer.  A job that was stopped for a day times nobody out when it goes on.

After a crash the last micro-batch is computed again from the same offsets and the same state.  Each is one transaction, so a
reader of what is committed (`isolation.level=read_committed`) sees every record once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.pipelines.ends import Ends
from moldau.pipelines.records import RECORDS, with_headers
from moldau.pipelines.rolling import Limit
from moldau.pipelines.validation.frames import answer_events, created_events, parse_orders, parse_stock_requests
from moldau.pipelines.validation.model import Topics
from moldau.pipelines.validation.processors import Aggregator, CustomerChecks, StockCheck

FRAUD_LIMIT = Limit(most=25_000)  # cents a customer within 24 hours
CHECKS, AGGREGATOR = "checks", "aggregator"


@dataclass(frozen=True, slots=True)
class JobConfig:
    ends: Ends
    catalogue: Mapping[int, int]  # product id → units on a full shelf
    topics: Topics = field(default_factory=Topics)
    fraud_limit: Limit = FRAUD_LIMIT
    deadline_ms: int = 600_000
    straggler_ms: int = 600_000


def start_one(spark: SparkSession, config: JobConfig, name: str) -> StreamingQuery:
    """One of the queries by its name, read and written by ends made anew."""
    frame = customer_checks(spark, config).unionByName(stock_check(spark, config)) if name == CHECKS else aggregator(spark, config)
    return config.ends.write(name, with_headers(frame)).trigger(processingTime=config.ends.trigger).start()


def start(spark: SparkSession, config: JobConfig) -> list[StreamingQuery]:
    """Run until stopped."""
    return [start_one(spark, config, name) for name in (CHECKS, AGGREGATOR)]


def customer_checks(spark: SparkSession, config: JobConfig) -> DataFrame:
    return (
        config.ends.read(spark, config.topics.orders)
        .transform(parse_orders)
        .groupBy("customer_id")
        .transformWithState(CustomerChecks(config.topics, config.fraud_limit), RECORDS, "Append", "ProcessingTime")
    )


def stock_check(spark: SparkSession, config: JobConfig) -> DataFrame:
    return (
        config.ends.read(spark, config.topics.stock_requests)
        .transform(parse_stock_requests)
        .groupBy("store_id")
        .transformWithState(StockCheck(config.topics, config.catalogue), RECORDS, "Append", "ProcessingTime")
    )


def aggregator(spark: SparkSession, config: JobConfig) -> DataFrame:
    created = created_events(config.ends.read(spark, config.topics.orders))
    answers = answer_events(config.ends.read(spark, config.topics.validations))
    return (
        created.unionByName(answers)
        .groupBy("order_id")
        .transformWithState(Aggregator(config.topics, config.deadline_ms, config.straggler_ms), RECORDS, "Append", "ProcessingTime")
    )
