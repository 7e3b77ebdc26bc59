"""◇ Holds a transfer to an average of bytes a second: each piece waits until the average holds again.

Source: RLMQuotaManager; KIP-956.
"""

from typing import Final

BURST_MS: Final = 1000
"""How much of a rate may be used at once."""


class ByteQuota:
    """The caller takes, and waits as long as it is told before it goes on."""

    def __init__(self) -> None:
        self._paid_until_ms = 0.0

    def take(self, byte_count: int, bytes_per_second: int, now_ms: int) -> int:
        """How many milliseconds to wait before these bytes move."""
        begin_ms = max(self._paid_until_ms, now_ms - BURST_MS)
        self._paid_until_ms = begin_ms + byte_count * 1000 / bytes_per_second
        return max(0, round(begin_ms - now_ms))
