"""◇ The header Idempotency-Key: a repeated request with the same key gets the first request's answer, and nothing is done twice.

An order or claim has an id that follows from its key, so that two of them can never come from one key, whatever dies in between.

Source: draft-ietf-httpapi-idempotency-key-header.
"""

import hashlib
import json
from typing import Any, Final

from moldau.shop.web.problems import Problem, Wrong

HEADER: Final = "Idempotency-Key"
MOST_CHARACTERS: Final = 255


def idempotency_key(header: str | None) -> str:
    """The key, which comes with or without the quotes of a structured field.  Errors: Problem 400."""
    if header is None:
        raise _wrong("it is missing; give each order a key of its own, such as a UUID, and repeat it when you ask again")
    key = header.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not 1 <= len(key) <= MOST_CHARACTERS:
        raise _wrong(f"1 to {MOST_CHARACTERS} characters are expected, not {len(key)}")
    if not (key.isascii() and key.isprintable()):
        raise _wrong("printable ASCII is expected")
    return key


def id_of(kind: str, *parts: str) -> str:
    """The id of a thing: different for different kinds and parts.  It has 120 bits, so nobody finds two keys of one id."""
    return f"{kind}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:30]}"


def digest_of(body: dict[str, Any]) -> str:
    """The digest of a body: the same for bodies that say the same, whatever their spaces and the order of their fields."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def other_body() -> Problem:
    return Problem(
        422,
        f"This {HEADER} was used with another body. Repeat a request with the same body, or give a new order a new key.",
        [Wrong(HEADER, "it was used with another body")],
    )


def _wrong(detail: str) -> Problem:
    return Problem(400, f"{HEADER}: {detail}", [Wrong(HEADER, detail)])
