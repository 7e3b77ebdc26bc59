"""◇ A living group changes its protocol: to consumer when a member of the consumer protocol joins, back when the last one leaves.

    classic group ──first consumer heartbeat──▶ consumer group ──last consumer member leaves──▶ classic group
                                                  └─ members of both protocols: `classic_members`

Partitions keep one owner through all of it, since the consumer group gives out only what nobody holds.

Source: KIP-848, GroupMetadataManager (convertTo…Group).  Called by `machine`, `consumer` and `classic_members`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from moldau.coordinator.group import consumer_member as members_of
from moldau.coordinator.group import records as stored
from moldau.coordinator.group.classic import CONSUMER_PROTOCOL_TYPE, ClassicGroup, refuse_join, refuse_sync
from moldau.coordinator.group.classic import Member as ClassicGroupMember
from moldau.coordinator.group.embedded import assignment_of, by_id, encoded_assignment, subscription_of
from moldau.coordinator.outcome import CoordinatorRecord, Outcome
from moldau.errors import ErrorCode
from moldau.protocol.wire import DecodeError

if TYPE_CHECKING:
    from moldau.coordinator.group.consumer import ConsumerGroup

UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})


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
            said, told = subscription_of(_chosen_metadata(group, member)).user_data, assignment_of(member.assignment).user_data
            # What an assignor of the group's own tells its members has no place in the other protocol.  librdkafka tells each what it said.
            if told and told != said:
                return (
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before "
                    "re-attempting the upgrade."
                )
    except DecodeError:
        return "the embedded consumer protocol is malformed."
    return None


def upgraded_records(group: ClassicGroup, prepared: ConsumerGroup, now_ms: int) -> list[CoordinatorRecord]:
    """What makes `prepared` of the classic group: everyone stays with what it was assigned, at the generation as epoch."""
    epoch, group_id = group.generation_id, group.group_id
    members, assigned = [], {}
    for each in group.members.values():
        subscription = subscription_of(_chosen_metadata(group, each))
        assigned[each.member_id] = by_id(assignment_of(each.assignment).assigned_partitions, group.environment.topics)
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


def leave_classic_behind(group: ClassicGroup, prepared: ConsumerGroup, now_ms: int) -> Outcome:
    """Whoever waits for the old rebalance joins again; sessions go on in the new group."""
    outcome = Outcome()
    for member in group.members.values():
        join_token, member.join_token = member.join_token, None
        sync_token, member.sync_token = member.sync_token, None
        if join_token is not None:
            outcome += refuse_join(join_token, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        if sync_token is not None:
            outcome += refuse_sync(sync_token, ErrorCode.REBALANCE_IN_PROGRESS)
    for each in prepared.members.values():
        outcome.timers += prepared.member_timers(each, now_ms)
    return outcome


# -- downgrade ----------------------------------------------------------------------------------------------------------------


def can_downgrade(group: ConsumerGroup, remaining: Mapping[str, members_of.Member]) -> bool:
    """Only classic members remain, some do, and the policy lets the group go back."""
    config = group.environment.config
    is_allowed = config.consumer_migration_policy in DOWNGRADES and len(remaining) <= config.max_size
    return is_allowed and bool(remaining) and all(member.classic is not None for member in remaining.values())


def downgrade(group: ConsumerGroup, leaving: Collection[str], now_ms: int, *, joining: members_of.Member | None = None) -> Outcome:
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
        assignments[member.member_id] = encoded_assignment(member.owned, group.environment.topics, member.classic.protocols[0][1])
    successor.protocol_name = successor.select_protocol()
    removals = [record for member_id in group.members for record in members_of.removal(group.group_id, member_id)]
    outcome = Outcome([*removals, *group.group_tombstones(), successor.record(assignments, now_ms)])
    for member_id in group.members:
        outcome.timers += group.cancelled_timers(member_id)
    # The rebalance is a timer, too: a decision must not change the group before its records are replayed.
    outcome.timers += successor.on_loaded(now_ms)
    group.successor = successor
    return outcome


def _chosen_metadata(group: ClassicGroup, member: ClassicGroupMember) -> bytes:
    return member.protocols.get(group.protocol_name or "") or next(iter(member.protocols.values()), b"")
