"""● The wall clock and the steady clock, as an argument.

Nothing else in the house asks the operating system for the time; pure modules take `now_ms`.  Simulation passes a `Clock` of its own.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """The source of time for a shell."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch: record timestamps, retention, what users see.  May jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some start, never going back: time-outs and durations."""
        ...


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
