"""Bytes of logs become events."""

import re
from random import Random

import pytest

from moldau.connect.connectors.logs.events import events

START = re.compile(r"^\d{4}-")
TRACE = b"2026-01-01 one\n  at a\n  at b\n2026-01-02 two\n"


def test_every_whole_line_is_an_event() -> None:
    assert [*events(b"a\r\nb\rc\nd", None, is_over=True)] == [("a", 3), ("b\rc", 7)]
    assert [*events("ä\n\n".encode(), None, is_over=False)] == [("ä", 3), ("", 4)]


def test_lines_belong_to_the_first_line_before_them() -> None:
    assert [*events(TRACE, START, is_over=False)] == [("2026-01-01 one\n  at a\n  at b", 29)]
    assert [*events(TRACE, START, is_over=True)] == [("2026-01-01 one\n  at a\n  at b", 29), ("2026-01-02 two", 44)]
    assert next(events(b"  stray\n" + TRACE, START, is_over=False)) == ("  stray", 8)


@pytest.mark.parametrize("seed", range(5))
def test_wherever_the_bytes_are_cut_the_events_are_the_same(seed: int) -> None:
    random = Random(seed)
    content = b"".join(random.choice((b"2026-x\n", b" y\r\n", b"\n", b"\xff z\n")) for _ in range(200))
    whole = [one.text for one in events(content, START, is_over=True)]
    found: list[str] = []
    at = end = 0
    while end < len(content):
        end = min(len(content), end + random.randrange(1, 60))
        begin = at
        for one in events(content[begin:end], START, is_over=end == len(content)):
            found.append(one.text)
            at = begin + one.end
    assert found == whole
