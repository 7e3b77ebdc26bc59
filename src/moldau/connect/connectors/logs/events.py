"""◇ Bytes of a log to events.  An event is a line, or a first line with the lines that belong to it."""

import re
from collections.abc import Iterator
from typing import NamedTuple


class Event(NamedTuple):
    """`end`: the byte behind the event, counted from the beginning of the bytes."""

    text: str
    end: int


def events(content: bytes, start: "re.Pattern[str] | None", *, is_over: bool) -> Iterator[Event]:
    """The whole events.  `start`: matches a first line; None: every line is an event.  `is_over`: no more lines will belong to the last
    event, so it is whole too.  A line without its end is not whole.
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
