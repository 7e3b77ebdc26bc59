"""◇ Reads a file of Java properties, the form of `server.properties`, with the line of each key.

    key=value    key: value    key value    # comment    ! comment    a line that ends in \\ goes on in the next

Escapes: \\t \\n \\r \\f \\uXXXX, and a backslash before anything else stands for it.  Of two equal keys the last counts, as in Java.
Bytes are UTF-8; a file that is not is read as ISO-8859-1, which is what Java 8 wrote.

Source: java.util.Properties.load.
"""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from typing import Final, NamedTuple

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WHITE: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class PropertiesError(ValueError):
    """A line that cannot be read; the text has its number and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


class Property(NamedTuple):
    value: str
    line: int


def parse_properties(data: bytes) -> dict[str, Property]:
    """Read a properties file.  Errors: PropertiesError."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise PropertiesError(1, "the file is UTF-16: save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    found = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        found[_unescape(key, number)] = Property(_unescape(value, number), number)
    return found


def values_of(properties: dict[str, Property]) -> dict[str, str]:
    return {key: found.value for key, found in properties.items()}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments and blanks, continuations joined; each with the number of its first line."""
    pending, start = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_WHITE)
        if not start:
            if not line or line[0] in "#!":
                continue
            start = number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
            continue
        yield start, pending + line
        pending, start = "", 0
    if start:
        yield start, pending


def _split(line: str) -> tuple[str, str]:
    """Split at the first `=`, `:` or white space that no backslash escapes."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _WHITE:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_WHITE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_WHITE)
    return key, rest


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts, position = [], 0
    while (found := text.find("\\", position)) >= 0:
        parts.append(text[position:found])
        escaped = text[found + 1 : found + 2]
        position = found + 2
        if escaped == "u":
            digits = text[position : position + 4]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise PropertiesError(line, f"\\u{digits} is not an escape: four hexadecimal digits are expected")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    parts.append(text[position:])
    return "".join(parts)
