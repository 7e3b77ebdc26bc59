"""◇ From a record to the letter that it asks for: one for each order and state, one for each burger claim and state.

A letter's Message-ID follows from its thing and state, and its text and date follow from the record.  Sent twice, it is the same letter
twice, and a server or a mailbox that knows Message-IDs keeps one.
"""

import hashlib
import json
import re
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Final, NamedTuple

from moldau.shop.burgers import promotion
from moldau.shop.orders.requests import is_address
from moldau.shop.orders.rows import row_of

CUSTOMERS: Final = "customers.example"
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ORDERS: Final = {
    "CREATED": ("We have your order {id}", "Thank you.  We are checking it now, and write again when that is done.\n"),
    "VALIDATED": ("Your order {id} is confirmed", "Everything is there, and on its way to you.\n"),
    "FAILED": ("Your order {id} cannot be carried out", "The reasons: {reasons}.\nNothing was charged.\n"),
    "TIMED_OUT": ("Your order {id} could not be checked", "A check did not answer in time.  Please order again; nothing was charged.\n"),
}
BURGERS: Final = {
    promotion.State.RESERVED: (
        "{quantity} burgers are reserved for you",
        "They cost {price}.  Please pay here before they go to somebody else:\n\n  {url}/burgers/{id}/payment\n",
    ),
    promotion.State.PAID: ("Your {quantity} burgers are confirmed", "We have your {price}.  Enjoy them!\n"),
    promotion.State.EXPIRED: ("Your {quantity} burgers were given back", "They were not paid in time.  You are welcome to claim again.\n"),
}


class Letter(NamedTuple):
    message_id: str
    about: str
    """The thing that the letter is about.  Letters about the same thing are sent in the order of their records."""
    state: str
    to: str
    subject: str
    text: str
    at_ms: int

    def message(self, sender: str) -> EmailMessage:
        found = EmailMessage()
        found["Message-ID"] = f"<{self.message_id}>"
        found["Date"] = format_datetime(datetime.fromtimestamp(self.at_ms / 1000, UTC))
        found["From"] = sender
        found["To"] = self.to
        found["Subject"] = self.subject
        found.set_content(self.text)
        return found


def order_letter(value: bytes, timestamp_ms: int, host: str) -> Letter | None:
    """None: the record is no order, so nobody waits for a letter."""
    row = row_of(value, timestamp_ms)
    if row is None:
        return None
    email = json.loads(row.body).get("email")
    subject, text = ORDERS[row.state]
    said = {"id": _plain(row.order_id), "reasons": ", ".join(row.reasons)}
    to = email if isinstance(email, str) and is_address(email) else address_of(row.customer_id)
    return _letter("order", row.order_id, row.state, to, host, subject.format(**said), text.format(**said), timestamp_ms)


def burger_letter(value: bytes, timestamp_ms: int, host: str, url: str) -> Letter | None:
    try:
        claim = promotion.claim_of(value)
    except (ValueError, TypeError, RecursionError):
        return None
    subject, text = BURGERS[claim.state]
    price = f"{claim.cents // 100}.{claim.cents % 100:02}"
    said: dict[str, Any] = {"id": _plain(claim.claim_id), "quantity": claim.quantity, "price": price, "url": url}
    to = address_of(claim.customer_id)
    return _letter("burgers", claim.claim_id, claim.state, to, host, subject.format(**said), text.format(**said), timestamp_ms)


def address_of(customer_id: str) -> str:
    return f"customer-{_plain(customer_id)}@{CUSTOMERS}"


def _letter(kind: str, id: str, state: str, to: str, host: str, subject: str, text: str, at_ms: int) -> Letter:
    return Letter(f"{kind}.{_plain(id)}.{state.lower()}@{host}", f"{kind}.{id}", state, to, subject, text, at_ms)


def _plain(id: str) -> str:
    """The id in a form that may stand in a header; different ids have different forms."""
    return id if _PLAIN.fullmatch(id) else f"h.{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:30]}"
