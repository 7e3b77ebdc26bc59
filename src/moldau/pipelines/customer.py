"""◇ A customer's limit within any 24 hours, by the customer's own clock within reason, each id judged once.

    judge(limit, customer, id, at_ms, accepted_ms, amount)  →  customer', outcome

Fraud and the promotion share it.  What comes from the future would make all that follows late, so it fails and moves no clock.
"""

import json
from typing import NamedTuple

from moldau.pipelines import rolling
from moldau.pipelines.rolling import HOUR_MS, Limit, Outcome, Window

MOST_AHEAD_MS = HOUR_MS
REMEMBERED_IDS = 100


class Customer(NamedTuple):
    window: Window = Window()
    recent: tuple[str, ...] = ()  # the latest ids, oldest first


def is_ahead(at_ms: int, accepted_ms: int) -> bool:
    return at_ms > accepted_ms + MOST_AHEAD_MS


def judge(limit: Limit, customer: Customer, id: str, at_ms: int, accepted_ms: int, amount: int) -> tuple[Customer, Outcome]:
    if id in customer.recent:
        return customer, Outcome.REPEATED
    recent = (*customer.recent, id)[-REMEMBERED_IDS:]
    if is_ahead(at_ms, accepted_ms):
        return customer._replace(recent=recent), Outcome.CLOCK_AHEAD
    window, outcome = rolling.judge(limit, customer.window, at_ms, amount)
    return Customer(window, recent), outcome


def pack(customer: Customer) -> str:
    return json.dumps([rolling.pack(customer.window), customer.recent], separators=(",", ":"))


def unpack(text: str | None) -> Customer:
    if text is None:
        return Customer()
    window, recent = json.loads(text)
    return Customer(rolling.unpack(window), tuple(recent))
