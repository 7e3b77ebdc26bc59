"""◇ The rules for the share partitions of a group: the group's own options, else the broker's.

Source: ShareGroupConfig, ShareGroupConfigProvider; KIP-932, 1191, 1222.  Made by `server/share/partitions.py`.
"""

from typing import Final, NamedTuple

MIN_THROTTLED: Final = 2
"""The number of deliveries that never make a record suspicious."""


class ShareRules(NamedTuple):
    """See the module.  Durations in milliseconds."""

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    is_renewing_allowed: bool = True
    delivery_delay_ms: int = 0
    """The time from a record's timestamp to its first delivery."""
    retry_delay_ms: int = 0
    """The time from a failed delivery to the next.  It doubles each time, up to the next field."""
    retry_max_delay_ms: int = 0
    has_dead_letters: bool = False

    @property
    def throttled_from(self) -> int:
        """The number of deliveries after which a record may be the one that makes consumers fail.

        It is then delivered in ever smaller company.
        """
        return max(MIN_THROTTLED, -(-self.delivery_count_limit // 2))

    def retry_at(self, delivery_count: int, now_ms: int) -> int:
        """The time before which a record after so many failed deliveries is not delivered again."""
        if not self.retry_delay_ms:
            return 0
        longest = max(self.retry_delay_ms, self.retry_max_delay_ms)
        return now_ms + min(longest, self.retry_delay_ms << min(max(delivery_count - 1, 0), 40))
