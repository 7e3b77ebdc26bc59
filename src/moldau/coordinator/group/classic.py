"""◇ One group of the classic protocol: members join, one of them assigns, all sync, heartbeats keep them in.

`coordinator/group/classic_state.py` has the group's state, and says which part of it is hard.  This file decides.  If the log refuses a
record, the group stays in a rebalance, or in the state of its last record.

Source: ClassicGroup, GroupMetadataManager; KIP-62, 134, 345, 394, 429, 559, 814.  Called by `machine.GroupMachine`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.coordinator.group.classic_state import CONSUMER_PROTOCOL_TYPE, ClassicGroupState, GroupState, Member
from moldau.coordinator.group.environment import Client, Commit
from moldau.coordinator.group.records import GroupMetadataValue
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, Reply, Timer, Token, answer
from moldau.errors import ErrorCode
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

UNKNOWN_MEMBER_ID: Final = ""
LEAST_PAUSE_MS: Final = 1_000
"""The pause between two checks for absent static members: some clients give a rebalance no time at all."""
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""The longest wait for a new member, which may be gone before it ever learned its id."""

KNOWN_MEMBER_ID_SINCE: Final = 4
"""The JoinGroup version from which a new member must come back with the id it was given (KIP-394)."""
SKIP_ASSIGNMENT_SINCE: Final = 9
"""The JoinGroup version from which a returning static leader can be told not to assign (KIP-814)."""


REBALANCEABLE: Final = frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE})
"""The states from which a rebalance can begin."""


@dataclass(slots=True)
class ClassicGroup(ClassicGroupState):
    """See the module."""

    # -- decisions ------------------------------------------------------------------------------------------------------------

    def join(self, token: Token, request: JoinGroupRequest, client: Client, now_ms: int) -> Outcome:
        """A member joins.

        Errors: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        member_id = request.member_id
        if not self._accepts(member_id):
            return refuse_join(token, UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not self._supports(request):
            return refuse_join(token, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if member_id == UNKNOWN_MEMBER_ID:
            return self._join_new_member(token, request, client, now_ms)
        if member_id in self.pending_join:
            if request.group_instance_id is not None:
                return refuse_join(token, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            return self._add_member(token, request, client, member_id, now_ms)
        error = self._validate(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return refuse_join(token, member_id, error)
        return self._join_known_member(token, request, self.members[member_id], now_ms)

    def sync(self, token: Token, request: SyncGroupRequest, now_ms: int) -> Outcome:
        """A member asks for its assignment; the leader brings all of them.

        Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
        """
        error = self._validate_sync(request)
        if error is ErrorCode.NONE and self.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            return refuse_sync(token, error)
        member = self.members[request.member_id]
        self.pending_sync.discard(member.member_id)
        outcome = Outcome() if self.pending_sync else Outcome(timers=[Timer(self._sync_key)])
        if self.state is GroupState.STABLE:
            # The member is alive: its assignment stays its own for a session, however long ago it joined.
            outcome.timers.append(self._session_timer(member, now_ms))
            outcome.replies.append(Reply(token, self._synced(member.assignment)))
            return outcome
        assert self.state is GroupState.COMPLETING_REBALANCE, self.state
        superseded, member.sync_token = member.sync_token, token
        if superseded is not None:
            outcome += refuse_sync(superseded, ErrorCode.REBALANCE_IN_PROGRESS)
        if member.member_id == self.leader_id:
            assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
            outcome += self._assign(assignments, now_ms)
        return outcome

    def heartbeat(self, token: Token, request: HeartbeatRequest, now_ms: int) -> Outcome:
        """A member reports that it lives.  Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS."""
        error = self._validate(request.member_id, request.group_instance_id)
        if error is ErrorCode.NONE and request.generation_id != self.generation_id:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return answer(token, HeartbeatResponse(error_code=error))
        if self.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        outcome = answer(token, HeartbeatResponse(error_code=error))
        outcome.timers.append(self._session_timer(self.members[request.member_id], now_ms))
        return outcome

    def leave(self, token: Token, request: LeaveGroupRequest, now_ms: int) -> Outcome:
        """Removes each member named; per-member errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        outcome, answers = Outcome(), []
        for identity in request.members:
            error = self._leave_one(identity, outcome)
            answers.append(MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error))
        if any(each.error_code == ErrorCode.NONE for each in answers):
            outcome += self._rebalance_after_removal(now_ms)
        outcome.replies.append(Reply(token, LeaveGroupResponse(members=answers)))
        return outcome

    def keep_alive(self, member_id: str, now_ms: int) -> list[Timer]:
        """Count a commit as a heartbeat, except while all members are waited for to sync."""
        member = self.members.get(member_id)
        if member is None or self.state not in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            return []
        return [self._session_timer(member, now_ms)]

    def validate_commit(self, commit: Commit) -> ErrorCode:
        """Check whether a commit is allowed.  Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS."""
        member_id, group_instance_id, generation_id = commit.member_id, commit.group_instance_id, commit.generation_id_or_member_epoch
        is_transactional = commit.is_transactional
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation_id >= 0 or member_id != UNKNOWN_MEMBER_ID or group_instance_id is not None:
            error = self._validate(member_id, group_instance_id)
            if error is not ErrorCode.NONE:
                return error
            if generation_id != self.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional:
            # A commit without member and generation is an administrator's; only an empty group takes it.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def on_loaded(self, now_ms: int) -> list[Timer]:
        """Start timers after a fail-over: members get a session to report in.  Members of a downgraded group still have to rebalance."""
        timers = [self._session_timer(member, now_ms) for member in self.members.values()]
        if self.members and self.leader_id is None:
            timers.append(Timer(self._downgrade_key, now_ms, self.rebalance))
        return timers

    # -- the end of the group ------------------------------------------------------------------------------------------------------

    def fall_back(self, code: ErrorCode, now_ms: int) -> Outcome:
        """Return to the state of the last record, as after a fail-over, because the log refused a record of the group."""
        outcome = Outcome(timers=self.cancelled_timers())
        outcome += self._refuse_waiting(code)
        self.pending_join.clear()
        self.pending_sync.clear()
        self.is_initial_rebalance = False
        self._become(self.recorded or GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=[]))
        outcome.timers += self.on_loaded(now_ms)
        return outcome

    def dissolved(self) -> Outcome:
        """End this group, because one of another protocol takes its place: members that wait for the rebalance are told to join again."""
        outcome = Outcome(timers=self.cancelled_timers())
        outcome += self._refuse_waiting(ErrorCode.REBALANCE_IN_PROGRESS)
        return outcome

    def _refuse_waiting(self, code: ErrorCode) -> Outcome:
        outcome = Outcome()
        for member in self.members.values():
            join_token, member.join_token = member.join_token, None
            sync_token, member.sync_token = member.sync_token, None
            if join_token is not None:
                outcome += refuse_join(join_token, member.member_id, code)
            if sync_token is not None:
                outcome += refuse_sync(sync_token, code)
        return outcome

    def downgraded_from(self, epoch: int, members: Iterable[Member], assignments: Mapping[str, bytes], now_ms: int) -> CoordinatorRecord:
        """Make an empty group the successor of a consumer group at `epoch`.  Returns its record."""
        assert not self.members and self.recorded is None
        self.protocol_type, self.generation_id = CONSUMER_PROTOCOL_TYPE, epoch
        self.members = {member.member_id: member for member in members}
        self.protocol_name = self._select_protocol()
        return self.record(assignments, now_ms)

    # -- joining --------------------------------------------------------------------------------------------------------------

    def _join_new_member(self, token: Token, request: JoinGroupRequest, client: Client, now_ms: int) -> Outcome:
        instance_id = request.group_instance_id
        member_id = f"{instance_id if instance_id is not None else client.client_id}-{self.environment.new_uuid()}"
        if instance_id is not None:
            known = self._static_member(instance_id)
            if known is not None:
                return self._replace_static_member(token, request, client, known, member_id, now_ms)
        elif client.api_version >= KNOWN_MEMBER_ID_SINCE:
            self.pending_join.add(member_id)
            outcome = refuse_join(token, member_id, ErrorCode.MEMBER_ID_REQUIRED)
            outcome.timers.append(self._expiry(member_id, now_ms + request.session_timeout_ms))
            return outcome
        return self._add_member(token, request, client, member_id, now_ms)

    def _join_known_member(self, token: Token, request: JoinGroupRequest, member: Member, now_ms: int) -> Outcome:
        protocols = _protocols_of(request)
        is_unchanged = protocols == member.protocols and list(protocols) == list(member.protocols)
        is_leader = member.member_id == self.leader_id
        if self.state is GroupState.PREPARING_REBALANCE:
            return self._update_member(token, request, member, now_ms)
        if self.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            # The member has joined already and the answer was lost: it gets the same answer.
            return answer(token, self._joined(member))
        if self.state is GroupState.STABLE and is_unchanged and not is_leader:
            return answer(token, self._joined(member))
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return self._update_member(token, request, member, now_ms)
        return refuse_join(token, member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def _add_member(self, token: Token, request: JoinGroupRequest, client: Client, member_id: str, now_ms: int) -> Outcome:
        member = Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=client.client_id,
            client_host=client.client_host,
            rebalance_timeout_ms=_rebalance_timeout_of(request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=_protocols_of(request),
            is_new=True,
            join_token=token,
        )
        if not self.members:
            self.protocol_type = request.protocol_type
        if self.leader_id is None:
            self.leader_id = member_id
        self.members[member_id] = member
        self.pending_join.discard(member_id)
        if self.is_initial_rebalance:
            self.has_new_member = True
        outcome = Outcome(timers=[self._expiry(member_id, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)])
        outcome += self._rebalance(now_ms)
        return outcome

    def _update_member(self, token: Token, request: JoinGroupRequest, member: Member, now_ms: int) -> Outcome:
        outcome = self._take_join(token, request, member)
        outcome += self._rebalance(now_ms)
        return outcome

    def _take_join(self, token: Token, request: JoinGroupRequest, member: Member) -> Outcome:
        member.protocols = _protocols_of(request)
        member.rebalance_timeout_ms = _rebalance_timeout_of(request)
        member.session_timeout_ms = request.session_timeout_ms
        superseded, member.join_token = member.join_token, token
        if superseded is None:
            return Outcome()
        return refuse_join(superseded, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)

    def _replace_static_member(
        self, token: Token, request: JoinGroupRequest, client: Client, old: Member, member_id: str, now_ms: int
    ) -> Outcome:
        """Replace a static member: its instance is back under a new id.

        The old holder is fenced, and a stable group stays as it is (KIP-345).
        """
        outcome = Outcome(timers=[Timer(self._session_key(old.member_id))])
        if old.join_token is not None:
            outcome += refuse_join(old.join_token, old.member_id, ErrorCode.FENCED_INSTANCE_ID)
        if old.sync_token is not None:
            outcome += refuse_sync(old.sync_token, ErrorCode.FENCED_INSTANCE_ID)
        old_protocol = self.protocol_name
        old_leader_id = self.leader_id
        member = Member(
            member_id=member_id,
            group_instance_id=old.group_instance_id,
            client_id=client.client_id,
            client_host=client.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members = {member_id if key == old.member_id else key: each for key, each in self.members.items()} | {member_id: member}
        if old.member_id in self.pending_sync:
            self.pending_sync.remove(old.member_id)
            self.pending_sync.add(member_id)
        if self.leader_id == old.member_id:
            self.leader_id = member_id
        outcome += self._take_join(token, request, member)
        outcome.timers.append(self._session_timer(member, now_ms))
        if self.state is not GroupState.STABLE or self._select_protocol() != old_protocol:
            outcome += self._rebalance(now_ms)
            return outcome
        member.join_token = None
        can_skip = client.api_version >= SKIP_ASSIGNMENT_SINCE
        response = self._joined(member) if can_skip else self._joined_as_follower(member, old_leader_id)
        response.skip_assignment = can_skip and member_id == self.leader_id
        outcome.records.append(self.record({each.member_id: each.assignment for each in self.members.values()}, now_ms))
        outcome.otherwise.append(self.fall_back)
        outcome.replies.append(Reply(token, response))
        return outcome

    # -- rebalancing ----------------------------------------------------------------------------------------------------------

    def _rebalance(self, now_ms: int) -> Outcome:
        return self._prepare_rebalance(now_ms) if self.state in REBALANCEABLE else self._maybe_complete_join(now_ms)

    def _rebalance_after_removal(self, now_ms: int) -> Outcome:
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self._prepare_rebalance(now_ms)
        return self._maybe_complete_join(now_ms)

    def _prepare_rebalance(self, now_ms: int) -> Outcome:
        outcome = Outcome(timers=[Timer(self._sync_key)])
        for member in self.members.values():
            token, member.sync_token = member.sync_token, None
            if token is not None:
                outcome += refuse_sync(token, ErrorCode.REBALANCE_IN_PROGRESS)
                outcome.timers.append(self._session_timer(member, now_ms))
            if self.state is GroupState.COMPLETING_REBALANCE:
                member.assignment = b""  # the timer of a generation whose assignment was never finished
        self.pending_sync.clear()
        self.is_initial_rebalance = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING_REBALANCE
        if self.is_initial_rebalance:
            self.has_new_member = False
            delay_ms = self.environment.config.initial_rebalance_delay_ms
            outcome += self._wait_for_more_members(delay_ms, max(self._rebalance_timeout_ms() - delay_ms, 0), now_ms)
        elif self._has_everyone_joined():
            outcome += self._complete_join(now_ms)
        else:
            outcome.timers.append(Timer(self._join_key, now_ms + self._rebalance_timeout_ms(), self._complete_join))
        return outcome

    def _wait_for_more_members(self, delay_ms: int, remaining_ms: int, now_ms: int) -> Outcome:
        """Delay the first rebalance a little, and longer as long as members keep coming, so that a group starting up is assigned once."""
        if delay_ms == 0:
            return self._complete_join(now_ms)

        def is_over(then_ms: int) -> Outcome:
            if not self.has_new_member or remaining_ms == 0:
                return self._complete_join(then_ms)
            self.has_new_member = False
            next_delay_ms = min(self.environment.config.initial_rebalance_delay_ms, remaining_ms)
            return self._wait_for_more_members(next_delay_ms, max(remaining_ms - delay_ms, 0), then_ms)

        return Outcome(timers=[Timer(self._join_key, now_ms + delay_ms, is_over)])

    def _maybe_complete_join(self, now_ms: int) -> Outcome:
        is_over = self.state is GroupState.PREPARING_REBALANCE and not self.is_initial_rebalance and self._has_everyone_joined()
        return self._complete_join(now_ms) if is_over else Outcome()

    def _complete_join(self, now_ms: int) -> Outcome:
        """Begin the next generation: every member has joined, or the time is over, and absent members are out."""
        outcome = Outcome(timers=[Timer(self._join_key)])
        late = [member for member in self.members.values() if member.join_token is None and member.group_instance_id is None]
        for member in late:
            self._remove(member.member_id)
            outcome.timers.append(Timer(self._session_key(member.member_id)))
        if self.members and not self._elect_leader():
            # Only static members are left and none of them came: they keep their place until their session ends.
            pause_ms = max(self._rebalance_timeout_ms(), LEAST_PAUSE_MS)
            outcome.timers.append(Timer(self._join_key, now_ms + pause_ms, self._complete_join))
            return outcome
        self.generation_id += 1
        self.is_initial_rebalance = False
        self.state_timestamp_ms = now_ms
        if not self.members:
            self.protocol_name = None
            self.leader_id = None
            self.state = GroupState.EMPTY
            outcome.records.append(self.record({}, now_ms))
            outcome.otherwise.append(self.fall_back)
            return outcome
        self.protocol_name = self._select_protocol()
        self.state = GroupState.COMPLETING_REBALANCE
        self.pending_sync = set(self.members)
        for member in self.members.values():
            token, member.join_token = member.join_token, None
            member.is_new = False
            if token is not None:
                outcome.replies.append(Reply(token, self._joined(member)))
            outcome.timers.append(self._session_timer(member, now_ms))
        generation_id = self.generation_id
        outcome.timers.append(
            Timer(self._sync_key, now_ms + self._sync_timeout_ms(), lambda then_ms: self._sync_is_over(generation_id, then_ms))
        )
        return outcome

    def _assign(self, assignments: Mapping[str, bytes], now_ms: int) -> Outcome:
        generation_id = self.generation_id
        outcome = Outcome(
            records=[self.record(assignments, now_ms)],
            otherwise=[lambda code, then_ms: self._assignment_is_refused(generation_id, then_ms)],
        )
        for member in self.members.values():
            token, member.sync_token = member.sync_token, None
            if token is not None:
                outcome.replies.append(Reply(token, self._synced(assignments.get(member.member_id, b""))))
                outcome.timers.append(self._session_timer(member, now_ms))
        return outcome

    def _assignment_is_refused(self, generation_id: int, now_ms: int) -> Outcome:
        """Let all members join again, perhaps for a smaller assignment.  They were told why this one was not stored."""
        is_waited_for = self.state is GroupState.COMPLETING_REBALANCE and self.generation_id == generation_id
        return self._prepare_rebalance(now_ms) if is_waited_for else Outcome()

    def _sync_is_over(self, generation_id: int, now_ms: int) -> Outcome:
        if generation_id != self.generation_id or not self.pending_sync:
            return Outcome()
        outcome = Outcome()
        for member_id in sorted(self.pending_sync & self.members.keys()):
            self._remove(member_id)
            outcome.timers.append(Timer(self._session_key(member_id)))
        outcome += self._prepare_rebalance(now_ms)
        return outcome

    def rebalance(self, now_ms: int) -> Outcome:
        """Let every member join again, if the group's state allows it."""
        return self._prepare_rebalance(now_ms) if self.state is GroupState.STABLE else Outcome()

    def cancelled_timers(self) -> list[Timer]:
        """The cancelled timers of a group that comes to an end."""
        keys = [self._session_key(member_id) for member_id in [*self.members, *sorted(self.pending_join)]]
        return [Timer(self._join_key), Timer(self._sync_key), Timer(self._downgrade_key), *(Timer(key) for key in keys)]

    # -- leaving --------------------------------------------------------------------------------------------------------------

    def _leave_one(self, identity: MemberIdentity, outcome: Outcome) -> ErrorCode:
        member_id = identity.member_id
        if member_id in self.pending_join:
            self.pending_join.remove(member_id)
            outcome.timers.append(Timer(self._session_key(member_id)))
            return ErrorCode.NONE
        if member_id == UNKNOWN_MEMBER_ID:
            # An administrator names the instance alone.
            static = self._static_member(identity.group_instance_id) if identity.group_instance_id is not None else None
            if static is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = static.member_id
        else:
            error = self._validate(member_id, identity.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        outcome += self._dismiss(member_id)
        return ErrorCode.NONE

    def _session_is_over(self, member_id: str, now_ms: int) -> Outcome:
        if member_id in self.pending_join:
            self.pending_join.remove(member_id)
            return self._maybe_complete_join(now_ms)
        member = self.members.get(member_id)
        if member is None or (member.is_waiting() and not member.is_new):
            # A member that waits for an answer cannot send heartbeats on that connection: it stays for the length of the rebalance.
            return Outcome()
        outcome = self._dismiss(member_id)
        outcome += self._rebalance_after_removal(now_ms)
        return outcome

    def _dismiss(self, member_id: str) -> Outcome:
        member = self._remove(member_id)
        outcome = Outcome(timers=[Timer(self._session_key(member_id))])
        if member.join_token is not None:
            outcome += refuse_join(member.join_token, UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
        if member.sync_token is not None:
            outcome += refuse_sync(member.sync_token, ErrorCode.UNKNOWN_MEMBER_ID)
        return outcome

    def _remove(self, member_id: str) -> Member:
        member = self.members.pop(member_id)
        self.pending_sync.discard(member_id)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    # -- timers ---------------------------------------------------------------------------------------------------------------

    def _session_timer(self, member: Member, now_ms: int) -> Timer:
        return self._expiry(member.member_id, now_ms + member.session_timeout_ms)

    def _expiry(self, member_id: str, due_ms: int) -> Timer:
        return Timer(self._session_key(member_id), due_ms, lambda now_ms: self._session_is_over(member_id, now_ms))


def refuse_join(token: Token, member_id: str, error: ErrorCode) -> Outcome:
    response = JoinGroupResponse(
        error_code=error, generation_id=-1, protocol_type=None, protocol_name=None, leader="", member_id=member_id, members=[]
    )
    return answer(token, response)


def refuse_sync(token: Token, error: ErrorCode) -> Outcome:
    return answer(token, SyncGroupResponse(error_code=error, assignment=b""))


def _protocols_of(request: JoinGroupRequest) -> dict[str, bytes]:
    return {each.name: bytes(each.metadata) for each in request.protocols}


def _rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """The rebalance timeout of a request.  Version 0 has none: the session timeout stands for both."""
    return request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else request.session_timeout_ms
