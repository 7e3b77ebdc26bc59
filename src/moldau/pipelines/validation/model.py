"""◇ The words of the order validation: orders, checks, states, topics, and how they look as JSON."""

import json
from enum import StrEnum
from typing import NamedTuple

from moldau.pipelines import strict


class State(StrEnum):
    CREATED = "CREATED"
    VALIDATED = "VALIDATED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"


class Check(StrEnum):
    """The checks, in the order in which a failed order lists its reasons."""

    FRAUD = "fraud"
    INVENTORY = "inventory"
    DETAILS = "details"


class Reason(StrEnum):
    # fraud
    SPENT_LIMIT = "SPENT_LIMIT"
    LATE = "LATE"
    # fraud and inventory
    CLOCK_AHEAD = "CLOCK_AHEAD"  # ordered more than an hour after it was accepted
    # inventory
    UNKNOWN_PRODUCT = "UNKNOWN_PRODUCT"
    OUT_OF_STOCK = "OUT_OF_STOCK"
    # details
    NO_LINES = "NO_LINES"
    QUANTITY = "QUANTITY"
    NOTHING_TO_PAY = "NOTHING_TO_PAY"
    TOTAL_MISMATCH = "TOTAL_MISMATCH"
    # a defect of a check
    RULE_FAILED = "RULE_FAILED"
    # the record is no order, no request, or no answer at all
    NO_VALUE = strict.NO_VALUE
    TOO_LARGE = strict.TOO_LARGE
    NOT_JSON = strict.NOT_JSON
    MISSING_FIELD = strict.MISSING_FIELD
    WRONG_TYPE = strict.WRONG_TYPE
    OUT_OF_RANGE = strict.OUT_OF_RANGE
    WRONG_KEY = "WRONG_KEY"  # not UTF-8
    UNKNOWN_STATE = "UNKNOWN_STATE"
    # the record is an order, but one with its id was there before
    REPEATED = "REPEATED"


# A dead letter is as large as what a compressed batch held, with headers added.
MOST_LETTER_BYTES = 16 * 1024 * 1024


class Topics(NamedTuple):
    """`orders` and `stock_requests` hold the same orders, partitioned by customer and by store: order exists only within a
    partition, so a rule's arbiter must live where all records of its key are.
    """

    orders: str = "orders"
    stock_requests: str = "stock-requests"
    dead_letters: str = "orders.dlq"

    @classmethod
    def prefixed(cls, prefix: str) -> "Topics":
        return cls(*(prefix + name for name in cls()))

    def configs(self) -> dict[str, dict[str, str]]:
        """The topics' configs: orders of any age may be replayed."""
        keep = {"retention.ms": "-1"}
        return {
            self.orders: {"cleanup.policy": "compact", **keep},
            self.stock_requests: keep,
            self.dead_letters: {**keep, "max.message.bytes": str(MOST_LETTER_BYTES)},
        }


class Line(NamedTuple):
    product_id: int
    quantity: int
    cents: int  # for the whole line


class Order(NamedTuple):
    order_id: str
    customer_id: str
    store_id: str
    ordered_ms: int  # the customer's clock; when it was accepted is the record's timestamp
    lines: tuple[Line, ...]
    total_cents: int


def order_json(order: Order, state: State = State.CREATED) -> bytes:
    lines = [line._asdict() for line in order.lines]
    return _dumps({**order._asdict(), "lines": lines, "state": state}).encode()


def stock_request_json(order: Order) -> bytes:
    """The part of an order that the inventory check needs."""
    wanted: dict[int, int] = {}
    for line in order.lines:
        wanted[line.product_id] = wanted.get(line.product_id, 0) + line.quantity
    return _dumps({"order_id": order.order_id, "ordered_ms": order.ordered_ms, "wanted": wanted}).encode()


def release_json(order_id: str) -> bytes:
    """A release in the topic of stock requests: the order was not fulfilled."""
    return _dumps({"order_id": order_id, "released": True}).encode()


def final_json(order_text: str, state: State, reasons: list[str]) -> bytes:
    """The whole order in its final state, since the compacted topic keeps only an order's last record.

    `order_text` is an order as `parse.order` writes it: a JSON object with fields, and without these two.
    """
    return (order_text[:-1] + "," + _dumps({"state": state, "reasons": reasons})[1:]).encode()


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
