"""◇ The in-sync set and the high watermark of a partition, computed by the leader from its followers' fetches.

    committed in-sync set ⊆ maximal in-sync set = committed + those asked for and not yet confirmed
    high watermark = the smallest log end offset over the maximal set and over followers that are about to join it

Guarantees: the high watermark never goes back while the leader leads; it stands still while fewer replicas than min.insync.replicas are
in sync (KIP-966).

Source: kafka.cluster.Partition, Replica; KIP-497, 841, 903, 966.  Called by `partition.py`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.types import NO_OFFSET

NEVER_MS: Final = -(1 << 62)
"""A time longer ago than any allowed lag.  The steady clock may have begun a moment ago, so that 0 would be recent."""


class IsrProposal(NamedTuple):
    """The in-sync set that a leader asks its controller for, on top of the state of `partition_epoch`."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(slots=True)
class FollowerState:
    """The leader's knowledge of one follower, from its fetches.  Times are the steady clock's."""

    log_end_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    broker_epoch: int = -1
    last_caught_up_ms: int = NEVER_MS
    last_fetch_ms: int = NEVER_MS
    leader_end_at_last_fetch: int = NO_OFFSET

    def fetched(self, *, offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: int) -> None:
        """Note a fetch.  A fetch from `offset` says that the follower has stored everything below it."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_last_fetch:
            # The follower has all that was there when it asked last.  So it keeps up, even if the leader is always a little ahead.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.leader_end_at_last_fetch = leader_end_offset
        self.last_fetch_ms = now_ms

    def is_caught_up(self, *, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        lag_ms = now_ms - self.last_caught_up_ms
        return self.log_end_offset == leader_end_offset or lag_ms <= lag_time_max_ms


def effective_min_insync(min_insync_replicas: int, replica_count: int) -> int:
    """min.insync.replicas, limited to the number of replicas."""
    return min(min_insync_replicas, replica_count)


def high_watermark_of(
    *,
    leader_end_offset: int,
    followers: Mapping[int, FollowerState],
    maximal_isr: Collection[int],
    eligible: Collection[int],
    now_ms: int,
    lag_time_max_ms: int,
) -> int:
    """The offset below which every replica that counts has the log (exclusive).

    A follower outside the set that keeps up and is `eligible` (neither fenced nor shutting down) is about to join, so it counts already:
    otherwise the high watermark could pass it and it could never catch up.
    """
    lowest = leader_end_offset
    for broker_id, state in followers.items():
        if state.log_end_offset >= lowest:
            continue
        if broker_id in maximal_isr or (
            broker_id in eligible
            and state.is_caught_up(leader_end_offset=leader_end_offset, now_ms=now_ms, lag_time_max_ms=lag_time_max_ms)
        ):
            lowest = state.log_end_offset
    return lowest


def may_join(state: FollowerState, *, high_watermark: int, leader_epoch_start_offset: int) -> bool:
    """Whether a follower may join the in-sync set: it has every committed record and the leader's first record of its epoch."""
    return state.log_end_offset >= high_watermark and state.log_end_offset >= leader_epoch_start_offset


def out_of_sync(
    isr: Iterable[int],
    followers: Mapping[int, FollowerState],
    *,
    leader_id: int,
    leader_end_offset: int,
    now_ms: int,
    lag_time_max_ms: int,
) -> list[int]:
    """The members of the in-sync set that have been behind for too long."""
    return [
        broker_id
        for broker_id in isr
        if broker_id != leader_id
        and not followers[broker_id].is_caught_up(leader_end_offset=leader_end_offset, now_ms=now_ms, lag_time_max_ms=lag_time_max_ms)
    ]
