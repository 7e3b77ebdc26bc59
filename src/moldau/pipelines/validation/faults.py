"""◇ Deliberate faults: orders held back, requests lost, totals falsified, records that are no orders.

The choice is by position, so the same orders always meet the same faults and the oracle can tell each outcome.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.pipelines.validation.model import Order, Reason


class Malformed(NamedTuple):
    value: bytes
    reason: Reason


MALFORMED = (
    Malformed(b'{"order_id":"m1","customer_id":"1",', Reason.NOT_JSON),
    Malformed(b"\xff\xfe\x00\x01 not even text", Reason.NOT_JSON),
    Malformed(b"", Reason.NOT_JSON),
    Malformed(b'{"order_id":"m2","state":"CREATED","customer_id":"1"}', Reason.MISSING_FIELD),
    Malformed(
        b'{"order_id":"m3","customer_id":"1","store_id":"1","ordered_ms":"yesterday","total_cents":1,"lines":[],"state":"CREATED"}',
        Reason.WRONG_TYPE,
    ),
    Malformed(
        b'{"order_id":"m4","customer_id":"1","store_id":"1","ordered_ms":1,"total_cents":1,"lines":[],"state":"SHIPPED"}',
        Reason.UNKNOWN_STATE,
    ),
)


class FaultPlan(NamedTuple):
    """Each fault befalls one in so many orders; 0 is never."""

    held_back: int = 250  # sent after the customer's next order
    lost_request: int = 400  # its stock request is never sent
    wrong_total: int = 300
    malformed: int = 200  # a record that is no order goes before it


NO_FAULTS = FaultPlan(0, 0, 0, 0)


class Sent(NamedTuple):
    """One step of the order service: an order (with or without its stock request), or a record that is no order."""

    order: Order | None = None
    has_request: bool = True
    malformed: Malformed | None = None


def with_faults(orders: Iterable[Order], plan: FaultPlan) -> Iterator[Sent]:
    """The records that the order service sends, in the order in which it sends them."""
    held: dict[str, Sent] = {}
    for position, order in enumerate(orders, 1):
        if _is_due(plan.malformed, position):
            yield Sent(malformed=MALFORMED[position // plan.malformed % len(MALFORMED)])
        if _is_due(plan.wrong_total, position):
            order = order._replace(total_cents=order.total_cents + 1)
        sent = Sent(order, has_request=not _is_due(plan.lost_request, position))
        if _is_due(plan.held_back, position) and order.customer_id not in held:
            held[order.customer_id] = sent
            continue
        yield sent
        if order.customer_id in held:
            yield held.pop(order.customer_id)
    yield from held.values()


def _is_due(one_in: int, position: int) -> bool:
    return one_in > 0 and position % one_in == 0
