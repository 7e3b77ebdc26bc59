"""◇ One group of the consumer protocol (KIP-848): members report, the coordinator assigns, each member moves at its own pace.

    group epoch ──▶ target assignment ──▶ each member's current assignment
    grows with every      computed once        revoke first, report, then take what
    change of members     an epoch             nobody else still holds
    or topics

A partition is given to a member only when no other holds it, so it has one owner in every epoch.  Everything here is hard state, changed by
`replay`; only timers are soft.  A decision works on values of its own and leaves the group alone.

Source: ConsumerGroup, CurrentAssignmentBuilder, TargetAssignmentBuilder; KIP-848, 881, 1251.  Called by `machine.GroupMachine`.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

from moldau.coordinator.group import consumer_member as members_of
from moldau.coordinator.group import records as stored
from moldau.coordinator.group import sessions
from moldau.coordinator.group.assignors import ASSIGNORS
from moldau.coordinator.group.assignors.model import Assignment, Subscriber, TopicIdPartition, TopicView
from moldau.coordinator.group.consumer_member import Member, MemberState, Subscription
from moldau.coordinator.group.environment import Client, Commit
from moldau.coordinator.group.heartbeat_group import HeartbeatGroup
from moldau.coordinator.group.membership import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    Refused,
    by_topic,
    commit_error,
    fenced,
    fetch_error,
    hash_of,
    in_unknown_state,
    next_step,
)
from moldau.coordinator.group.regex import RegexError, compile_regex
from moldau.coordinator.hard_state import Soft
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, Reply, Timer, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages import consumer_group_describe as described
from moldau.protocol.messages import consumer_group_heartbeat as messages
from moldau.types import TopicPartition

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


class GroupState(Enum):
    """The states of a group, named as Kafka's tools print them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Downgrades(Protocol):
    """The policy for a group that its last member of this protocol leaves."""

    def downgraded(self, group: "ConsumerGroup", leaving: Collection[str], now_ms: int, *, joining: Member | None = None) -> Outcome | None:
        """The group as one of the classic protocol, without the leaving members and with the joining one; None if it stays as it is."""
        ...


@dataclass(slots=True)
class ConsumerGroup(HeartbeatGroup[Member, frozenset[TopicIdPartition], messages.ConsumerGroupHeartbeatRequest]):
    """Errors of a heartbeat: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION.
    """

    conversions: Soft[Downgrades] = field(compare=False, kw_only=True)
    regexes: dict[str, frozenset[str]] = field(default_factory=dict)
    """For each regular expression of a member the topics that it matched when it was last evaluated."""
    holders: dict[TopicIdPartition, str] = field(default_factory=dict)
    """For each partition the member that has it, or is giving it up; derived from `members`."""
    matches: Soft[dict[str, frozenset[str]]] = field(default_factory=dict, compare=False)
    """For each regular expression its matches among the topics of `matches_version`."""
    matches_version: Soft[int] = field(default=-1, compare=False)
    hashed: Soft[tuple[int, Set[str], int] | None] = field(default=None, compare=False)
    """The version of the topics, names of some of them, and their hash."""
    told_to_rejoin: Soft[set[str]] = field(default_factory=set)
    """The classic members that have a deadline to join again."""

    group_type: ClassVar[str] = "consumer"
    protocol_type: ClassVar[str] = "consumer"

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        is_settled = all(each.is_settled_at(self.target_epoch) for each in self.members.values())
        return GroupState.STABLE if is_settled else GroupState.RECONCILING

    # -- the heartbeat --------------------------------------------------------------------------------------------------------

    def _report(self, token: Token, request: messages.ConsumerGroupHeartbeatRequest, client: Client, now_ms: int) -> Outcome:
        outcome = Outcome()
        owned = _reported(request)
        members, target = dict(self.members), dict(self.target)
        before = self._find_member(request, owned, members, target, outcome)
        is_behind = request.member_epoch != before.epoch
        member = self._updated(before, request, client)
        settled = self.advance(before, member, owned, members, target, outcome, now_ms, epoch=request.member_epoch)
        outcome.timers += self.member_timers(settled, now_ms, is_told_anew=is_behind)
        if is_behind:
            outcome.replies.append(Reply(token, self._answered(settled, settled.holds())))
            return outcome
        has_news = settled is not member and settled.owned.keys() != member.owned.keys()
        # A member that has to give partitions up is told in every answer until it has: otherwise it is removed, and an earlier answer may
        # be lost.
        has_to_give_up = settled.state is MemberState.UNREVOKED_PARTITIONS
        shows_assignment = request.member_epoch == JOIN_EPOCH or _is_full(request) or has_news or has_to_give_up
        outcome.replies.append(Reply(token, self._answered(settled, settled.owned if shows_assignment else None)))
        return outcome

    def advance(
        self,
        before: Member,
        member: Member,
        owned: frozenset[TopicIdPartition] | None,
        members: dict[str, Member],
        target: dict[str, frozenset[TopicIdPartition]],
        outcome: Outcome,
        now_ms: int,
        *,
        epoch: int,
    ) -> Member:
        """Take one member's step from `before` to `member`, and return it with group epoch, target, current assignment and their records.

        `owned`: the partitions that it reports; `epoch`: the member epoch in its report.
        """
        is_new = before.member_id not in members
        members[member.member_id] = member
        has_new_subscription = is_new or member.subscription() != before.subscription()
        # An expression without a match yet changes nothing for any member.
        is_news = has_new_subscription and any(self._names_of(each.subscription()) for each in (before, member))
        if is_new or member.metadata() != before.metadata():
            outcome.records.append(members_of.metadata_record(self.group_id, member))
        group_epoch = self._next_group_epoch(members, outcome, is_changed=is_news, now_ms=now_ms)
        target_epoch = self._assign(group_epoch, members, target, outcome, now_ms)

        def is_free(partition: TopicIdPartition) -> bool:
            holder = self.holders.get(partition)
            # A holder that is no member any more was succeeded by this member.
            return holder is None or holder == member.member_id or holder not in members

        def reconciled(reported: frozenset[TopicIdPartition] | None) -> Member:
            if member.is_settled_at(target_epoch) and not has_new_subscription:
                return member
            # A target of an older epoch may have topics that the member no longer reads.
            wanted = {topic.topic_id for name in self._names_of(member.subscription()) if (topic := self.environment.topics.by_name(name))}
            own_target = frozenset(each for each in target.get(member.member_id, ()) if each.topic_id in wanted)
            return members_of.reconcile(member, is_free, own_target, target_epoch, reported)

        settled = next_step(member, epoch, owned, reconciled)
        if settled != member or (is_new and settled.epoch == JOIN_EPOCH):
            outcome.records.append(members_of.current_record(self.group_id, settled))
        return settled

    def _find_member(
        self,
        request: messages.ConsumerGroupHeartbeatRequest,
        owned: frozenset[TopicIdPartition] | None,
        members: dict[str, Member],
        target: dict[str, frozenset[TopicIdPartition]],
        outcome: Outcome,
    ) -> Member:
        """The reporting member, new or known, checked against its epoch.  A returning static member takes its predecessor's place."""
        member_id = request.member_id
        known = self.members.get(member_id)
        if request.instance_id is not None:
            static = self.static_member(request.instance_id)
            if request.member_epoch == JOIN_EPOCH and static is not None and static.member_id != member_id:
                return self.succeed(static, member_id, members, target, outcome)
            if request.member_epoch != JOIN_EPOCH:
                if static is None:
                    raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance {request.instance_id} is not a member of the group.")
                if static.member_id != member_id:
                    raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"Instance {request.instance_id} is held by another member.")
        if known is None:
            if request.member_epoch != JOIN_EPOCH:
                raise self.unknown_member(member_id)
            if len(self.members) >= self.environment.config.consumer_max_size:
                raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has its {len(self.members)} members already.")
            return Member(member_id)
        _check_epoch(known, request.member_epoch, owned)
        if known.state is not MemberState.UNKNOWN:
            return known
        if request.member_epoch != JOIN_EPOCH:
            raise in_unknown_state("consumer", "partitions")
        return known.without_assignment()

    def succeed(
        self,
        static: Member,
        member_id: str,
        members: dict[str, Member],
        target: dict[str, frozenset[TopicIdPartition]],
        outcome: Outcome,
    ) -> Member:
        """Replace a static member.

        Classic members cannot announce a temporary leave, so they may be succeeded, and may succeed, at any time.
        """
        if static.epoch != LEAVE_STATIC_EPOCH and static.classic is None:
            raise Refused(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Instance {static.instance_id} is held by a member that has not left; wait for its session to end or let it leave.",
            )
        outcome.records += members_of.removal(self.group_id, static.member_id)
        outcome.timers += self.cancelled_timers(static.member_id)
        del members[static.member_id]
        if static.member_id in target:
            target[member_id] = target.pop(static.member_id)
            outcome.records.append(members_of.target_record(self.group_id, member_id, target[member_id]))
        successor = replace(static, member_id=member_id, epoch=JOIN_EPOCH)
        members[member_id] = successor
        # The records are written even if nothing else changes: the log does not know the new id.
        outcome.records += [members_of.metadata_record(self.group_id, successor), members_of.current_record(self.group_id, successor)]
        return successor

    def _updated(self, member: Member, request: messages.ConsumerGroupHeartbeatRequest, client: Client) -> Member:
        """The member after the heartbeat.  A field left out of it keeps its value."""
        regex = request.subscribed_topic_regex
        if regex:
            try:
                compile_regex(regex)
            except RegexError as error:
                raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex} is not a valid regular expression: {error}") from None
        assignor = request.server_assignor
        names = request.subscribed_topic_names
        return replace(
            member,
            instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
            rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
            client_id=client.client_id,
            client_host=client.client_host,
            topic_names=tuple(sorted(set(names))) if names is not None else member.topic_names,
            topic_regex=(regex or None) if regex is not None else member.topic_regex,
            rebalance_timeout_ms=request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else member.rebalance_timeout_ms,
            server_assignor=assignor if assignor is not None else member.server_assignor,
            classic=None,
        )

    # -- group epoch and target assignment ------------------------------------------------------------------------------------

    def _next_group_epoch(self, members: Mapping[str, Member], outcome: Outcome, *, is_changed: bool, now_ms: int) -> int:
        """The group epoch, raised by one if the members or the topics that they can read changed."""
        topics = self.environment.topics
        metadata_hash = self.metadata_hash
        if is_changed or self.topics_version != topics.version:
            resolved = self._resolved_regexes(members, now_ms)
            outcome.records += resolved
            metadata_hash = self._hash_of(self._topic_names(members))
            if not resolved and metadata_hash == self.metadata_hash:
                self.topics_version = topics.version
        if not is_changed and metadata_hash == self.metadata_hash:
            return self.epoch
        value = stored.ConsumerGroupMetadataValue(epoch=self.epoch + 1, metadata_hash=metadata_hash)
        outcome.records.append(CoordinatorRecord(stored.ConsumerGroupMetadataKey(group_id=self.group_id), value))
        return self.epoch + 1

    def _hash_of(self, names: Set[str]) -> int:
        """The hash of these topics.  Members come and go, and mostly the others still read the same."""
        topics = self.environment.topics
        if self.hashed is None or self.hashed[:2] != (topics.version, names):
            found = hash_of(topic for name in sorted(names) if (topic := topics.by_name(name)) is not None)
            self.hashed = (topics.version, names, found)
        return self.hashed[2]

    def _resolved_regexes(self, members: Mapping[str, Member], now_ms: int) -> list[CoordinatorRecord]:
        records = []
        used = sorted({each.topic_regex for each in members.values() if each.topic_regex})
        for regex in used:
            topics = self._matches(regex)
            if self.regexes.get(regex) != topics:
                key = stored.ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=regex)
                value = stored.ConsumerGroupRegularExpressionValue(
                    topics=sorted(topics), version=self.environment.topics.version, timestamp=now_ms
                )
                records.append(CoordinatorRecord(key, value))
        for regex in self.regexes:
            if regex not in used:
                key = stored.ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=regex)
                records.append(CoordinatorRecord(key, None))
        return records

    def _matches(self, regex: str) -> frozenset[str]:
        topics = self.environment.topics
        if self.matches_version != topics.version:
            self.matches.clear()
            self.matches_version = topics.version
        found = self.matches.get(regex)
        if found is None:
            try:
                matches = compile_regex(regex).fullmatch
            except RegexError:  # another release accepted the expression: it matches no topic, and the others of the group go on
                return frozenset()
            found = self.matches[regex] = frozenset(name for name in topics.names() if matches(name))
        return found

    def _topic_names(self, members: Mapping[str, Member]) -> set[str]:
        return set[str]().union(*(self._names_of(one) for one in {each.subscription() for each in members.values()}))

    def _names_of(self, subscription: Subscription) -> Collection[str]:
        names, regex = subscription
        return {*names, *self._matches(regex)} if regex else names

    def _assign(
        self,
        epoch: int,
        members: Mapping[str, Member],
        target: dict[str, frozenset[TopicIdPartition]],
        outcome: Outcome,
        now_ms: int,
    ) -> int:
        """Make a new target if the group epoch is ahead of it, at most once per interval."""
        if not self.is_target_due(epoch, now_ms):
            return self.target_epoch
        assignment = self._compute(members, target)
        outcome.records += self._target_records(target, assignment, epoch, now_ms)
        target.clear()
        target.update(assignment)
        return epoch

    def _target_record(self, member_id: str, target: frozenset[TopicIdPartition]) -> CoordinatorRecord:
        return members_of.target_record(self.group_id, member_id, target)

    def _target_epoch_record(self, epoch: int, now_ms: int) -> CoordinatorRecord:
        value = stored.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        return CoordinatorRecord(stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id), value)

    def _assignment_interval_ms(self) -> int:
        of_all = self.environment.config.consumer_assignment_interval_ms
        return self.environment.of_group(self.group_id, "consumer.assignment.interval.ms", of_all)

    def _compute(self, members: Mapping[str, Member], target: Mapping[str, frozenset[TopicIdPartition]]) -> Assignment:
        topics: dict[UUID, TopicView] = {}
        subscribers = {}
        wanted_by: dict[Subscription, frozenset[UUID]] = {}
        for member_id, member in members.items():
            subscription = member.subscription()
            if subscription not in wanted_by:  # most members subscribe alike
                names = sorted(self._names_of(subscription))
                wanted = [topic for name in names if (topic := self.environment.topics.by_name(name)) is not None]
                topics.update((topic.topic_id, topic) for topic in wanted)
                wanted_by[subscription] = frozenset(topic.topic_id for topic in wanted)
            subscribers[member_id] = Subscriber(
                topic_ids=wanted_by[subscription],
                owned=target.get(member_id, frozenset()),
                instance_id=member.instance_id,
                rack_id=member.rack_id,
            )
        return ASSIGNORS[self._assignor_of(members)](subscribers, topics)

    def _assignor_of(self, members: Mapping[str, Member]) -> str:
        """The assignor that most members ask for; the broker's first if none asks.  A log from elsewhere may name an unknown one."""
        votes: dict[str, int] = {}
        for member in members.values():
            if member.server_assignor is not None and member.server_assignor in ASSIGNORS:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        default = self.environment.config.consumer_assignors[0]
        return max(sorted(votes), key=lambda name: votes[name]) if votes else default

    # -- leaving --------------------------------------------------------------------------------------------------------------

    def _leave(self, token: Token, request: messages.ConsumerGroupHeartbeatRequest, now_ms: int) -> Outcome:
        member = self._leaving_member(request)
        reply = messages.ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            # The member will be back: its partitions wait for it as long as its session lasts.
            away = replace(member, epoch=LEAVE_STATIC_EPOCH, pending_revocation={})
            outcome = Outcome([members_of.current_record(self.group_id, away)])
        else:
            outcome = self.fence(member.member_id, now_ms)
        outcome.replies.append(Reply(token, reply))
        return outcome

    def _leaving_member(self, request: messages.ConsumerGroupHeartbeatRequest) -> Member:
        if request.instance_id is None:
            member = self.members.get(request.member_id)
            if member is None:
                raise self.unknown_member(request.member_id)
            return member
        static = self.static_member(request.instance_id)
        if static is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance {request.instance_id} is not a member of the group.")
        if static.member_id != request.member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"Instance {request.instance_id} is held by another member.")
        return static

    def _refusal(self, code: ErrorCode, message: str) -> messages.ConsumerGroupHeartbeatResponse:
        return messages.ConsumerGroupHeartbeatResponse(
            error_code=code, error_message=message, member_id=None, member_epoch=0, heartbeat_interval_ms=0
        )

    def fence(self, member_id: str, now_ms: int) -> Outcome:
        return self.fence_all([member_id], now_ms) if member_id in self.members else Outcome()

    def fence_all(self, leaving: Collection[str], now_ms: int) -> Outcome:
        downgraded = None
        if any(self.members[each].classic is None for each in leaving):
            downgraded = self.conversions.downgraded(self, leaving, now_ms)
        return downgraded if downgraded is not None else self.remove(leaving, now_ms)

    def remove(self, member_ids: Iterable[str], now_ms: int) -> Outcome:
        outcome, remaining = Outcome(), dict(self.members)
        for member_id in member_ids:
            del remaining[member_id]
            self.told_to_rejoin.discard(member_id)
            outcome.records += members_of.removal(self.group_id, member_id)
            outcome.timers += self.cancelled_timers(member_id)
        self._next_group_epoch(remaining, outcome, is_changed=True, now_ms=now_ms)
        return outcome

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that forget an empty group."""
        assert not self.members, "members are removed one by one"
        return self.group_tombstones()

    def group_tombstones(self) -> list[CoordinatorRecord]:
        """The records that forget the group, once its members are forgotten."""
        return [
            *(
                CoordinatorRecord(stored.ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=regex), None)
                for regex in self.regexes
            ),
            CoordinatorRecord(stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id), None),
            CoordinatorRecord(stored.ConsumerGroupMetadataKey(group_id=self.group_id), None),
        ]

    # -- offsets --------------------------------------------------------------------------------------------------------------

    def validate_commit(self, commit: Commit) -> ErrorCode:
        """Check whether a commit is allowed.  Errors: those of `commit_error`."""
        return commit_error(commit, self.members, self._given_at, is_classic=lambda member: member.classic is not None)

    def _given_at(self, member: Member, partition: TopicPartition) -> int | None:
        topic = self.environment.topics.by_name(partition.topic)
        if topic is None:
            return None
        found = TopicIdPartition(topic.topic_id, partition.partition)
        return member.owned.get(found, member.pending_revocation.get(found))

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check whether a fetch is allowed.  Errors: those of `fetch_error`."""
        return fetch_error(self.members, member_id, member_epoch)

    def subscribed_topics(self) -> Set[str]:
        return self._topic_names(self.members)

    # -- hard state -----------------------------------------------------------------------------------------------------------

    def replay(self, key: Any, value: Any) -> None:
        """Replay one of the records of a consumer group."""
        match key:
            case stored.ConsumerGroupMetadataKey():
                assert isinstance(value, stored.ConsumerGroupMetadataValue)
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case stored.ConsumerGroupMemberMetadataKey():
                self._replay_member(key.member_id, value)
            case stored.ConsumerGroupTargetAssignmentMetadataKey():
                self._replay_target_epoch(value)
            case stored.ConsumerGroupTargetAssignmentMemberKey():
                if isinstance(value, stored.ConsumerGroupTargetAssignmentMemberValue):
                    self.target[key.member_id] = frozenset(members_of.partitions_of(value.topic_partitions))
                else:
                    self.target.pop(key.member_id, None)
            case stored.ConsumerGroupCurrentMemberAssignmentKey():
                self._replay_current(key.member_id, value)
            case stored.ConsumerGroupRegularExpressionKey():
                if isinstance(value, stored.ConsumerGroupRegularExpressionValue):
                    self.regexes[key.regular_expression] = frozenset(value.topics)
                else:
                    self.regexes.pop(key.regular_expression, None)
            case _:
                raise AssertionError(f"{type(key).__name__} is not part of a consumer group")

    def _replay_member(self, member_id: str, value: object) -> None:
        if isinstance(value, stored.ConsumerGroupMemberMetadataValue):
            self.members[member_id] = (self.members.get(member_id) or Member(member_id)).with_metadata(value)
        else:
            self._forget_holds(self.members.pop(member_id, None))

    def _replay_current(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        self._forget_holds(member)
        if isinstance(value, stored.ConsumerGroupCurrentMemberAssignmentValue):
            self.members[member_id] = now = (member or Member(member_id)).with_assignment(value)
            self.holders.update(dict.fromkeys(now.holds(), member_id))
        elif member is not None:
            self.members[member_id] = member.without_assignment()

    def _forget_holds(self, member: Member | None) -> None:
        if member is None:
            return
        for partition in member.holds():
            if self.holders.get(partition) == member.member_id:  # a successor may have the instance by now
                del self.holders[partition]

    # -- answers --------------------------------------------------------------------------------------------------------------

    def _answered(self, member: Member, given: Iterable[TopicIdPartition] | None) -> messages.ConsumerGroupHeartbeatResponse:
        """The answer to a member.  `given`: the assignment to tell; None tells none."""
        topics = [messages.TopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in by_topic(given or ()).items()]
        return messages.ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._heartbeat_interval_ms(),
            assignment=messages.Assignment(topic_partitions=topics) if given is not None else None,
        )

    def describe(self) -> described.DescribedGroup:
        return described.DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            assignor_name=self._assignor_of(self.members),
            members=[self._described(member) for member in self.members.values()],
        )

    def _described(self, member: Member) -> described.Member:
        return described.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.topic_names),
            subscribed_topic_regex=member.topic_regex or "",
            assignment=self._described_partitions(member.holds()),
            target_assignment=self._described_partitions(self.target.get(member.member_id, frozenset())),
            member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
        )

    def _described_partitions(self, partitions: Iterable[TopicIdPartition]) -> described.Assignment:
        topics = []
        for topic_id, indexes in by_topic(partitions).items():
            topic = self.environment.topics.by_id(topic_id)
            if topic is not None:
                topics.append(described.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=indexes))
        return described.Assignment(topic_partitions=topics)

    # -- timers ---------------------------------------------------------------------------------------------------------------

    def member_timers(self, member: Member, now_ms: int, *, is_told_anew: bool = False) -> list[Timer]:
        """The member's timers.

        `is_told_anew`: a member that has to give partitions up has its whole rebalance timeout for that, from now on.
        """
        session_ms = member.classic.session_timeout_ms if member.classic else self._session_timeout_ms()
        due_ms = now_ms + member.rebalance_timeout_ms
        return [
            sessions.session_timer(self, member.member_id, now_ms + session_ms),
            *sessions.revoking_timers(self, member, due_ms, is_told_anew=is_told_anew),
        ]

    def _session_timeout_ms(self) -> int:
        of_all = self.environment.config.consumer_session_timeout_ms
        return self.environment.of_group(self.group_id, "consumer.session.timeout.ms", of_all)

    def _heartbeat_interval_ms(self) -> int:
        of_all = self.environment.config.consumer_heartbeat_interval_ms
        return self.environment.of_group(self.group_id, "consumer.heartbeat.interval.ms", of_all)

    def cancelled_timers(self, member_id: str) -> list[Timer]:
        return [
            *sessions.cancelled(self, member_id),
            Timer(sessions.rejoin_key(self.group_id, member_id)),
            Timer(sessions.resync_key(self.group_id, member_id)),
        ]

    def static_member(self, instance_id: str) -> Member | None:
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)


def _check_epoch(member: Member, epoch: int, reported: frozenset[TopicIdPartition] | None) -> None:
    if epoch in (member.epoch, JOIN_EPOCH):
        return
    # The answer with the newer epoch may have been lost: then the member still reports its former partitions, and none that it was not
    # given.
    is_lost_answer = epoch == member.previous_epoch and reported is not None and reported <= member.owned.keys()
    if not is_lost_answer:
        raise fenced("consumer", epoch, member.epoch)


def _reported(request: messages.ConsumerGroupHeartbeatRequest) -> frozenset[TopicIdPartition] | None:
    if request.topic_partitions is None:
        return None
    return frozenset(TopicIdPartition(each.topic_id, partition) for each in request.topic_partitions for partition in each.partitions)


def _is_full(request: messages.ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a heartbeat has all its fields, and so wants all fields in its answer: the client may have lost its state."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return has_subscription and request.topic_partitions is not None and request.rebalance_timeout_ms != -1
