"""◇ The aggregator's rule: from three answers to one final state.

    step(open, event)  →  open' | None, verdict | None          expire(open)  →  verdict | None

An order is judged when it is there and all three checks have answered, so that a failed one lists *every* reason and the
outcome does not depend on which answer came first.  At its deadline the order is FAILED if an answer was FAIL, else
TIMED_OUT.  Repeats are harmless before the verdict (an answer says the same twice) and find no order after it: answers
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
    """An order on its way."""

    created: Created | None = None
    faults: Mapping[str, str | None] = {}  # by check; None is PASS


class Verdict(NamedTuple):
    created: Created
    state: State
    reasons: list[str]


def step(order: Open, event: Created | Answer) -> tuple[Open | None, Verdict | None]:
    """None instead of an order: it is judged, nothing has to be remembered."""
    if isinstance(event, Created):
        order = order._replace(created=event)
    else:
        order = order._replace(faults={**order.faults, event.check: event.fault})
    if order.created is None or len(order.faults) < len(Check):
        return order, None
    reasons = _reasons(order)
    return None, Verdict(order.created, State.FAILED if reasons else State.VALIDATED, reasons)


def expire(order: Open) -> Verdict | None:
    if order.created is None:
        return None
    reasons = _reasons(order)
    return Verdict(order.created, State.FAILED if reasons else State.TIMED_OUT, reasons)


def _reasons(order: Open) -> list[str]:
    return [fault for check in Check if (fault := order.faults.get(check)) is not None]


def pack(order: Open) -> str:
    return json.dumps([order.created, order.faults], separators=(",", ":"))


def unpack(text: str | None) -> Open:
    if text is None:
        return Open()
    created, faults = json.loads(text)
    return Open(Created(*created) if created else None, faults)
