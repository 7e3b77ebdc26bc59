"""◇ Windows of time, in ms, with the grace in which late records still count.

Source: TimeWindows, SlidingWindows, SessionWindows, JoinWindows; KIP-633.
"""

from dataclasses import dataclass

from moldau.pipelines.streams.records import Windowed


class WindowError(ValueError):
    """An impossible window; the message names the field."""


def _check(name: str, value: int, least: int) -> None:
    if value < least:
        raise WindowError(f"{name} is {value}: give {least} ms or more")


def check_retention(retention_ms: int | None, least: int) -> None:
    """Errors: WindowError if a store would forget windows that are still open."""
    if retention_ms is not None:
        _check("retention_ms", retention_ms, least)


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of one size, beginning every `advance_ms`: tumbling when that is the size, hopping when it is less."""

    size_ms: int
    grace_ms: int = 0
    advance_ms: int | None = None

    def __post_init__(self) -> None:
        _check("size_ms", self.size_ms, 1)
        _check("grace_ms", self.grace_ms, 0)
        if self.advance_ms is not None and not 1 <= self.advance_ms <= self.size_ms:
            raise WindowError(f"advance_ms is {self.advance_ms}: give 1 to size_ms ({self.size_ms})")

    @property
    def advance(self) -> int:
        return self.size_ms if self.advance_ms is None else self.advance_ms

    def starts(self, timestamp: int) -> range:
        """The starts of the windows that the timestamp is in, oldest first; no window begins before 0."""
        first = max(0, timestamp - self.size_ms + self.advance) // self.advance * self.advance
        return range(first, timestamp + 1, self.advance)


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Every window of records no more than `difference_ms` apart; both ends belong to it."""

    difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _check("difference_ms", self.difference_ms, 0)
        _check("grace_ms", self.grace_ms, 0)


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """A session goes on while its key is never silent for longer than `gap_ms`; both ends belong to it."""

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _check("gap_ms", self.gap_ms, 1)
        _check("grace_ms", self.grace_ms, 0)


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """A record joins records of the other stream from `before_ms` before its own timestamp to `after_ms` after it."""

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise WindowError(f"before_ms + after_ms is {self.before_ms + self.after_ms}: the window ends before it begins")
        _check("grace_ms", self.grace_ms, 0)

    @classmethod
    def of(cls, difference_ms: int, grace_ms: int = 0) -> "JoinWindows":
        return cls(difference_ms, difference_ms, grace_ms)


def merged(one: Windowed, other: Windowed) -> Windowed:
    return Windowed(one.key, min(one.start, other.start), max(one.end, other.end))
