"""◇ A living group changes its protocol: to consumer when a member of the consumer protocol joins, back when the last one leaves.

    classic group ──first consumer heartbeat──▶ consumer group ──last consumer member leaves──▶ classic group
                                                  └─ classic members in it: JoinGroup, SyncGroup, Heartbeat, LeaveGroup are served here

To a classic member a consumer group looks like this: its generation is its member epoch, the coordinator assigns, nobody is the leader.
REBALANCE_IN_PROGRESS to a heartbeat means: join again, and say what you still own.  Partitions keep one owner through all of it, since the
consumer group gives out only what nobody holds.

Source: KIP-848, GroupMetadataManager (classicGroup…ToConsumerGroup, convertTo…Group).  Called by `machine` and `consumer`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.coordinator.group import consumer
from moldau.coordinator.group import consumer_member as members_of
from moldau.coordinator.group import records as stored
from moldau.coordinator.group.assignors.model import TopicIdPartition
from moldau.coordinator.group.classic import CONSUMER_PROTOCOL_TYPE, KNOWN_MEMBER_ID_SINCE, UNKNOWN_MEMBER_ID, ClassicGroup
from moldau.coordinator.group.classic import Member as ClassicGroupMember
from moldau.coordinator.group.membership import LEAVE_STATIC_EPOCH
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, Reply, Timer, Token, answer
from moldau.errors import ErrorCode
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.consumer_protocol import TopicPartition as NamedPartitions
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.stored import decode_newer_too, encode_versioned
from moldau.protocol.wire import DecodeError

if TYPE_CHECKING:
    from moldau.coordinator.group.assignors.model import TopicView
    from moldau.coordinator.group.environment import Client, Topics

UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})
DISABLED: Final = "disabled"
HIGHEST_EMBEDDED: Final = 3


def join_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return ("rejoin", group_id, member_id)


def sync_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return ("resync", group_id, member_id)


# -- upgrade ------------------------------------------------------------------------------------------------------------------


def obstacle_to_upgrade(group: ClassicGroup) -> str | None:
    """Why the group stays a classic one: the policy, not a group of consumers, too many, or what its members told each other."""
    config = group.environment.config
    if config.consumer_migration_policy not in UPGRADES:
        return "online upgrade is disabled."
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return "the group does not use the consumer embedded protocol."
    if len(group.members) > config.consumer_max_size:
        return "the group size exceeds the consumer group maximum size."
    try:
        for member in group.members.values():
            said, told = _subscription_of(_chosen_metadata(group, member)).user_data, _assignment_of(member).user_data
            # What an assignor of the group's own tells its members has no place in the other protocol.  librdkafka tells each what it said.
            if told and told != said:
                return (
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before "
                    "re-attempting the upgrade."
                )
    except DecodeError:
        return "the embedded consumer protocol is malformed."
    return None


def upgraded_records(group: ClassicGroup, prepared: consumer.ConsumerGroup, now_ms: int) -> list[CoordinatorRecord]:
    """What makes `prepared` of the classic group: everyone stays with what it was assigned, at the generation as epoch."""
    epoch, group_id = group.generation_id, group.group_id
    members, assigned = [], {}
    for each in group.members.values():
        subscription = _subscription_of(_chosen_metadata(group, each))
        assigned[each.member_id] = _named(_assignment_of(each).assigned_partitions, group.environment.topics)
        members.append(
            members_of.Member(
                each.member_id,
                instance_id=each.group_instance_id,
                rack_id=subscription.rack_id,
                client_id=each.client_id,
                client_host=each.client_host,
                topic_names=tuple(sorted(set(subscription.topics))),
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                classic=members_of.ClassicMember(each.session_timeout_ms, tuple(each.protocols.items())),
                epoch=epoch,
                previous_epoch=epoch,
                owned=dict.fromkeys(sorted(assigned[each.member_id]), epoch),
            )
        )
    metadata = stored.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=0)
    target = stored.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=0)
    records = [
        *(members_of.metadata_record(prepared.group_id, member) for member in members),
        CoordinatorRecord(stored.ConsumerGroupMetadataKey(group_id=group_id), metadata),
        *(members_of.target_record(prepared.group_id, member.member_id, assigned[member.member_id]) for member in members),
        CoordinatorRecord(stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), target),
        *(members_of.current_record(prepared.group_id, member) for member in members),
    ]
    for record in records:
        prepared.replay(record.key, record.value)
    return records


def leave_classic_behind(group: ClassicGroup, prepared: consumer.ConsumerGroup, now_ms: int) -> Outcome:
    """Whoever waits for the old rebalance joins again; sessions go on in the new group."""
    outcome = Outcome()
    for member in group.members.values():
        join_token, member.join_token = member.join_token, None
        sync_token, member.sync_token = member.sync_token, None
        if join_token is not None:
            outcome += refuse_join(join_token, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        if sync_token is not None:
            outcome += _refuse_sync(sync_token, ErrorCode.REBALANCE_IN_PROGRESS)
    for each in prepared.members.values():
        outcome.timers += prepared.member_timers(each, now_ms)
    return outcome


# -- classic members of a consumer group --------------------------------------------------------------------------------------


def join(group: consumer.ConsumerGroup, token: Token, request: JoinGroupRequest, client: Client, now_ms: int) -> Outcome:
    """Answered at once with the member's epoch as generation.

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
        subscription = _subscription_of(bytes(request.protocols[0].metadata))
    except DecodeError:
        return refuse_join(token, UNKNOWN_MEMBER_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    outcome, members, target = Outcome(), dict(group.members), dict(group.target)
    before = group.members.get(member_id) or members_of.Member(member_id)
    if static is not None and static.member_id != member_id:
        joining = _joined(replace(static, member_id=member_id), request, subscription, client)
        remaining = {each.member_id: each for each in group.members.values() if each is not static}
        if static.classic is None and can_downgrade(group, {**remaining, member_id: joining}):
            # Nobody is left who speaks the group's protocol: static members do not say that they leave.
            outcome = downgrade(group, [static.member_id], now_ms, joining=joining)
            outcome.replies.append(Reply(token, _joined_response(joining, group.epoch)))
            return outcome
        before = group.succeed(replace(static, epoch=LEAVE_STATIC_EPOCH), member_id, members, target, outcome)
    member = _joined(before, request, subscription, client)
    owned = _named(subscription.owned_partitions, group.environment.topics)
    settled = group.advance(before, member, owned, members, target, outcome, now_ms, epoch=member.epoch)
    outcome.timers += [*group.member_timers(settled, now_ms), Timer(join_key(group.group_id, member_id))]
    outcome.timers.append(_deadline(group, settled, sync_key(group.group_id, member_id), now_ms + member.rebalance_timeout_ms))
    group.told_to_rejoin.discard(member_id)
    outcome.replies.append(Reply(token, _joined_response(settled, settled.epoch)))
    return outcome


def _join_error(group: consumer.ConsumerGroup, request: JoinGroupRequest, static: members_of.Member | None) -> ErrorCode:
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
    """What the member is once the request is taken."""
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


def sync(group: consumer.ConsumerGroup, token: Token, request: SyncGroupRequest, now_ms: int) -> Outcome:
    """Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS."""
    member = _classic_member(group, request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        return _refuse_sync(token, member)
    assert member.classic is not None
    if request.generation_id != member.epoch:
        return _refuse_sync(token, ErrorCode.ILLEGAL_GENERATION)
    name, metadata = member.classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        return _refuse_sync(token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.target_epoch > member.epoch and member.state is not members_of.MemberState.UNREVOKED_PARTITIONS:
        outcome = _refuse_sync(token, ErrorCode.REBALANCE_IN_PROGRESS)
        outcome.timers += _rejoin_deadline(group, member, now_ms)
        return outcome
    response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=_encoded(member.owned, group.environment.topics, metadata),
    )
    timers = [*group.member_timers(member, now_ms), Timer(sync_key(group.group_id, member.member_id))]
    return Outcome(replies=[Reply(token, response)], timers=timers)


def heartbeat(group: consumer.ConsumerGroup, token: Token, request: HeartbeatRequest, now_ms: int) -> Outcome:
    """REBALANCE_IN_PROGRESS: there is something to give up, or to get, by joining again.

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
        or member.state is members_of.MemberState.UNREVOKED_PARTITIONS
        or (member.state is members_of.MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    )
    if must_join:
        timers += _rejoin_deadline(group, member, now_ms)
    code = ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE
    return Outcome(replies=[Reply(token, HeartbeatResponse(error_code=code))], timers=timers)


def leave(group: consumer.ConsumerGroup, token: Token, request: LeaveGroupRequest, now_ms: int) -> Outcome:
    """Members of either protocol.  Per-member errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
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


# -- downgrade ----------------------------------------------------------------------------------------------------------------


def can_downgrade(group: consumer.ConsumerGroup, remaining: Mapping[str, members_of.Member]) -> bool:
    """Only classic members remain, some do, and the policy lets the group go back."""
    config = group.environment.config
    is_allowed = config.consumer_migration_policy in DOWNGRADES and len(remaining) <= config.max_size
    return is_allowed and bool(remaining) and all(member.classic is not None for member in remaining.values())


def downgrade(group: consumer.ConsumerGroup, leaving: Collection[str], now_ms: int, *, joining: members_of.Member | None = None) -> Outcome:
    """The group of the classic protocol again; its members, `joining` among them, rebalance at once among themselves.

    Until they have, each has what it holds, not its target: the coordinator may fail over before the rebalance begins, and who asks then
    must be given nothing that another still reads.  No leader: that says after a fail-over, too, that there is a rebalance to come.
    """
    successor = ClassicGroup(group.group_id, group.environment)
    successor.protocol_type, successor.generation_id = CONSUMER_PROTOCOL_TYPE, group.epoch
    assignments = {}
    staying = [member for member_id, member in group.members.items() if member_id not in leaving]
    for member in [*staying, joining] if joining is not None else staying:
        assert member.classic is not None
        successor.members[member.member_id] = ClassicGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.classic.session_timeout_ms,
            protocols=dict(member.classic.protocols),
        )
        assignments[member.member_id] = _encoded(member.owned, group.environment.topics, member.classic.protocols[0][1])
    successor.protocol_name = successor.select_protocol()
    removals = [record for member_id in group.members for record in members_of.removal(group.group_id, member_id)]
    outcome = Outcome([*removals, *group.group_tombstones(), successor.record(assignments, now_ms)])
    for member_id in group.members:
        outcome.timers += group.cancelled_timers(member_id)
    # The rebalance is a timer, too: a decision must not change the group before its records are replayed.
    outcome.timers += successor.on_loaded(now_ms)
    group.successor = successor
    return outcome


# -- what several of them ask -------------------------------------------------------------------------------------------------


def _classic_member(group: consumer.ConsumerGroup, member_id: str, instance_id: str | None) -> members_of.Member | ErrorCode:
    member = _known_member(group, member_id, instance_id)
    return ErrorCode.UNKNOWN_MEMBER_ID if isinstance(member, members_of.Member) and member.classic is None else member


def _known_member(group: consumer.ConsumerGroup, member_id: str, instance_id: str | None) -> members_of.Member | ErrorCode:
    if instance_id is None:
        return group.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    static = group.static_member(instance_id)
    if static is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return static if member_id in (static.member_id, UNKNOWN_MEMBER_ID) else ErrorCode.FENCED_INSTANCE_ID


def _supports(group: consumer.ConsumerGroup, request: JoinGroupRequest) -> bool:
    """One of the protocols is known to every classic member, so that the group can go back to them."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        return False
    common = {each.name for each in request.protocols}
    for member in group.members.values():
        if member.classic is not None and member.member_id != request.member_id:
            common &= {name for name, _ in member.classic.protocols}
    return bool(common)


def _waits_for_others(group: consumer.ConsumerGroup, member: members_of.Member) -> bool:
    target = group.target.get(member.member_id, frozenset())
    return any(group.holders.get(partition, member.member_id) != member.member_id for partition in target)


def _rejoin_deadline(group: consumer.ConsumerGroup, member: members_of.Member, now_ms: int) -> list[Timer]:
    """Counted from when the member was first told: heartbeats do not put it off."""
    if member.member_id in group.told_to_rejoin:
        return []
    group.told_to_rejoin.add(member.member_id)
    return [_deadline(group, member, join_key(group.group_id, member.member_id), now_ms + member.rebalance_timeout_ms)]


def _deadline(group: consumer.ConsumerGroup, member: members_of.Member, key: tuple[str, str, str], due_ms: int) -> Timer:
    def is_over(then_ms: int) -> Outcome:
        known = group.members.get(member.member_id)
        is_same = known is not None and known.classic is not None
        return group.fence(member.member_id, then_ms) if is_same else Outcome()

    return Timer(key, due_ms, is_over)


def _subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """Errors: DecodeError."""
    return decode_newer_too(ConsumerProtocolSubscription, metadata)


def _chosen_metadata(group: ClassicGroup, member: ClassicGroupMember) -> bytes:
    return member.protocols.get(group.protocol_name or "") or next(iter(member.protocols.values()), b"")


def _assignment_of(member: ClassicGroupMember) -> ConsumerProtocolAssignment:
    """Errors: DecodeError."""
    if not member.assignment:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return decode_newer_too(ConsumerProtocolAssignment, member.assignment)


def _named(partitions: list[NamedPartitions], topics: Topics) -> frozenset[TopicIdPartition]:
    """By topic id; topics that are gone are left out."""
    found = []
    for each in partitions:
        topic = topics.by_name(each.topic)
        if topic is not None:
            found += [TopicIdPartition(topic.topic_id, index) for index in each.partitions]
    return frozenset(found)


def _encoded(partitions: Mapping[TopicIdPartition, int] | frozenset[TopicIdPartition], topics: Topics, metadata: bytes) -> bytes:
    """As the member spells its own metadata: in that version."""
    by_name: dict[str, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topic: TopicView | None = topics.by_id(topic_id)
        if topic is not None:
            by_name.setdefault(topic.name, []).append(index)
    assigned = [NamedPartitions(topic=name, partitions=indexes) for name, indexes in by_name.items()]
    version = min(max(int.from_bytes(metadata[:2], signed=True), 0), HIGHEST_EMBEDDED)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def refuse_join(token: Token, member_id: str, error: ErrorCode) -> Outcome:
    response = JoinGroupResponse(
        error_code=error, generation_id=-1, protocol_type=None, protocol_name=None, leader="", member_id=member_id, members=[]
    )
    return answer(token, response)


def _refuse_sync(token: Token, error: ErrorCode) -> Outcome:
    return answer(token, SyncGroupResponse(error_code=error, assignment=b""))
