"""◇ Members of the classic protocol in a consumer group: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Such a member sees a classic group: its generation is its member epoch, the coordinator assigns, and no member is the leader.
REBALANCE_IN_PROGRESS as the answer to a heartbeat means: join again, and name the partitions that you still own.

Source: KIP-848, GroupMetadataManager (classicGroup…ToConsumerGroup).  Called by `machine`.
"""

from dataclasses import replace
from typing import Final

from moldau.coordinator.group import consumer_member as members_of
from moldau.coordinator.group import sessions
from moldau.coordinator.group.classic import KNOWN_MEMBER_ID_SINCE, UNKNOWN_MEMBER_ID, refuse_join, refuse_sync
from moldau.coordinator.group.classic_state import CONSUMER_PROTOCOL_TYPE
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.embedded import by_id, encoded_assignment, subscription_of
from moldau.coordinator.group.environment import Client
from moldau.coordinator.group.membership import LEAVE_STATIC_EPOCH
from moldau.coordinator.outcome import Outcome, Reply, Timer, Token, answer
from moldau.errors import ErrorCode
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.wire import DecodeError

DISABLED: Final = "disabled"


def join(group: ConsumerGroup, token: Token, request: JoinGroupRequest, client: Client, now_ms: int) -> Outcome:
    """A classic member joins.  The answer comes at once, with the member's epoch as generation.

    Errors, all but the third without a member id: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED,
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    static = group.static_member(request.group_instance_id) if request.group_instance_id is not None else None
    error = _join_error(group, request, static)
    if error is not ErrorCode.NONE:
        return refuse_join(token, UNKNOWN_MEMBER_ID, error)
    member_id = request.member_id or str(group.environment.new_uuid())
    if not request.member_id and request.group_instance_id is None and client.api_version >= KNOWN_MEMBER_ID_SINCE:
        return refuse_join(token, member_id, ErrorCode.MEMBER_ID_REQUIRED)
    try:
        subscription = subscription_of(bytes(request.protocols[0].metadata))
    except DecodeError:
        return refuse_join(token, UNKNOWN_MEMBER_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    outcome, members, target = Outcome(), dict(group.members), dict(group.target)
    before = group.members.get(member_id) or members_of.Member(member_id)
    if static is not None and static.member_id != member_id:
        joining = _joined(replace(static, member_id=member_id), request, subscription, client)
        downgraded = None
        if static.classic is None:
            downgraded = group.conversions.downgraded(group, [static.member_id], now_ms, joining=joining)
        if downgraded is not None:
            # No member is left that speaks the group's protocol: static members do not report that they leave.
            downgraded.replies.append(Reply(token, _joined_response(joining, group.epoch)))
            return downgraded
        before = group.succeed(replace(static, epoch=LEAVE_STATIC_EPOCH), member_id, members, target, outcome)
    member = _joined(before, request, subscription, client)
    owned = by_id(subscription.owned_partitions, group.environment.topics)
    settled = group.advance(before, member, owned, members, target, outcome, now_ms, epoch=member.epoch)
    outcome.timers += [*group.member_timers(settled, now_ms), Timer(sessions.rejoin_key(group.group_id, member_id))]
    outcome.timers.append(_deadline(group, settled, sessions.resync_key(group.group_id, member_id), now_ms + member.rebalance_timeout_ms))
    group.told_to_rejoin.discard(member_id)
    outcome.replies.append(Reply(token, _joined_response(settled, settled.epoch)))
    return outcome


def _join_error(group: ConsumerGroup, request: JoinGroupRequest, static: members_of.Member | None) -> ErrorCode:
    config = group.environment.config
    if config.consumer_migration_policy == DISABLED:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.member_id not in group.members and static is None and len(group.members) >= config.consumer_max_size:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _supports(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.member_id and request.group_instance_id is not None:
        if static is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if static.member_id != request.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE


def _joined(
    before: members_of.Member, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, client: Client
) -> members_of.Member:
    """The member after the request."""
    protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
    return replace(
        before,
        instance_id=request.group_instance_id if request.group_instance_id is not None else before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex=None,
        rebalance_timeout_ms=request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else request.session_timeout_ms,
        classic=members_of.ClassicMember(request.session_timeout_ms, protocols),
    )


def _joined_response(member: members_of.Member, generation_id: int) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=generation_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0][0],
        leader="",
        member_id=member.member_id,
        members=[],
    )


def sync(group: ConsumerGroup, token: Token, request: SyncGroupRequest, now_ms: int) -> Outcome:
    """A classic member asks for its assignment.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
    """
    member = _classic_member(group, request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        return refuse_sync(token, member)
    assert member.classic is not None
    if request.generation_id != member.epoch:
        return refuse_sync(token, ErrorCode.ILLEGAL_GENERATION)
    name, metadata = member.classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        return refuse_sync(token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.target_epoch > member.epoch and member.state is not members_of.MemberState.UNREVOKED_PARTITIONS:
        outcome = refuse_sync(token, ErrorCode.REBALANCE_IN_PROGRESS)
        outcome.timers += _rejoin_deadline(group, member, now_ms)
        return outcome
    response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encoded_assignment(member.owned, group.environment.topics, metadata),
    )
    timers = [*group.member_timers(member, now_ms), Timer(sessions.resync_key(group.group_id, member.member_id))]
    return Outcome(replies=[Reply(token, response)], timers=timers)


def heartbeat(group: ConsumerGroup, token: Token, request: HeartbeatRequest, now_ms: int) -> Outcome:
    """A classic member reports.  REBALANCE_IN_PROGRESS: it has to join again, to give partitions up or to get some.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
    """
    member = _classic_member(group, request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        return answer(token, HeartbeatResponse(error_code=member))
    if request.generation_id != member.epoch:
        return answer(token, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    timers = group.member_timers(member, now_ms)
    must_join = (
        member.epoch < group.target_epoch
        or group.is_target_due(group.epoch, now_ms)
        or member.state in (members_of.MemberState.UNREVOKED_PARTITIONS, members_of.MemberState.UNKNOWN)
        or (member.state is members_of.MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    )
    if must_join:
        timers += _rejoin_deadline(group, member, now_ms)
    code = ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE
    return Outcome(replies=[Reply(token, HeartbeatResponse(error_code=code))], timers=timers)


def leave(group: ConsumerGroup, token: Token, request: LeaveGroupRequest, now_ms: int) -> Outcome:
    """Remove members of either protocol.  Per-member errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    answers: list[MemberResponse] = []
    leaving: dict[str, None] = {}
    for identity in request.members:
        member = _known_member(group, identity.member_id, identity.group_instance_id)
        code = member if isinstance(member, ErrorCode) else ErrorCode.NONE
        if isinstance(member, members_of.Member):
            leaving[member.member_id] = None
        answers.append(MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code))
    outcome = group.fence_all(leaving, now_ms) if leaving else Outcome()
    outcome.replies.append(Reply(token, LeaveGroupResponse(members=answers)))
    return outcome


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> members_of.Member | ErrorCode:
    member = _known_member(group, member_id, instance_id)
    return ErrorCode.UNKNOWN_MEMBER_ID if isinstance(member, members_of.Member) and member.classic is None else member


def _known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> members_of.Member | ErrorCode:
    if instance_id is None:
        return group.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    static = group.static_member(instance_id)
    if static is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return static if member_id in (static.member_id, UNKNOWN_MEMBER_ID) else ErrorCode.FENCED_INSTANCE_ID


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether every classic member knows one of the protocols, so that the group can go back to them."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        return False
    common = {each.name for each in request.protocols}
    for member in group.members.values():
        if member.classic is not None and member.member_id != request.member_id:
            common &= {name for name, _ in member.classic.protocols}
    return bool(common)


def _waits_for_others(group: ConsumerGroup, member: members_of.Member) -> bool:
    target = group.target.get(member.member_id, frozenset())
    return any(group.holders.get(partition, member.member_id) != member.member_id for partition in target)


def _rejoin_deadline(group: ConsumerGroup, member: members_of.Member, now_ms: int) -> list[Timer]:
    """Counted from when the member was first told: heartbeats do not put it off."""
    if member.member_id in group.told_to_rejoin:
        return []
    group.told_to_rejoin.add(member.member_id)
    return [_deadline(group, member, sessions.rejoin_key(group.group_id, member.member_id), now_ms + member.rebalance_timeout_ms)]


def _deadline(group: ConsumerGroup, member: members_of.Member, key: tuple[str, str, str], due_ms: int) -> Timer:
    def is_over(then_ms: int) -> Outcome:
        known = group.members.get(member.member_id)
        is_same = known is not None and known.classic is not None
        return group.fence(member.member_id, then_ms) if is_same else Outcome()

    return Timer(key, due_ms, is_over)
