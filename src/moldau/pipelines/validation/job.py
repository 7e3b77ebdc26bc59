"""● The order validation as one streaming query: the topics wired to the frames and the processors.

    orders (by customer) ──────┐
                               ├──► checks ──► aggregator ──► orders
    stock-requests (by store) ─┘                    ├───────► stock-requests (what is given back)
                                                    └───────► orders.dlq

Each step is one Spark group a shard of its keys, whose events travel packed (`..shards`, `..sharded`).  One source reads both topics, and
one step has the keys of both, customers and stores: each source and each step costs every micro-batch, however many records there are.

One query and not three: an order passes its checks and gets its verdict in one micro-batch.  Each micro-batch costs 130–190 ms of planning
however small it is, and an order that passed from query to query waited for the next one of each query.

*Time* in the aggregator is the time of its micro-batches, which no client can move and which passes without records too.  An
order times out when a check has not answered it in time, by `deadline_ms` from when it was seen and `straggler_ms` from its
first answer.  A job that was stopped for a day times nobody out when it goes on.

After a crash the last micro-batch is computed again from the same offsets and the same state.  Each is one transaction, so a
reader of what is committed (`isolation.level=read_committed`) sees every record once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.pipelines.ends import Ends
from moldau.pipelines.records import RECORDS, row_of, with_headers
from moldau.pipelines.rolling import Limit
from moldau.pipelines.sharded import Sharded
from moldau.pipelines.shards import PACKS
from moldau.pipelines.validation.frames import kind_of, parse_records
from moldau.pipelines.validation.model import Topics
from moldau.pipelines.validation.processors import Aggregator, Checks, CustomerChecks, Finding, StockCheck

FRAUD_LIMIT = Limit(most=25_000)  # cents a customer within 24 hours
QUERY = "validation"
TIME = "ProcessingTime"
FORMER: Sequence[str] = ("checks", "aggregator")
"""The queries of state version 2.  They held the state of orders."""


@dataclass(frozen=True, slots=True)
class JobConfig:
    ends: Ends
    catalogue: Mapping[int, int]  # product id → units on a full shelf
    topics: Topics = field(default_factory=Topics)
    fraud_limit: Limit = FRAUD_LIMIT
    deadline_ms: int = 600_000
    straggler_ms: int = 600_000


def start(spark: SparkSession, config: JobConfig) -> StreamingQuery:
    """Run until stopped."""
    records = with_headers(judged(checked(spark, config), config))
    return config.ends.write(QUERY, records).trigger(processingTime=config.ends.trigger).start()


def checked(spark: SparkSession, config: JobConfig) -> DataFrame:
    checks = Checks(CustomerChecks(config.fraud_limit), StockCheck(config.catalogue))
    step = Sharded(checks, row_of(kind_of(config.topics)), "subject", next_key="order_id")
    return (
        config.ends.read(spark, config.topics.orders, config.topics.stock_requests)
        .transform(parse_records, config.topics)
        .groupBy("shard")
        .transformWithState(step, PACKS, "Append", TIME)
    )


def judged(checked: DataFrame, config: JobConfig) -> DataFrame:
    aggregator = Aggregator(config.topics, config.deadline_ms, config.straggler_ms)
    return checked.groupBy("shard").transformWithState(Sharded(aggregator, Finding._make, "order_id"), RECORDS, "Append", TIME)
