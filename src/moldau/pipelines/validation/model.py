"""◇ The words of the order validation: orders, checks, states, topics, and how they look as JSON."""

import json
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    CREATED = "CREATED"
    VALIDATED = "VALIDATED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    HEARTBEAT = "HEARTBEAT"  # not an order: it only says that time has passed


class Check(StrEnum):
    """In the order in which a failed order lists its reasons."""

    FRAUD = "fraud"
    INVENTORY = "inventory"
    DETAILS = "details"


class Reason(StrEnum):
    # fraud
    SPENT_LIMIT = "SPENT_LIMIT"
    LATE = "LATE"
    # inventory
    UNKNOWN_PRODUCT = "UNKNOWN_PRODUCT"
    OUT_OF_STOCK = "OUT_OF_STOCK"
    # details
    NO_LINES = "NO_LINES"
    QUANTITY = "QUANTITY"
    NOTHING_TO_PAY = "NOTHING_TO_PAY"
    TOTAL_MISMATCH = "TOTAL_MISMATCH"
    # the record is no order at all
    NOT_JSON = "NOT_JSON"
    MISSING_FIELD = "MISSING_FIELD"
    UNKNOWN_STATE = "UNKNOWN_STATE"


PASS, FAIL = "PASS", "FAIL"


class Topics(NamedTuple):
    """`orders` and `stock_requests` hold the same orders, partitioned by customer and by store: order exists only within a
    partition, so a rule's arbiter must live where all records of its key are."""

    orders: str = "orders"
    stock_requests: str = "stock-requests"
    validations: str = "order-validations"
    dead_letters: str = "orders.dlq"

    @classmethod
    def prefixed(cls, prefix: str) -> "Topics":
        return cls(*(prefix + name for name in cls()))


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
    """What the inventory check needs of an order."""
    wanted: dict[int, int] = {}
    for line in order.lines:
        wanted[line.product_id] = wanted.get(line.product_id, 0) + line.quantity
    return _dumps({"order_id": order.order_id, "ordered_ms": order.ordered_ms, "wanted": wanted}).encode()


def heartbeat_json() -> bytes:
    return _dumps({"order_id": "", "state": State.HEARTBEAT}).encode()


def validation_json(order_id: str, check: Check, fault: str | None, accepted_ms: int) -> bytes:
    """`accepted_ms` travels with the answer: it is the time by which the aggregator knows how far a check has come."""
    answer = {"order_id": order_id, "check": check, "verdict": FAIL if fault else PASS, "reason": fault, "accepted_ms": accepted_ms}
    return _dumps(answer).encode()


def final_json(order_text: str, state: State, reasons: list[str]) -> bytes:
    """The whole order in its final state, since the compacted topic keeps only an order's last record."""
    return _dumps({**json.loads(order_text), "state": state, "reasons": reasons}).encode()


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
