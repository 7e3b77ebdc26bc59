"""◇ The burger promotion: decides at once how many burgers a customer gets, and at which price.

    decide(book, promotion, claim, now_ms)  →  Claim | Refused          replay(book, claim)

A claim is reserved, then paid, or it expires unpaid and counts no longer.  The book changes by replaying claims and in no other way; a
claim of the topic and a claim just decided are the same record.  A customer gets at most `most` units within any 24 hours: the clock of
decisions never goes back, so looking back from each claim is looking at every window.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

DAY_MS: Final = 24 * 3_600_000
MOST_A_CLAIM: Final = 100


class State(StrEnum):
    RESERVED = "RESERVED"
    PAID = "PAID"
    EXPIRED = "EXPIRED"


class Reason(StrEnum):
    OVER_LIMIT = "OVER_LIMIT"
    NOT_STARTED = "NOT_STARTED"
    ENDED = "ENDED"


class Promotion(NamedTuple):
    """A promotion from `starts_ms` up to `ends_ms`, which is no longer part of it."""

    starts_ms: int = 0
    ends_ms: int = 2**53
    list_price_cents: int = 899
    percent_off: int = 70
    most: int = 5
    pay_within_ms: int = 15 * 60_000

    @property
    def price_cents(self) -> int:
        """The price of one burger, rounded to the customer's advantage."""
        return self.list_price_cents * (100 - self.percent_off) // 100


class Claim(NamedTuple):
    claim_id: str
    customer_id: str
    quantity: int
    cents: int
    at_ms: int
    state: State = State.RESERVED
    digest: str = ""
    """The digest of the request, so that a repeated request is known."""
    changed_ms: int = 0


class Refused(NamedTuple):
    reason: Reason
    left: int
    """Units that the customer may still have now."""
    again_ms: int | None
    """When there will be room for as many units as were asked for; None if never."""


@dataclass(slots=True)
class Book:
    claims: dict[str, Claim] = field(default_factory=dict)
    customers: dict[str, dict[str, None]] = field(default_factory=dict)  # ids in the order in which they came
    newest_ms: int = 0
    unpaid: dict[str, int] = field(default_factory=dict)  # claim id → when it expires, soonest first
    paid_units: int = 0
    reserved_units: int = 0


def decide(book: Book, promotion: Promotion, wanted: Claim, now_ms: int) -> Claim | Refused:
    """`wanted`: a claim with id, customer, quantity and digest.  If a claim with this id is known, that claim is the answer."""
    known = book.claims.get(wanted.claim_id)
    if known is not None:
        return known
    at_ms = max(now_ms, book.newest_ms)
    counting = [one for one in _of(book, wanted.customer_id) if one.at_ms > at_ms - DAY_MS]
    left = promotion.most - sum(one.quantity for one in counting)
    if at_ms < promotion.starts_ms:
        return Refused(Reason.NOT_STARTED, 0, promotion.starts_ms)
    if at_ms >= promotion.ends_ms:
        return Refused(Reason.ENDED, 0, None)
    if wanted.quantity > left:
        return Refused(Reason.OVER_LIMIT, left, _room_ms(promotion, counting, wanted.quantity, left))
    return wanted._replace(cents=promotion.price_cents * wanted.quantity, at_ms=at_ms, changed_ms=at_ms, state=State.RESERVED)


def pay(book: Book, claim_id: str, now_ms: int) -> Claim | None:
    """The claim as it is then: PAID, or unchanged if it cannot be paid any more.  None: there is no such claim."""
    claim = book.claims.get(claim_id)
    if claim is None or claim.state is not State.RESERVED:
        return claim
    if book.unpaid.get(claim_id, 0) <= max(now_ms, book.newest_ms):
        return claim._replace(state=State.EXPIRED, changed_ms=max(now_ms, book.newest_ms))
    return claim._replace(state=State.PAID, changed_ms=max(now_ms, book.newest_ms))


def expired(book: Book, now_ms: int, most: int = 500) -> list[Claim]:
    """The claims whose time to pay is over."""
    due: list[Claim] = []
    for claim_id, at_ms in book.unpaid.items():
        if at_ms > now_ms or len(due) == most:
            break
        due.append(book.claims[claim_id]._replace(state=State.EXPIRED, changed_ms=max(now_ms, book.newest_ms)))
    return due


def replay(book: Book, promotion: Promotion, claim: Claim) -> None:
    before = book.claims.get(claim.claim_id)
    if before is not None and before.state is not State.RESERVED:
        return
    book.newest_ms = max(book.newest_ms, claim.changed_ms)
    book.unpaid.pop(claim.claim_id, None)
    if before is not None:
        book.reserved_units -= before.quantity
    if claim.state is State.RESERVED:
        book.reserved_units += claim.quantity
        book.unpaid[claim.claim_id] = claim.at_ms + promotion.pay_within_ms
    elif claim.state is State.PAID:
        book.paid_units += claim.quantity
    book.claims[claim.claim_id] = claim
    book.customers.setdefault(claim.customer_id, {})[claim.claim_id] = None
    _forget(book, claim.customer_id)


def forget_old(book: Book, now_ms: int) -> None:
    """Forget old claims, and customers who have no others; called from time to time."""
    book.newest_ms = max(book.newest_ms, now_ms)
    for customer_id in list(book.customers):
        _forget(book, customer_id)


def claim_json(claim: Claim) -> bytes:
    return json.dumps(claim._asdict(), separators=(",", ":")).encode()


def claim_of(value: bytes) -> Claim:
    """Errors: ValueError, TypeError."""
    found = Claim(**json.loads(value))
    return found._replace(state=State(found.state))


def _of(book: Book, customer_id: str) -> list[Claim]:
    return [one for claim_id in book.customers.get(customer_id, ()) if (one := book.claims[claim_id]).state is not State.EXPIRED]


def _room_ms(promotion: Promotion, counting: list[Claim], quantity: int, left: int) -> int | None:
    if quantity > promotion.most:
        return None
    for one in sorted(counting, key=lambda claim: claim.at_ms):
        left += one.quantity
        if left >= quantity:
            return one.at_ms + DAY_MS if one.at_ms + DAY_MS < promotion.ends_ms else None
    return None


def _forget(book: Book, customer_id: str) -> None:
    """Forget settled claims that are more than a day old; an id is known as long as its claim counts."""
    ids = book.customers[customer_id]
    for claim_id in list(ids):
        claim = book.claims[claim_id]
        if claim.at_ms <= book.newest_ms - DAY_MS and claim_id not in book.unpaid:
            del book.claims[claim_id], ids[claim_id]
    if not ids:
        del book.customers[customer_id]
