"""◇ Limits how fast replicas are copied that are not in sync yet (KIP-73), so that moving them leaves room for clients.

    leader.replication.throttled.rate       bytes that this broker sends of replicas in leader.replication.throttled.replicas
    follower.replication.throttled.rate     bytes that this broker fetches of replicas in follower.replication.throttled.replicas

Everything that is copied of such a replica counts; only one that is not in sync is held back.  A second's worth may go at once, and one
batch always goes whole.  The surplus is waited for afterwards, so the rate holds over any longer time.
Source: ReplicationQuotaManager, DynamicConfig.  Held by `manager.py`; asked by the handler of fetches, `follower.py`, and by moves between
folders.
"""

from collections.abc import Callable
from typing import Final

from moldau.config import MAX_LONG
from moldau.replication.partition import Partition
from moldau.storage.config import LogConfig

BURST_S: Final = 1.0
PIECE_S: Final = 0.1
"""The time to wait before bytes go again: single batches would cost more requests than they are worth."""
LONGEST_WAIT_MS: Final = 1000
"""The longest wait: the rate may have changed by then."""
EVERYTHING: Final = ("*",)


class Pace:
    """A rate in bytes a second.  `now_ms` is the steady clock's."""

    def __init__(self) -> None:
        self._rate = MAX_LONG
        self._left = 0.0
        self._told_ms = 0

    @property
    def is_limited(self) -> bool:
        return self._rate < MAX_LONG

    def set_rate(self, bytes_per_second: int, now_ms: int) -> None:
        if bytes_per_second != self._rate:
            was_limited = self.is_limited
            left = self.left(now_ms)
            self._rate = bytes_per_second
            burst = bytes_per_second * BURST_S
            self._left, self._told_ms = min(left, burst) if was_limited else burst, now_ms

    def left(self, now_ms: int) -> float:
        """How many bytes may go now; nothing may while it is not above 0."""
        if not self.is_limited:
            return float(MAX_LONG)
        gained = self._rate * max(0, now_ms - self._told_ms) / 1000
        self._left = min(self._rate * BURST_S, self._left + gained)
        self._told_ms = max(self._told_ms, now_ms)
        return self._left

    def took(self, size: int, now_ms: int) -> None:
        """Note that so many bytes have gone."""
        if self.is_limited:
            self._left = self.left(now_ms) - size

    def due_ms(self, now_ms: int) -> int:
        """The time at which to go on; `now_ms` if no wait is needed."""
        left = self.left(now_ms)
        if left > 0:
            return now_ms
        if not self._rate:
            return now_ms + LONGEST_WAIT_MS
        return now_ms + min(LONGEST_WAIT_MS, max(1, round((self._rate * PIECE_S - left) / self._rate * 1000)))


class Throttle:
    """One side's pace, and the replicas that it is for."""

    def __init__(self, local_id: int, named_by: Callable[[LogConfig], tuple[str, ...]]) -> None:
        """`named_by` reads partition:broker,… or * from a topic's options."""
        self.pace: Final = Pace()
        self._local_id: Final = local_id
        self._named_by: Final = named_by
        self._known: dict[str, tuple[tuple[str, ...], frozenset[int] | None]] = {}
        """The throttled partitions by topic; None is all of its partitions."""

    def counts(self, partition: Partition) -> bool:
        """Whether copied bytes of this partition's replicas count."""
        if not self.pace.is_limited:
            return False
        entries = self._named_by(partition.log.config)
        topic, index = partition.topic_partition
        known = self._known.get(topic)
        if known is None or known[0] != entries:
            known = self._known[topic] = entries, self._partitions_of(entries)
        return known[1] is None or index in known[1]

    def set_rate(self, bytes_per_second: int, now_ms: int) -> None:
        self.pace.set_rate(bytes_per_second, now_ms)
        self._known.clear()

    def _partitions_of(self, entries: tuple[str, ...]) -> frozenset[int] | None:
        if entries == EVERYTHING:
            return None
        pairs = [entry.split(":") for entry in entries if entry]
        return frozenset(int(index) for index, broker_id in pairs if int(broker_id) == self._local_id)


class Throttles:
    """Both sides of one broker."""

    def __init__(self, local_id: int) -> None:
        self.leader: Final = Throttle(local_id, lambda config: config.leader_replication_throttled_replicas)
        self.follower: Final = Throttle(local_id, lambda config: config.follower_replication_throttled_replicas)
