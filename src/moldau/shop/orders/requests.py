"""◇ An order as REST takes it, and the two records that it becomes.

REST refuses bodies of the wrong shape.  The details check judges the content of an order (a quantity of 99, a wrong total), so that
an order by REST and an order by any producer are judged alike.
"""

import json
from typing import Any, Final

from moldau.clients.producer.partitioners import partition_for_key
from moldau.pipelines.strict import WRONG_TYPE, Malformed, integer, items, json_object, text
from moldau.pipelines.validation.model import Line, Order, State, Topics, order_json, stock_request_json
from moldau.shop.web.fields import Fields
from moldau.shop.writer import Outgoing

MOST_LINES: Final = 500
MOST_WAIT_S: Final = 60.0
"""The longest wait for a verdict in one request."""
FIELDS: Final = ("customer_id", "store_id", "lines", "total_cents", "ordered_ms", "email")
LINE_FIELDS: Final = ("product_id", "quantity", "cents")
DIGEST: Final = "request_digest"
"""A field of the order's own record.  It tells, as long as the order is kept, whether a repeated key comes with the same body."""


def order_of(body: dict[str, Any], order_id: str, now_ms: int) -> tuple[Order, str]:
    """The order and its mail address, which may be empty.  Errors: Problem, with every field that is wrong."""
    fields = Fields(body)
    fields.only(FIELDS)
    lines = []
    for line in fields.objects("lines", most=MOST_LINES):
        line.only(LINE_FIELDS)
        lines.append(Line(line.integer("product_id", least=1), line.integer("quantity"), line.integer("cents")))
    order = Order(
        order_id,
        fields.text("customer_id"),
        fields.text("store_id"),
        fields.integer("ordered_ms", least=0, default=now_ms),
        tuple(lines),
        fields.integer("total_cents"),
    )
    email = fields.text("email", default="") if body.get("email") is not None else ""
    if email and not is_address(email):
        fields.say("email", "an address is expected, such as anna@example.org")
    fields.done()
    return order, email


def order_in(value: bytes | None) -> tuple[Order, dict[str, str]]:
    """The order in a received record; its state in the record does not count.  Errors: Malformed."""
    body = json_object(value)
    lines = tuple(_line(line) for line in items(body, "lines"))
    order = Order(
        text(body, "order_id"),
        text(body, "customer_id"),
        text(body, "store_id"),
        integer(body, "ordered_ms"),
        lines,
        integer(body, "total_cents"),
    )
    email = body.get("email")
    return order, {"email": email} if isinstance(email, str) and is_address(email) else {}


def _line(found: Any) -> Line:
    if not isinstance(found, dict):
        raise Malformed(WRONG_TYPE)
    return Line(integer(found, "product_id"), integer(found, "quantity"), integer(found, "cents"))


def is_address(text: str) -> bool:
    """Whether the text may be an address; it cannot be two addresses, or a header."""
    name, _, host = text.rpartition("@")
    return bool(name and host) and text.isascii() and text.isprintable() and not set(text) & set(' ,;:<>()[]\\"') and "@" not in name


def records_of(order: Order, topics: Topics, partitions: int, now_ms: int, extras: dict[str, str]) -> list[Outgoing]:
    """The order by its customer, and its stock request by its store: one partition judges each of them."""
    body = {**json.loads(order_json(order, State.CREATED)), **{name: value for name, value in extras.items() if value}}
    where = partition_for_key(order.customer_id.encode(), partitions)
    value = json.dumps(body, separators=(",", ":")).encode()
    return [
        Outgoing(topics.orders, order.order_id.encode(), value, now_ms, where),
        Outgoing(topics.stock_requests, order.store_id.encode(), stock_request_json(order), now_ms),
    ]
