"""◇ The time limits of members of groups with heartbeats: their sessions, and the time to give partitions up.  A member that is silent for
its session is removed.  So is a member that does not give partitions up within its rebalance timeout.  Timers are soft: after a fail-over
all of them begin anew.

Source: GroupMetadataManager (…GroupSessionTimeout, …GroupRebalanceTimeout).  Used by `consumer`, `share` and `streams`.
"""

from collections.abc import Mapping
from typing import Protocol

from moldau.coordinator.group.membership import Reconciled
from moldau.coordinator.outcome import Outcome, Timer


class Fencing(Protocol):
    """A group that removes members."""

    @property
    def group_id(self) -> str: ...

    def fence(self, member_id: str, now_ms: int) -> Outcome: ...


class Revoker(Reconciled, Protocol):
    @property
    def member_id(self) -> str: ...


class Revoking(Fencing, Protocol):
    """A group whose members give partitions up before others take them."""

    @property
    def members(self) -> Mapping[str, Revoker]: ...


def rejoin_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    """The key of the timer by which a classic member of a consumer group has to join again."""
    return ("rejoin", group_id, member_id)


def resync_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    """The key of the timer by which a classic member of a consumer group that has joined has to sync."""
    return ("resync", group_id, member_id)


def session_timer(group: Fencing, member_id: str, due_ms: int) -> Timer:
    return Timer(("session", group.group_id, member_id), due_ms, lambda then_ms: group.fence(member_id, then_ms))


def revoking_timers(group: Revoking, member: Revoker, due_ms: int, *, is_told_anew: bool) -> list[Timer]:
    """The timers of `member` as it is now; none while it goes on giving up the same, unless it `is_told_anew`."""
    member_id = member.member_id
    key = ("revoking", group.group_id, member_id)
    if not member.pending_revocation:
        return [Timer(key)]
    before = group.members.get(member_id)
    if not is_told_anew and before is not None and before.pending_revocation == member.pending_revocation:
        return []

    def is_over(now_ms: int) -> Outcome:
        known = group.members.get(member_id)
        has_moved = known is None or (known.epoch, known.pending_revocation) != (member.epoch, member.pending_revocation)
        return Outcome() if has_moved else group.fence(member_id, now_ms)

    return [Timer(key, due_ms, is_over)]


def cancelled(group: Fencing, member_id: str) -> list[Timer]:
    return [Timer(("session", group.group_id, member_id)), Timer(("revoking", group.group_id, member_id))]
