"""◇ Texts of PostgreSQL that hold several values: arrays and hstore."""

import re
from typing import Final

_PAIR: Final = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)', re.DOTALL)
_ELEMENT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}]+)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def hstore(text: str) -> dict[str, str | None]:
    return {_plain(key): None if value is None else _plain(value) for key, value in (one.groups() for one in _PAIR.finditer(text))}


def array(text: str) -> list[str | None]:
    """The elements, of all dimensions one after the other."""
    body = text.partition("=")[2] if text.startswith("[") else text
    found: list[str | None] = []
    for one in _ELEMENT.finditer(body):
        quoted, bare = one.groups()
        found.append(_plain(quoted) if quoted is not None else None if bare == "NULL" else _plain(bare))
    return found
