"""◇ A record of the topic of orders as a row of the view."""

import json
from typing import Any, NamedTuple

from moldau.pipelines.validation.model import State
from moldau.shop.orders.requests import DIGEST

FINAL = (State.VALIDATED, State.FAILED, State.TIMED_OUT)


class Row(NamedTuple):
    order_id: str
    state: str
    customer_id: str
    store_id: str
    total_cents: int
    reasons: tuple[str, ...]
    digest: str
    changed_ms: int
    body: str

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def words(self) -> str:
        """The words by which the order is found."""
        return " ".join((self.order_id, f"customer:{self.customer_id}", f"store:{self.store_id}", self.state, *self.reasons))


class Change(NamedTuple):
    """`before` is the state that the order had, None for a new one; a `row` of None is an order that was deleted."""

    order_id: str
    before: str | None
    row: Row | None
    created_ms: int
    reasons_before: tuple[str, ...] = ()


def row_of(value: bytes, timestamp_ms: int) -> Row | None:
    """None: the record is no order; the checks dead-letter it."""
    try:
        body: Any = json.loads(value)
        reasons = body.get("reasons") or []
        row = Row(
            body["order_id"],
            State(body["state"]),
            body["customer_id"],
            body["store_id"],
            body["total_cents"],
            tuple(reasons),
            body.get(DIGEST) or "",
            timestamp_ms,
            value.decode(),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    texts: tuple[Any, ...] = (row.order_id, row.customer_id, row.store_id, row.digest, *row.reasons)
    cents: Any = row.total_cents
    is_sound = all(isinstance(one, str) and _is_utf8(one) for one in texts) and type(cents) is int
    return row if is_sound and abs(cents) < 2**63 else None


def public(body: str) -> dict[str, Any]:
    """The part of an order that a customer sees."""
    found: dict[str, Any] = json.loads(body)
    found.pop(DIGEST, None)
    found.setdefault("reasons", [])
    return {**found, "href": f"/orders/{found['order_id']}"}


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in text)
