"""◇ Records of the order validation taken apart: bytes in, typed fields out, or `Malformed` with a reason.

Each record is read here and nowhere else.  Later steps get it as typed fields.  An order's text travels as it is written anew
here, so that the final record is put together without reading it again.
"""

import json
from typing import Any, NamedTuple

from moldau.pipelines.strict import NOT_JSON, WRONG_TYPE, Malformed, integer, items, json_object, text, utf8
from moldau.pipelines.validation import details
from moldau.pipelines.validation.model import Line, Reason, State


class ParsedOrder(NamedTuple):
    state: str
    order_id: str
    customer_id: str
    ordered_ms: int
    total_cents: int
    fault: str | None  # of the details check
    text: str  # the order as JSON, without state and reasons


class ParsedRequest(NamedTuple):
    order_id: str
    store_id: str
    ordered_ms: int
    fault: str | None  # the request can be answered without looking at a shelf
    wanted: dict[int, int]  # product id → units
    is_release: bool = False  # it asks for nothing, and gives back what its order holds


def order(key: bytes | None, value: bytes | None) -> ParsedOrder:
    body = json_object(value)
    order_id, customer_id = text(body, "order_id"), text(body, "customer_id")
    text(body, "store_id")
    ordered_ms, total_cents = integer(body, "ordered_ms"), integer(body, "total_cents")
    lines = [_line(line) for line in items(body, "lines")]
    state = text(body, "state")
    if state not in list(State):
        raise Malformed(Reason.UNKNOWN_STATE)
    written = _written({name: field for name, field in body.items() if name not in ("state", "reasons")})
    return ParsedOrder(state, order_id, customer_id, ordered_ms, total_cents, details.first_fault(lines, total_cents), written)


def stock_request(key: bytes | None, value: bytes | None) -> ParsedRequest:
    """A store's id is the record's key."""
    body = json_object(value)
    order_id, store_id = text(body, "order_id"), text({"key": _key_text(key)}, "key")
    if body.get("released") is True:
        return ParsedRequest(order_id, store_id, 0, None, {}, is_release=True)
    ordered_ms = integer(body, "ordered_ms")
    wanted = body.get("wanted")
    if wanted is None:
        raise Malformed(Reason.MISSING_FIELD)
    if not isinstance(wanted, dict):
        raise Malformed(WRONG_TYPE)
    units = [(product_id, integer(wanted, product_id)) for product_id in wanted]
    if any(count < 1 for _, count in units):
        return ParsedRequest(order_id, store_id, ordered_ms, Reason.QUANTITY, {})
    if not all(_is_product_id(product_id) for product_id in wanted):
        return ParsedRequest(order_id, store_id, ordered_ms, Reason.UNKNOWN_PRODUCT, {})
    return ParsedRequest(order_id, store_id, ordered_ms, None, {int(product_id): count for product_id, count in units})


def _line(line: Any) -> Line:
    if not isinstance(line, dict):
        raise Malformed(WRONG_TYPE)
    return Line(integer(line, "product_id"), integer(line, "quantity"), integer(line, "cents"))


def _is_product_id(name: str) -> bool:
    """Whether the name is written as we write it, without a sign, leading zeros or other digits, and fits into a number of 64 bits."""
    return name.isascii() and name.isdigit() and len(name) < 19 and str(int(name)) == name


def _key_text(key: bytes | None) -> str | None:
    try:
        return None if key is None else bytes(key).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(Reason.WRONG_KEY) from error


def _written(body: dict[str, Any]) -> str:
    try:
        return utf8(json.dumps(body, separators=(",", ":"), allow_nan=False))
    except (ValueError, RecursionError) as error:  # a number such as 1e999 is read as infinite, which JSON cannot say
        raise Malformed(NOT_JSON) from error
