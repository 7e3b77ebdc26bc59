"""◇ New groups, and groups that change their protocol while members live: `Conversions` handles both.

    no group ──first member──▶ a group of its protocol
    classic group ──first consumer heartbeat──▶ consumer group ──last consumer member leaves──▶ classic group
                                                  └─ members of both protocols: `classic_members`

A decision makes the new group, and gives it to `Conversions`.  The first replayed record of the group puts it in the place of the old one.
So the group keeps the timers and the soft state that the decision set.  If the log refuses the records, the new group is forgotten, and the
old one stays.  A classic group is not stored before its first rebalance has ended: until then only this module has it.

Partitions keep one owner throughout, because the consumer group assigns only partitions that no member holds.

Source: KIP-848, GroupMetadataManager (convertTo…Group, getOrMaybeCreate…Group).  Owned by `machine.GroupMachine`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar

from moldau.coordinator.group import consumer_member as members_of
from moldau.coordinator.group import records as stored
from moldau.coordinator.group.classic import ClassicGroup
from moldau.coordinator.group.classic_state import CONSUMER_PROTOCOL_TYPE
from moldau.coordinator.group.classic_state import Member as ClassicGroupMember
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.embedded import assignment_of, by_id, encoded_assignment, subscription_of
from moldau.coordinator.group.environment import Environment
from moldau.coordinator.group.kinds import Group
from moldau.coordinator.outcome import CoordinatorRecord, Outcome
from moldau.errors import ErrorCode
from moldau.protocol.wire import DecodeError

UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})

GroupT = TypeVar("GroupT", bound=Group)


class Conversions:
    """The groups of one machine that are in no record yet, by group id.  All of it is soft state."""

    def __init__(self, environment: Environment) -> None:
        self._environment: Final = environment
        self._coming: dict[str, Group] = {}

    # -- a new group ---------------------------------------------------------------------------------------------------------------

    def new(self, kind: type[GroupT], group_id: str) -> GroupT:
        """A new group without members."""
        if issubclass(kind, ConsumerGroup):
            return kind(group_id, self._environment, conversions=self)
        return kind(group_id, self._environment)

    def begin(self, group: Group, instead_of: Group | None = None) -> Outcome:
        """Let `group` take its place with its first record.  Part of the decision that makes the group.

        When the log refuses that, `instead_of` lives on.
        """
        group_id, before = group.group_id, self._coming.get(group.group_id)
        self._coming[group_id] = group

        def refused(code: ErrorCode, now_ms: int) -> Outcome:
            if self._coming.get(group_id) is not group:
                return Outcome()
            del self._coming[group_id]
            if before is not None:
                self._coming[group_id] = before
            outcome = group.fall_back(code, now_ms) if isinstance(group, ClassicGroup) else Outcome()
            if isinstance(instead_of, ClassicGroup):
                outcome += instead_of.fall_back(code, now_ms)
            elif instead_of is not None:
                outcome.timers += instead_of.on_loaded(now_ms)
            return outcome

        return Outcome(otherwise=[refused])

    def take(self, kind: type[GroupT], group_id: str) -> GroupT:
        """The group for a replayed record that belongs to no existing group."""
        coming = self._coming.get(group_id)
        if not isinstance(coming, kind):
            return self.new(kind, group_id)
        del self._coming[group_id]
        return coming

    def forming(self, group_id: str) -> ClassicGroup | None:
        """A classic group that lives, although it is in no record yet."""
        coming = self._coming.get(group_id)
        return coming if isinstance(coming, ClassicGroup) else None

    def all_forming(self) -> Iterable[ClassicGroup]:
        return [group for group in self._coming.values() if isinstance(group, ClassicGroup)]

    def forget(self, group_id: str) -> None:
        self._coming.pop(group_id, None)

    # -- a classic group becomes a consumer group -----------------------------------------------------------------------------

    def upgraded(self, group: ClassicGroup) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
        """The consumer group of the same members, which the first consumer member joins, and its records."""
        successor = self.new(ConsumerGroup, group.group_id)
        records = _upgraded_records(group)
        for record in records:
            successor.replay(record.key, record.value)
        return successor, records

    # -- a consumer group becomes a classic one -------------------------------------------------------------------------------

    def downgraded(
        self, group: ConsumerGroup, leaving: Collection[str], now_ms: int, *, joining: members_of.Member | None = None
    ) -> Outcome | None:
        """The group as one of the classic protocol; None if members of its own protocol remain, or the policy keeps it.

        The members, `joining` among them, rebalance at once among themselves.  Until then each member has the partitions that it holds, not
        its target.  The coordinator may fail over before the rebalance begins, and a member that asks then must not get a partition that
        another still reads.  The record names no leader: so after a fail-over, too, a rebalance follows.
        """
        staying = {member_id: member for member_id, member in group.members.items() if member_id not in leaving}
        if joining is not None:
            staying[joining.member_id] = joining
        if not _can_downgrade(group, staying):
            return None
        successor = self.new(ClassicGroup, group.group_id)
        record = successor.downgraded_from(
            group.epoch, [_classic_member(member) for member in staying.values()], _held(group, staying), now_ms
        )
        removals = [record for member_id in group.members for record in members_of.removal(group.group_id, member_id)]
        outcome = Outcome([*removals, *group.group_tombstones(), record])
        for member_id in group.members:
            outcome.timers += group.cancelled_timers(member_id)
        # The rebalance is a timer, too, because the group cannot rebalance before its record is replayed.
        outcome.timers += successor.on_loaded(now_ms)
        outcome += self.begin(successor, group)
        return outcome


def obstacle_to_upgrade(group: ClassicGroup) -> str | None:
    """The reason why the group stays a classic one: the policy, another protocol type, too many members, or what its members told each
    other.
    """
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
            # The messages of a custom assignor have no place in the other protocol.  librdkafka sends each member its own message.
            if told and told != said:
                return (
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before "
                    "re-attempting the upgrade."
                )
    except DecodeError:
        return "the embedded consumer protocol is malformed."
    return None


def _upgraded_records(group: ClassicGroup) -> list[CoordinatorRecord]:
    """The records that make the classic group a consumer group: each member keeps its assignment, with the generation as epoch."""
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
    return [
        *(members_of.metadata_record(group_id, member) for member in members),
        CoordinatorRecord(stored.ConsumerGroupMetadataKey(group_id=group_id), metadata),
        *(members_of.target_record(group_id, member.member_id, assigned[member.member_id]) for member in members),
        CoordinatorRecord(stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), target),
        *(members_of.current_record(group_id, member) for member in members),
    ]


def _can_downgrade(group: ConsumerGroup, staying: Mapping[str, members_of.Member]) -> bool:
    """Whether only classic members remain, at least one, and the policy lets the group go back."""
    config = group.environment.config
    is_allowed = config.consumer_migration_policy in DOWNGRADES and len(staying) <= config.max_size
    return is_allowed and bool(staying) and all(member.classic is not None for member in staying.values())


def _classic_member(member: members_of.Member) -> ClassicGroupMember:
    assert member.classic is not None
    return ClassicGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=dict(member.classic.protocols),
    )


def _held(group: ConsumerGroup, members: Mapping[str, members_of.Member]) -> dict[str, bytes]:
    """The partitions that each member holds, as a classic assignment."""
    held = {}
    for member_id, member in members.items():
        assert member.classic is not None
        held[member_id] = encoded_assignment(member.owned, group.environment.topics, member.classic.protocols[0][1])
    return held


def _chosen_metadata(group: ClassicGroup, member: ClassicGroupMember) -> bytes:
    return member.protocols.get(group.protocol_name or "") or next(iter(member.protocols.values()), b"")
