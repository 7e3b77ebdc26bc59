"""◇ The pure frames of the order validation: Kafka records in, typed rows out.

Every function takes a DataFrame and returns one, batch or stream, and is chained with `.transform()`.  Only
records that nobody waits for are dropped here: a record that is no order stays a row whose `malformed` column says why.
"""

from typing import Any

from pyspark.sql import DataFrame

from moldau.pipelines.records import PLACE, key_of, parsed
from moldau.pipelines.validation import parse
from moldau.pipelines.validation.model import State

ORDER_FIELDS = "state STRING, order_id STRING, customer_id STRING, ordered_ms BIGINT, total_cents BIGINT, fault STRING, text STRING"
REQUEST_FIELDS = "order_id STRING, store_id STRING, ordered_ms BIGINT, fault STRING, wanted MAP<BIGINT, BIGINT>, is_release BOOLEAN"


def parse_orders(records: DataFrame) -> DataFrame:
    """The rows of `orders` that the checks look at, keyed by customer: new orders, orders that came to nothing, and malformed records."""
    found = parsed(records, parse.order, ORDER_FIELDS, leave_out=_is_validated)
    return found.select(
        *(key_of("customer_id").alias("customer_id"), "malformed", "state", "order_id", "ordered_ms", "total_cents", "fault", "text"),
        *PLACE,
    )


def parse_stock_requests(records: DataFrame) -> DataFrame:
    """The rows of `stock-requests`, keyed by store, which is the record's own key."""
    return parsed(records, parse.stock_request, REQUEST_FIELDS).select(
        key_of("store_id").alias("store_id"), "malformed", "order_id", "ordered_ms", "fault", "wanted", "is_release", *PLACE
    )


def _is_validated(order: tuple[Any, ...]) -> bool:
    return bool(order[0] == State.VALIDATED)
