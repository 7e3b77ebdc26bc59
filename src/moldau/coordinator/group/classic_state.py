"""◇ The state of a classic group: its members and its generation, its record, and questions about them.

Hard state is the last GroupMetadata record, `recorded`: generation, protocol, leader, members with their assignments.  It changes in
`replay` only.  Everything else belongs to the next state: members of an unfinished rebalance, their future generation, requests that wait.
It is soft and starts from the record after a fail-over: the clients get UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION and join again.  The
decisions of a group are in `coordinator/group/classic.py`.

Source: ClassicGroup.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from moldau.coordinator.group.embedded import subscribed_topics
from moldau.coordinator.group.environment import Environment
from moldau.coordinator.group.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from moldau.coordinator.hard_state import Soft
from moldau.coordinator.outcome import CoordinatorRecord, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class GroupState(Enum):
    """The states of a group, named as Kafka's tools print them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    """Name → metadata, in the member's order of preference.  After a fail-over only the chosen one is known."""
    assignment: bytes = b""
    is_new: bool = False
    join_token: Token | None = None
    sync_token: Token | None = None

    def is_waiting(self) -> bool:
        return self.join_token is not None or self.sync_token is not None


@dataclass(slots=True)
class ClassicGroupState:
    """See the module."""

    group_id: str
    environment: Environment
    recorded: GroupMetadataValue | None = None
    """The last record; None until the first rebalance has ended."""
    state: Soft[GroupState] = GroupState.EMPTY
    protocol_type: Soft[str | None] = None
    generation_id: Soft[int] = 0
    protocol_name: Soft[str | None] = None
    leader_id: Soft[str | None] = None
    members: Soft[dict[str, Member]] = field(default_factory=dict)
    state_timestamp_ms: Soft[int] = -1
    pending_join: Soft[set[str]] = field(default_factory=set)
    """Member ids that were given out and have not come back yet."""
    pending_sync: Soft[set[str]] = field(default_factory=set)
    is_initial_rebalance: Soft[bool] = False
    has_new_member: Soft[bool] = False

    group_type: ClassVar[str] = "classic"

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY and not self.pending_join

    def waiting(self) -> Iterator[Token]:
        """The tokens of all parked requests."""
        for member in self.members.values():
            yield from (token for token in (member.join_token, member.sync_token) if token is not None)

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that members read, whose offsets are kept.

        None if a subscription cannot be read: the group then keeps all offsets.
        """
        if self.state is GroupState.EMPTY or self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return frozenset()
        if self.protocol_name is None:
            return None
        return subscribed_topics(member.protocols.get(self.protocol_name, b"") for member in self.members.values())

    # -- hard state -----------------------------------------------------------------------------------------------------------

    def replay(self, value: GroupMetadataValue) -> None:
        """Take over the state of a record; further knowledge of its members is kept."""
        self.recorded = value
        self._become(value)

    def _become(self, value: GroupMetadataValue) -> None:
        known = self.members
        self.protocol_type = value.protocol_type or None
        self.generation_id = value.generation
        self.protocol_name = value.protocol
        self.leader_id = value.leader
        self.state_timestamp_ms = value.current_state_timestamp
        self.members = {each.member_id: self._replayed_member(each, known.get(each.member_id)) for each in value.members}
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    def _replayed_member(self, value: MemberMetadata, known: Member | None) -> Member:
        assignment = bytes(value.assignment)
        if known is not None:
            known.assignment = assignment
            return known
        return Member(
            member_id=value.member_id,
            group_instance_id=value.group_instance_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout if value.rebalance_timeout != -1 else value.session_timeout,
            session_timeout_ms=value.session_timeout,
            protocols={self.protocol_name or "": bytes(value.subscription)},
            assignment=assignment,
        )

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that forget the group."""
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    def offsets_kept_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time from which an offset's retention counts; None while the group keeps all of its offsets."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            return max(commit_timestamp_ms, self.state_timestamp_ms)
        is_readable = self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.state is GroupState.STABLE
        return commit_timestamp_ms if is_readable else None

    def record(self, assignments: Mapping[str, bytes], now_ms: int) -> CoordinatorRecord:
        """The record of the present group with `assignments`."""
        members = [
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.protocols[self.protocol_name or ""],
                assignment=assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=now_ms,
            members=members,
        )
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), value)

    # -- what joins ask ---------------------------------------------------------------------------------------------------------

    def _accepts(self, member_id: str) -> bool:
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            return True
        limit = self.environment.config.max_size
        if self.state is GroupState.PREPARING_REBALANCE:
            member = self.members.get(member_id)
            waiting_count = sum(1 for each in self.members.values() if each.join_token is not None)
            return (member is not None and member.join_token is not None) or waiting_count < limit
        return member_id in self.members or len(self.members) < limit

    def _supports(self, request: JoinGroupRequest) -> bool:
        if not request.protocol_type or not request.protocols:
            return False
        if not self.members:
            return True
        return request.protocol_type == self.protocol_type and bool({each.name for each in request.protocols} & self._common_protocols())

    def _common_protocols(self) -> set[str]:
        members = iter(self.members.values())
        common = set(next(members).protocols)
        for member in members:
            common &= member.protocols.keys()
        return common

    def _elect_leader(self) -> bool:
        """Keep a leader that has joined, otherwise take the first member that has."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None or leader.join_token is None:
            leader = next((member for member in self.members.values() if member.join_token is not None), None)
        if leader is None:
            return False
        self.leader_id = leader.member_id
        return True

    def _select_protocol(self) -> str:
        """Select the protocol: each member votes for the first of its list that all support; a tie goes by the first member's order."""
        common = self._common_protocols()
        votes = dict.fromkeys((name for name in next(iter(self.members.values())).protocols if name in common), 0)
        for member in self.members.values():
            votes[next(name for name in member.protocols if name in common)] += 1
        return max(votes, key=lambda name: votes[name])

    def _has_everyone_joined(self) -> bool:
        return not self.pending_join and all(member.join_token is not None for member in self.members.values())

    # -- what both sides of a decision ask ------------------------------------------------------------------------------------

    def _static_member(self, group_instance_id: str) -> Member | None:
        return next((member for member in self.members.values() if member.group_instance_id == group_instance_id), None)

    def _validate(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            static = self._static_member(group_instance_id)
            if static is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if static.member_id == member_id else ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _validate_sync(self, request: SyncGroupRequest) -> ErrorCode:
        error = self._validate(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        named = ((request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol_name))
        if any(theirs is not None and ours is not None and theirs != ours for theirs, ours in named):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _sync_timeout_ms(self) -> int:
        """The time to sync.  Clients that leave the rebalance timeout out send 0, with which no SyncGroup could come in time."""
        return self._rebalance_timeout_ms() or max((member.session_timeout_ms for member in self.members.values()), default=0)

    def _joined(self, member: Member) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name or None,  # Kafka writes null for a protocol without a name
            leader=self.leader_id or "",
            member_id=member.member_id,
            members=self._joined_members() if member.member_id == self.leader_id else [],
        )

    def _joined_as_follower(self, member: Member, leader_id: str | None) -> JoinGroupResponse:
        response = self._joined(member)
        response.leader = leader_id or ""
        response.members = []
        return response

    def _joined_members(self) -> list[JoinGroupResponseMember]:
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.protocols.get(self.protocol_name or "", b""),
            )
            for member in self.members.values()
        ]

    def _synced(self, assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(
            error_code=ErrorCode.NONE, protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=assignment
        )

    # -- keys of timers --------------------------------------------------------------------------------------------------------

    def _session_key(self, member_id: str) -> tuple[str, str, str]:
        return ("session", self.group_id, member_id)

    @property
    def _join_key(self) -> tuple[str, str]:
        return ("join", self.group_id)

    @property
    def _sync_key(self) -> tuple[str, str]:
        return ("sync", self.group_id)

    @property
    def _downgrade_key(self) -> tuple[str, str]:
        return ("downgrade", self.group_id)
