"""◇ A customer's limit within any 24 hours, by the customer's own clock within reason, each id judged once.

    judge(limit, customer, id, at_ms, accepted_ms, amount)  →  customer', outcome          freed(customer, id)  →  customer'

Fraud and the promotion share it.  An event from the future would make all later events late, so it fails and moves no clock.
An event that passed and may come to nothing is held by its id, so that it can be freed again.
"""

import json
from typing import NamedTuple

from moldau.pipelines import rolling
from moldau.pipelines.rolling import HOUR_MS, Limit, Outcome, Window

MOST_AHEAD_MS = HOUR_MS
REMEMBERED_IDS = 100


class Held(NamedTuple):
    id: str
    at_ms: int
    amount: int


class Customer(NamedTuple):
    window: Window = Window()
    recent: tuple[str, ...] = ()  # the latest ids, oldest first
    held: tuple[Held, ...] = ()  # events that passed and still count


def is_ahead(at_ms: int, accepted_ms: int) -> bool:
    return at_ms > accepted_ms + MOST_AHEAD_MS


def judge(
    limit: Limit, customer: Customer, id: str, at_ms: int, accepted_ms: int, amount: int, *, holds: bool = False
) -> tuple[Customer, Outcome]:
    """`holds`: an event that passes may be freed later."""
    if id in customer.recent:
        return customer, Outcome.REPEATED
    recent = (*customer.recent, id)[-REMEMBERED_IDS:]
    if is_ahead(at_ms, accepted_ms):
        return customer._replace(recent=recent), Outcome.CLOCK_AHEAD
    window, outcome = rolling.judge(limit, customer.window, at_ms, amount)
    held = customer.held
    if holds and outcome is Outcome.PASSED and amount:
        counting = set(window.passed)
        held = (*(one for one in held if (one.at_ms, one.amount) in counting), Held(id, at_ms, amount))
    return Customer(window, recent, held), outcome


def freed(customer: Customer, id: str) -> Customer:
    """Release the limit that this id used; once, however often it is called."""
    found = next((one for one in customer.held if one.id == id), None)
    if found is None:
        return customer
    passed = list(customer.window.passed)
    if (found.at_ms, found.amount) in passed:
        passed.remove((found.at_ms, found.amount))
    held = tuple(one for one in customer.held if one is not found)
    return customer._replace(window=customer.window._replace(passed=tuple(passed)), held=held)


def pack(customer: Customer) -> str:
    return json.dumps([rolling.pack(customer.window), customer.recent, customer.held], separators=(",", ":"))


def unpack(text: str | None) -> Customer:
    if text is None:
        return Customer()
    window, recent, *later = json.loads(text)  # the first version of state held nothing
    return Customer(rolling.unpack(window), tuple(recent), tuple(Held(*one) for one in (later[0] if later else ())))
