"""◇ The pure frames of the order validation: Kafka records in, events for the checks out, packed by shard.

Every function takes a DataFrame and returns one, batch or stream, and is chained with `.transform()`.  Only
records that nobody waits for are dropped here: a record that is no order stays an event whose `malformed` says why.
"""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from moldau.pipelines.records import parsed
from moldau.pipelines.validation import parse
from moldau.pipelines.validation.model import State


class OrderRow(NamedTuple):
    """A record of `orders`: its place, and the fields of `parse.ParsedOrder`, which are None if it is malformed."""

    malformed: str | None
    topic: str
    partition: int
    offset: int
    accepted_ms: int
    key: bytes | None
    value: bytes | None
    state: str
    order_id: str
    customer_id: str
    ordered_ms: int
    total_cents: int
    fault: str | None
    text: str


class RequestRow(NamedTuple):
    """A record of `stock-requests`: its place, and the fields of `parse.ParsedRequest`, which are None if it is malformed."""

    malformed: str | None
    topic: str
    partition: int
    offset: int
    accepted_ms: int
    key: bytes | None
    value: bytes | None
    order_id: str
    store_id: str
    ordered_ms: int
    fault: str | None
    wanted: dict[int, int]
    is_release: bool


def parse_orders(records: DataFrame) -> DataFrame:
    """The records of `orders` that the checks look at, by customer: new orders, orders that came to nothing, and malformed records."""
    return parsed(records, parse.order, OrderRow, "customer_id", leave_out=_is_validated)


def parse_stock_requests(records: DataFrame) -> DataFrame:
    """The records of `stock-requests`, by store, which is the record's own key."""
    return parsed(records, parse.stock_request, RequestRow, "store_id")


def _is_validated(order: tuple[Any, ...]) -> bool:
    return bool(order[0] == State.VALIDATED)
