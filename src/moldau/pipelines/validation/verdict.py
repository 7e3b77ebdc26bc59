"""◇ The aggregator's rule: from three answers to one final state.

    step(open, event)  →  open', verdict | None          expire(open)  →  verdict | None

An order is judged when it is there and all three checks have answered, so that a failed one lists *every* reason and the
outcome does not depend on which answer came first.  At its deadline the order is FAILED if an answer was FAIL, else
TIMED_OUT.  The first order of an id counts, and the first answer of a check; after the verdict nothing counts.  Answers
without an order never get a verdict, and are forgotten at the deadline.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from moldau.pipelines.validation.model import Check, State


class Created(NamedTuple):
    text: str
    partition: int


class Answer(NamedTuple):
    check: Check
    fault: str | None
    store_id: str | None = None  # the store whose shelf holds what the order wants


class Open(NamedTuple):
    """An order on its way; a judged one is remembered without its text, so that its id is judged once."""

    created: Created | None = None
    faults: Mapping[str, str | None] = {}  # by check; None is PASS
    is_judged: bool = False
    is_void: bool = False  # judged, and not validated: what it holds is freed
    store_id: str | None = None


JUDGED, VOID = Open(is_judged=True), Open(is_judged=True, is_void=True)


class Verdict(NamedTuple):
    created: Created
    state: State
    reasons: list[str]
    freed_at: str | None = None
    """The store whose shelf gets back what the order held."""

    @property
    def remembered(self) -> Open:
        return JUDGED if self.state is State.VALIDATED else VOID


def reserved_in_vain(order: Open, event: Created | Answer) -> str | None:
    """The store that reserved something for an order that was judged by then, or that had its answer already."""
    counts_not = isinstance(event, Answer) and (order.is_judged or event.check in order.faults)
    return event.store_id if isinstance(event, Answer) and counts_not else None


def is_repeat(order: Open, event: Created | Answer) -> bool:
    """Whether this is an order whose id was there before.  The first one counts."""
    return isinstance(event, Created) and (order.is_judged or order.created is not None)


def step(order: Open, event: Created | Answer) -> tuple[Open, Verdict | None]:
    if order.is_judged or is_repeat(order, event):
        return order, None
    if isinstance(event, Created):
        order = order._replace(created=event)
    else:
        order = order._replace(faults={event.check: event.fault, **order.faults}, store_id=order.store_id or event.store_id)
    if order.created is None or len(order.faults) < len(Check):
        return order, None
    judged = _verdict(order, order.created, State.VALIDATED)
    return judged.remembered, judged


def expire(order: Open) -> Verdict | None:
    if order.created is None:
        return None
    return _verdict(order, order.created, State.TIMED_OUT)


def _verdict(order: Open, created: Created, without_fault: State) -> Verdict:
    """Each reason once: two checks may find the same."""
    reasons = list(dict.fromkeys(fault for check in Check if (fault := order.faults.get(check)) is not None))
    state = State.FAILED if reasons else without_fault
    return Verdict(created, state, reasons, None if state is State.VALIDATED else order.store_id)


def pack(order: Open) -> str:
    return json.dumps(order, separators=(",", ":"))


def unpack(text: str | None) -> Open:
    if text is None:
        return Open()
    created, *rest = json.loads(text)  # the first version of state ends before `is_void`
    return Open(Created(*created) if created else None, *rest)
