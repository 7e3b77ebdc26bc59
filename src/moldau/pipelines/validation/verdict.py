"""◇ The aggregator's rule: from three answers to one final state.

    step(open, event)  →  open', verdict | None          expire(open)  →  verdict | None

An order is judged when it is there and all three checks have answered, so that a failed one lists *every* reason and the
outcome does not depend on which answer came first.  At its deadline the order is FAILED if an answer was FAIL, else
TIMED_OUT.  The first order of an id counts, and the first answer of a check; after the verdict nothing does.  Answers
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


class Open(NamedTuple):
    """An order on its way; a judged one is remembered without its text, so that its id is judged once."""

    created: Created | None = None
    faults: Mapping[str, str | None] = {}  # by check; None is PASS
    is_judged: bool = False


JUDGED = Open(is_judged=True)


class Verdict(NamedTuple):
    created: Created
    state: State
    reasons: list[str]


def is_repeat(order: Open, event: Created | Answer) -> bool:
    """An order whose id was there before: the first one counts."""
    return isinstance(event, Created) and (order.is_judged or order.created is not None)


def step(order: Open, event: Created | Answer) -> tuple[Open, Verdict | None]:
    if order.is_judged or is_repeat(order, event):
        return order, None
    if isinstance(event, Created):
        order = order._replace(created=event)
    else:
        order = order._replace(faults={event.check: event.fault, **order.faults})
    if order.created is None or len(order.faults) < len(Check):
        return order, None
    reasons = _reasons(order)
    return JUDGED, Verdict(order.created, State.FAILED if reasons else State.VALIDATED, reasons)


def expire(order: Open) -> Verdict | None:
    if order.created is None:
        return None
    reasons = _reasons(order)
    return Verdict(order.created, State.FAILED if reasons else State.TIMED_OUT, reasons)


def _reasons(order: Open) -> list[str]:
    """Each once: two checks may find the same."""
    return list(dict.fromkeys(fault for check in Check if (fault := order.faults.get(check)) is not None))


def pack(order: Open) -> str:
    return json.dumps(order, separators=(",", ":"))


def unpack(text: str | None) -> Open:
    if text is None:
        return Open()
    created, faults, is_judged = json.loads(text)
    return Open(Created(*created) if created else None, faults, is_judged)
