"""◇ The clock of retention by age: a wall clock that is wrong, or that jumps, must not cost records."""

from typing import Final

CLOCK_SLACK_MS: Final = 60_000
"""The milliseconds by which the wall clock may leave the steady one between two readings before its jump is doubted."""
CLOCK_PROBATION_MS: Final = 3_600_000
"""The milliseconds that a jump forward has to last before retention believes it."""


class RetentionClock:
    """A wall clock that jumps ahead deletes nothing before the jump has lasted an hour."""

    def __init__(self) -> None:
        self._wall_ms: int | None = None
        self._steady_ms = 0
        self._doubted_since_ms: int | None = None

    def trusted(self, now_ms: int, monotonic_ms: int) -> int:
        """`now_ms`, or the corrected time."""
        if self._wall_ms is None:
            self._wall_ms, self._steady_ms = now_ms, monotonic_ms
            return now_ms
        expected = self._wall_ms + monotonic_ms - self._steady_ms
        if now_ms <= expected + CLOCK_SLACK_MS:
            self._doubted_since_ms = None
        else:
            if self._doubted_since_ms is None:
                self._doubted_since_ms = monotonic_ms
            if monotonic_ms - self._doubted_since_ms < CLOCK_PROBATION_MS:
                return expected
            self._doubted_since_ms = None
        self._wall_ms, self._steady_ms = now_ms, monotonic_ms
        return now_ms
