"""◇ What the share partitions of a group obey: the broker's options, and over them the group's own.

Source: ShareGroupConfig, ShareGroupConfigProvider; KIP-932, 1191, 1222.  Made by `server/share/partitions.py`.
"""

from typing import Final, NamedTuple

MIN_THROTTLED: Final = 2
"""Deliveries that never make a record suspicious."""


class ShareRules(NamedTuple):
    """See the module.  Durations in milliseconds."""

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    is_renewing_allowed: bool = True
    delivery_delay_ms: int = 0
    """From a record's timestamp to its first delivery."""
    retry_delay_ms: int = 0
    """From a delivery that failed to the next; doubles each time, up to the next."""
    retry_max_delay_ms: int = 0
    has_dead_letters: bool = False

    @property
    def throttled_from(self) -> int:
        """Delivered so often, a record may be what makes consumers fail: it is delivered in ever smaller company."""
        return max(MIN_THROTTLED, -(-self.delivery_count_limit // 2))

    def retry_at(self, delivery_count: int, now_ms: int) -> int:
        """Before when a record that was delivered so often in vain is not delivered again."""
        if not self.retry_delay_ms:
            return 0
        longest = max(self.retry_delay_ms, self.retry_max_delay_ms)
        return now_ms + min(longest, self.retry_delay_ms << min(max(delivery_count - 1, 0), 40))
