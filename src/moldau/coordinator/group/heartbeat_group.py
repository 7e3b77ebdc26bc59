"""◇ The common base of groups with heartbeats: consumer, share and streams groups.

    report ──────▶ group epoch ──────▶ target assignment ──────▶ the member's step ──────▶ answer
    `_report`:     `_next_group_epoch`: `_assign`: computed once    towards its target:     with what is new
    who says it,   one more when        an epoch, not more often    `reconcile`; a share
    and may it?    members or what      than the interval           group has nothing to
                   they read changed                                give up first

Each protocol fills in these steps; the common part is here and in `membership` and `sessions`.  To change the answer to a heartbeat of an
unknown member, see `unknown_member`.

Source: ModernGroup, TargetAssignmentBuilder, GroupMetadataManager; KIP-848, 932, 1071.  The base of `consumer`, `share` and
`streams.group`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.membership import FIRST_GROUP_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, Refused
from moldau.coordinator.hard_state import Soft
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, Timer, Token, answer
from moldau.errors import ErrorCode

MemberT = TypeVar("MemberT")
TargetT = TypeVar("TargetT")
RequestT = TypeVar("RequestT", bound="Heartbeat")


class Heartbeat(Protocol):
    """The fields that heartbeats of all the protocols have."""

    member_id: str
    member_epoch: int


class StoredTargetEpoch(Protocol):
    """A record of the epoch of a target, and the time at which it was made."""

    assignment_epoch: int
    assignment_timestamp: int


@dataclass(slots=True)
class HeartbeatGroup(ABC, Generic[MemberT, TargetT, RequestT]):
    group_id: str
    environment: Environment
    epoch: int = FIRST_GROUP_EPOCH
    metadata_hash: int = 0
    """The hash of the topics that the group reads, as of `epoch`."""
    members: dict[str, MemberT] = field(default_factory=dict)
    target_epoch: int = FIRST_GROUP_EPOCH
    target_timestamp_ms: int = 0
    target: dict[str, TargetT] = field(default_factory=dict)
    """By member id, the assignment that the member should have at `target_epoch`."""
    topics_version: Soft[int] = -1
    """The version of the topics that was last checked for a change."""

    group_type: ClassVar[str]
    protocol_type: ClassVar[str]
    leave_epochs: ClassVar[frozenset[int]] = frozenset({LEAVE_EPOCH, LEAVE_STATIC_EPOCH})

    @property
    def is_empty(self) -> bool:
        return not self.members

    # -- the heartbeat --------------------------------------------------------------------------------------------------------

    def heartbeat(self, token: Token, request: RequestT, client: Client, now_ms: int) -> Outcome:
        """A member joins, reports or leaves.  Each protocol lists its errors."""
        try:
            if request.member_epoch in self.leave_epochs:
                return self._leave(token, request, now_ms)
            return self._report(token, request, client, now_ms)
        except Refused as refused:
            return answer(token, self._refusal(refused.code, refused.message))

    @abstractmethod
    def _report(self, token: Token, request: RequestT, client: Client, now_ms: int) -> Outcome:
        """Take a member's join or report.  Errors: Refused."""

    @abstractmethod
    def _leave(self, token: Token, request: RequestT, now_ms: int) -> Outcome:
        """Take a member's leave.  Errors: Refused."""

    @abstractmethod
    def _refusal(self, code: ErrorCode, message: str) -> object:
        """The answer to a refused heartbeat."""

    def unknown_member(self, member_id: str) -> Refused:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")

    # -- target assignment ----------------------------------------------------------------------------------------------------

    def is_target_due(self, epoch: int, now_ms: int) -> bool:
        """Whether the next report of a member brings a new target, in a group at `epoch`."""
        elapsed_ms = now_ms - self.target_timestamp_ms
        # The clock may have been set back since: then the age of the target is not known.
        return epoch > self.target_epoch and not 0 <= elapsed_ms < self._assignment_interval_ms()

    @abstractmethod
    def _assignment_interval_ms(self) -> int:
        """The least time between two targets."""

    def _target_records(
        self, known: Mapping[str, TargetT], target: Mapping[str, TargetT], epoch: int, now_ms: int
    ) -> list[CoordinatorRecord]:
        """The records that make `target` that of `epoch`, if `known` are the present targets."""
        changed = [self._target_record(member_id, part) for member_id, part in target.items() if known.get(member_id) != part]
        return [*changed, self._target_epoch_record(epoch, now_ms)]

    @abstractmethod
    def _target_record(self, member_id: str, target: TargetT) -> CoordinatorRecord: ...

    @abstractmethod
    def _target_epoch_record(self, epoch: int, now_ms: int) -> CoordinatorRecord: ...

    def _replay_target_epoch(self, value: StoredTargetEpoch | None) -> None:
        self.target_epoch = value.assignment_epoch if value is not None else FIRST_GROUP_EPOCH
        self.target_timestamp_ms = value.assignment_timestamp if value is not None else 0

    # -- offsets and timers ---------------------------------------------------------------------------------------------------

    def offsets_kept_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time from which an offset's retention counts; None for a topic that members read."""
        return commit_timestamp_ms

    def on_loaded(self, now_ms: int) -> list[Timer]:
        """Start timers after a fail-over: members get a session to report in."""
        return [timer for member in self.members.values() for timer in self.member_timers(member, now_ms, is_told_anew=True)]

    @abstractmethod
    def member_timers(self, member: MemberT, now_ms: int, *, is_told_anew: bool = False) -> list[Timer]:
        """A member's session timer, and the timer for partitions to give up; both start now if it `is_told_anew`."""

    @abstractmethod
    def fence(self, member_id: str, now_ms: int) -> Outcome:
        """Remove a member: it left, its session ended, or it did not give partitions up in time."""

    @abstractmethod
    def replay(self, key: Any, value: Any) -> None:
        """Replay one of the records of the group."""
