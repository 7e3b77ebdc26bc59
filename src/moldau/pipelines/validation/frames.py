"""◇ The pure frames of the order validation: Kafka records in, typed rows out, and back again.

Every function takes a DataFrame and returns one, batch or stream, and is chained with `.transform()`.  Nothing is dropped
here but what the job itself wrote: a record that is no order stays a row whose `malformed` column says why.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from moldau.pipelines.records import NO_KEY, PLACE, any_missing, body_fields, is_blank, is_no_json, with_body
from moldau.pipelines.validation.model import PASS, Check, Reason, State

MOST_UNITS_A_LINE = 24

ORDER_SCHEMA = (
    "order_id STRING, customer_id STRING, store_id STRING, ordered_ms BIGINT, state STRING, total_cents BIGINT, "
    "lines ARRAY<STRUCT<product_id: BIGINT, quantity: BIGINT, cents: BIGINT>>, corrupt STRING"
)
STOCK_SCHEMA = "order_id STRING, ordered_ms BIGINT, state STRING, wanted MAP<STRING, BIGINT>, corrupt STRING"
ANSWER_SCHEMA = "order_id STRING, check STRING, verdict STRING, reason STRING, accepted_ms BIGINT"
REQUIRED = ("order_id", "customer_id", "store_id", "ordered_ms", "total_cents", "lines")
REQUIRED_FOR_STOCK = ("order_id", "ordered_ms", "wanted")


def parse_orders(records: DataFrame) -> DataFrame:
    """The rows of `orders` that the checks look at, keyed by customer: new orders, heartbeats, and what is no order."""
    return (
        with_body(records, ORDER_SCHEMA)
        .where(~_is_judged() & F.col("value").isNotNull())  # a record without value deletes an order: there is nothing to check
        .withColumn("malformed", _malformed_order())
        .select(
            _unless_malformed("body.customer_id").alias("customer_id"),
            "malformed",
            *body_fields("order_id", "ordered_ms", "total_cents", "lines"),
            *PLACE,
        )
    )


def parse_stock_requests(records: DataFrame) -> DataFrame:
    """The rows of `stock-requests`, keyed by store, which is the record's own key."""
    malformed = (
        F.when(is_no_json(), Reason.NOT_JSON)
        .when(F.col("body.state") == State.HEARTBEAT, F.lit(None))
        .when(any_missing(*REQUIRED_FOR_STOCK) | F.col("key").isNull() | is_blank("body.order_id", "key"), Reason.MISSING_FIELD)
    )
    return (
        with_body(records, STOCK_SCHEMA)
        .withColumn("malformed", malformed)
        .select(_unless_malformed("key").alias("store_id"), "malformed", *body_fields("order_id", "ordered_ms", "wanted"), *PLACE)
    )


def check_details(orders: DataFrame) -> DataFrame:
    """Replace `lines` by `fault`: the first thing wrong with the order as it is written, or null."""
    lines_cents = F.aggregate("lines", F.lit(0).cast("bigint"), lambda cents, line: cents + line.cents)
    fault = (
        F.when(F.size("lines") == 0, Reason.NO_LINES)
        .when(F.exists("lines", lambda line: ~line.quantity.between(1, MOST_UNITS_A_LINE)), Reason.QUANTITY)
        .when(F.col("total_cents") <= 0, Reason.NOTHING_TO_PAY)
        .when(F.col("total_cents") != lines_cents, Reason.TOTAL_MISMATCH)
    )
    return orders.withColumn("fault", fault).drop("lines")


def created_events(records: DataFrame) -> DataFrame:
    """The aggregator's view of `orders`: what was created, and heartbeats.  What is malformed is the checks' to report."""
    return (
        with_body(records, ORDER_SCHEMA)
        .where(_malformed_order().isNull() & F.col("body.state").isin(State.CREATED, State.HEARTBEAT))
        .select(
            F.when(~_is_heartbeat(), F.col("body.order_id")).otherwise(NO_KEY).alias("order_id"),
            F.lit(None).cast("string").alias("check"),
            F.lit(None).cast("string").alias("reason"),
            "accepted_ms",
            "accepted",
            "partition",
            F.col("value").cast("string").alias("text"),
        )
    )


def answer_events(records: DataFrame, checks: list[Check]) -> DataFrame:
    """The aggregator's view of `order-validations`, for those checks only."""
    body = records.select(F.from_json(F.col("value").cast("string"), ANSWER_SCHEMA).alias("body"))
    return body.where(F.col("body.check").isin(*checks)).select(
        "body.order_id",
        "body.check",
        F.when(F.col("body.verdict") != PASS, F.col("body.reason")).alias("reason"),
        "body.accepted_ms",
        F.timestamp_millis("body.accepted_ms").alias("accepted"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("string").alias("text"),
    )


def _is_judged() -> Column:
    return F.coalesce(F.col("body.state").isin(State.VALIDATED, State.FAILED, State.TIMED_OUT), F.lit(False))


def _malformed_order() -> Column:
    incomplete_line = F.exists("body.lines", lambda line: line.product_id.isNull() | line.quantity.isNull() | line.cents.isNull())
    return (
        F.when(is_no_json(), Reason.NOT_JSON)
        .when(F.col("body.state") == State.HEARTBEAT, F.lit(None))
        .when(any_missing("state", *REQUIRED) | is_blank("body.order_id", "body.customer_id") | incomplete_line, Reason.MISSING_FIELD)
        .when(~F.col("body.state").isin(list(State)), Reason.UNKNOWN_STATE)
    )


def _unless_malformed(name: str) -> Column:
    return F.when(F.col("malformed").isNull() & ~_is_heartbeat(), F.col(name)).otherwise(NO_KEY)


def _is_heartbeat() -> Column:
    return F.col("body.state").eqNullSafe(State.HEARTBEAT)
