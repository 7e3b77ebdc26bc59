"""◇ JSON read strictly, and once: the only reader of the JSON that clients send to the pipelines.

    json_object(value)  →  dict            text(body, "order_id")  →  str            integer(body, "total_cents")  →  int

Everything that is not exactly what a field promises raises `Malformed` with its reason.  There is one reader, in Python,
because two readers differ: Spark's takes single quotes and bytes after the JSON, and turns broken UTF-8 into other text.
"""

import json
from typing import Any, NoReturn

INT64_MOST = 2**63 - 1
# An order becomes a state, an answer and a final record: all of them have to fit into a record of 1 MiB, Kafka's default.
MOST_BYTES = 256 * 1024

NO_VALUE, TOO_LARGE, NOT_JSON = "NO_VALUE", "TOO_LARGE", "NOT_JSON"
MISSING_FIELD, WRONG_TYPE, OUT_OF_RANGE = "MISSING_FIELD", "WRONG_TYPE", "OUT_OF_RANGE"


class Malformed(ValueError):
    """The record is not what its topic promises; the message is the reason in the dead-letter topic."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)


def json_object(value: bytes | None) -> dict[str, Any]:
    """Errors: Malformed with NO_VALUE, TOO_LARGE, NOT_JSON or WRONG_TYPE (JSON, but no object)."""
    if value is None:
        raise Malformed(NO_VALUE)
    if len(value) > MOST_BYTES:
        raise Malformed(TOO_LARGE)
    try:
        body = json.loads(bytes(value).decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(NOT_JSON) from error
    if not isinstance(body, dict):
        raise Malformed(WRONG_TYPE)
    return body


def text(body: dict[str, Any], name: str, *, most: int = 1_000) -> str:
    """A text that is not empty, can be written as UTF-8 (a lone surrogate cannot), and has at most `most` characters."""
    found = _field(body, name)
    if not isinstance(found, str):
        raise Malformed(WRONG_TYPE)
    if not found:
        raise Malformed(MISSING_FIELD)
    if len(found) > most:
        raise Malformed(TOO_LARGE)
    return utf8(found)


def utf8(found: str) -> str:
    try:
        found.encode()
    except UnicodeEncodeError as error:
        raise Malformed(NOT_JSON) from error
    return found


def integer(body: dict[str, Any], name: str) -> int:
    """A whole number of 64 bits; neither `true` nor `1.0` is one."""
    found = _field(body, name)
    if type(found) is not int:
        raise Malformed(WRONG_TYPE)
    if not -INT64_MOST <= found <= INT64_MOST:
        raise Malformed(OUT_OF_RANGE)
    return found


def items(body: dict[str, Any], name: str) -> list[Any]:
    found = _field(body, name)
    if not isinstance(found, list):
        raise Malformed(WRONG_TYPE)
    return found


def _field(body: dict[str, Any], name: str) -> Any:
    found = body.get(name)
    if found is None:
        raise Malformed(MISSING_FIELD)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
