"""◇ The pure frames of the order validation: Kafka records in, typed rows out.

Every function takes a DataFrame and returns one, batch or stream, and is chained with `.transform()`.  Nothing is dropped
here but what nobody waits for: a record that is no order stays a row whose `malformed` column says why.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from moldau.pipelines.records import PLACE, key_of, parsed
from moldau.pipelines.validation import parse
from moldau.pipelines.validation.model import State

ORDER_FIELDS = "state STRING, order_id STRING, customer_id STRING, ordered_ms BIGINT, total_cents BIGINT, fault STRING, text STRING"
REQUEST_FIELDS = "order_id STRING, store_id STRING, ordered_ms BIGINT, fault STRING, wanted MAP<BIGINT, BIGINT>, is_release BOOLEAN"
ANSWER_FIELDS = "order_id STRING, check STRING, fault STRING, store_id STRING"


def parse_orders(records: DataFrame) -> DataFrame:
    """The rows of `orders` that the checks look at, keyed by customer: new orders, those that came to nothing, and what is no order."""
    found = parsed(records, parse.order, ORDER_FIELDS).where(F.col("malformed").isNotNull() | (F.col("state") != State.VALIDATED))
    return found.select(
        key_of("customer_id").alias("customer_id"), "malformed", "state", "order_id", "ordered_ms", "total_cents", "fault", *PLACE
    )


def parse_stock_requests(records: DataFrame) -> DataFrame:
    """The rows of `stock-requests`, keyed by store, which is the record's own key."""
    return parsed(records, parse.stock_request, REQUEST_FIELDS).select(
        key_of("store_id").alias("store_id"), "malformed", "order_id", "ordered_ms", "fault", "wanted", "is_release", *PLACE
    )


def created_events(records: DataFrame) -> DataFrame:
    """The aggregator's view of `orders`: what was created.  What is malformed is the checks' to report."""
    nothing = F.lit(None).cast("string")
    return (
        parsed(records, parse.order, ORDER_FIELDS)
        .where(F.col("malformed").isNull() & (F.col("state") == State.CREATED))
        .select("order_id", "malformed", nothing.alias("check"), nothing.alias("fault"), nothing.alias("store_id"), "text", *PLACE)
    )


def answer_events(records: DataFrame) -> DataFrame:
    """The aggregator's view of `order-validations`; what is no answer is for the dead-letter topic."""
    return parsed(records, parse.answer, ANSWER_FIELDS).select(
        key_of("order_id").alias("order_id"), "malformed", "check", "fault", "store_id", F.lit(None).cast("string").alias("text"), *PLACE
    )
