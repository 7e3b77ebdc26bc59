"""◇ How long an operation that may succeed later is tried again.

Source: RetryWithToleranceOperator.

errors.retry.timeout = 0        not at all       -1: without end
errors.retry.delay.max.ms       the longest pause; from there on pauses are random
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from moldau.connect.declare.definition import Config

FIRST_DELAY_MS: Final = 300


@dataclass(frozen=True, slots=True)
class Retries:
    timeout_ms: int
    max_delay_ms: int

    @classmethod
    def of(cls, config: Config) -> "Retries":
        return cls(int(config.get("errors.retry.timeout") or 0), int(config.get("errors.retry.delay.max.ms") or 60_000))

    def delay_ms(self, attempt: int, since_ms: float, chance: Callable[[], float]) -> float | None:
        """The pause after the failed attempt number `attempt`, `since_ms` after the first failure; None: there is no further attempt.

        `chance`: a number from 0 up to 1.
        """
        if self.timeout_ms >= 0 and since_ms >= self.timeout_ms:
            return None
        delay: float = FIRST_DELAY_MS << min(attempt - 1, 32)
        if delay > self.max_delay_ms:
            delay = chance() * self.max_delay_ms
        return delay if self.timeout_ms < 0 else min(delay, self.timeout_ms - since_ms)
