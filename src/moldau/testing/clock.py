"""● The clock of a simulated machine: the loop's virtual time, and the error of its wall clock."""

import asyncio
from typing import Final

EPOCH_MS: Final = 1_750_000_000_000
"""The wall-clock time at which every simulation begins, in milliseconds since 1970."""


class SimClock:
    """A `Clock`.  `skew_ms` moves the wall clock only, as an administrator or a bad time server does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._loop.time() * 1000) + self.skew_ms

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)
