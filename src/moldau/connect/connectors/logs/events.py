"""◇ Bytes of a log to events: lines, or a first line with those that belong to it."""

import re
from collections.abc import Iterator
from typing import NamedTuple


class Event(NamedTuple):
    """`end`: the byte behind it, counted from where the bytes begin."""

    text: str
    end: int


def events(content: bytes, start: "re.Pattern[str] | None", *, is_over: bool) -> Iterator[Event]:
    """Events that are whole.  `start`: what a first line looks like; None: every line is one.  `is_over`: nothing belongs to the last one
    any more, so it is whole too.  A line without its end is not whole.
    """
    lines: list[bytes] = []
    begin = position = 0
    for line in content.splitlines(keepends=True) if b"\r" not in content else _lines(content):
        if not line.endswith(b"\n"):
            break
        if lines and (start is None or start.search(_text(line))):
            yield Event("\n".join(map(_text, lines)), position)
            lines, begin = [], position
        lines.append(line)
        position += len(line)
    if lines and (start is None or is_over) and position > begin:
        yield Event("\n".join(map(_text, lines)), position)


def _lines(content: bytes) -> Iterator[bytes]:
    """The lines, split at newlines alone: `splitlines` would split at a lone carriage return."""
    at = 0
    while at < len(content):
        end = content.find(b"\n", at) + 1 or len(content)
        yield content[at:end]
        at = end


def _text(line: bytes) -> str:
    return line.rstrip(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
