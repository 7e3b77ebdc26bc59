"""◇ The pure frames of the order validation: Kafka records in, events for the checks out, packed by shard.

Every function takes a DataFrame and returns one, batch or stream, and is chained with `.transform()`.  Only
records that nobody waits for are dropped here: a record that is no order stays an event whose `malformed` says why.
"""

from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

from moldau.pipelines.records import Kind, KindOf, parsed
from moldau.pipelines.validation import parse
from moldau.pipelines.validation.model import State, Topics

CUSTOMER, STORE = "customer ", "store "


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

    @property
    def subject(self) -> str:
        """The name of the state that judges it."""
        return CUSTOMER + self.customer_id


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

    @property
    def subject(self) -> str:
        return STORE + self.store_id


def _is_validated(order: tuple[Any, ...]) -> bool:
    return bool(order[0] == State.VALIDATED)


ORDER: Final = Kind(parse.order, OrderRow, leave_out=_is_validated)
REQUEST: Final = Kind(parse.stock_request, RequestRow)


def kind_of(topics: Topics) -> KindOf:
    return lambda topic: ORDER if topic == topics.orders else REQUEST


def parse_records(records: DataFrame, topics: Topics) -> DataFrame:
    """Rows for the checks: new orders and orders that came to nothing by customer, stock requests by store, and malformed records.

    A store is the key of its stock requests.
    """
    return parsed(records, kind_of(topics), "subject")
