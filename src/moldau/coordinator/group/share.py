"""◇ One share group (KIP-932): members take records off the same partitions, each record goes to one of them.

    a topic is subscribed ─▶ its partitions' states begin at the share coordinator ─▶ group epoch + 1 ─▶ target ─▶ members

No partition has to be revoked before another member gets it, so a member takes its target with its next heartbeat.  Everything here is hard
state, changed by `replay`; only timers, and the start times of beginning states, are soft.

Source: ShareGroup, ShareGroupAssignmentBuilder, GroupMetadataManager.shareGroupHeartbeat.  Called by `machine.GroupMachine`.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Final
from uuid import UUID

from moldau.coordinator.group import records as stored
from moldau.coordinator.group import sessions
from moldau.coordinator.group.assignors import simple
from moldau.coordinator.group.assignors.model import Subscriber, TopicIdPartition
from moldau.coordinator.group.consumer_member import MemberState
from moldau.coordinator.group.environment import Client, Commit
from moldau.coordinator.group.heartbeat_group import HeartbeatGroup
from moldau.coordinator.group.membership import JOIN_EPOCH, LEAVE_EPOCH, Refused, by_topic, fenced, hash_of
from moldau.coordinator.group.share_topics import Partitions, StateTopics, TopicPartitions, read_record
from moldau.coordinator.hard_state import Soft
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, Reply, Timer, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages import initialize_share_group_state as initialize
from moldau.protocol.messages import share_group_describe as described
from moldau.protocol.messages import share_group_heartbeat as messages
from moldau.types import NO_OFFSET

ASSIGNOR: Final = "simple"
NO_PREVIOUS_EPOCH: Final = -1

Assigned = frozenset[TopicIdPartition]


class GroupState(Enum):
    """The states of a group, named as Kafka's tools print them."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(slots=True, frozen=True)
class BeginStates:
    """States that the share coordinator is to begin; `states_began` or `states_not_begun` gets the outcome."""

    request: initialize.InitializeShareGroupStateRequest


@dataclass(slots=True, frozen=True)
class Member:
    """A member.  The first fields are its metadata record, the others its current assignment record."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()

    epoch: int = JOIN_EPOCH
    previous_epoch: int = NO_PREVIOUS_EPOCH
    assigned: Assigned = frozenset()


@dataclass(slots=True)
class ShareGroup(HeartbeatGroup[Member, Assigned, messages.ShareGroupHeartbeatRequest]):
    """Errors of a heartbeat: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED."""

    states: StateTopics = field(default_factory=StateTopics)
    beginning_since_ms: Soft[dict[UUID, int]] = field(default_factory=dict)
    """The time when the share coordinator was last asked to begin a topic's states."""
    all_assigned_at: Soft[tuple[StateTopics, int, int] | None] = None
    """The states, target epoch and topics at which every partition with a state was last seen to be assigned."""

    group_type: ClassVar[str] = "share"
    protocol_type: ClassVar[str] = "share"
    leave_epochs: ClassVar[frozenset[int]] = frozenset({LEAVE_EPOCH})

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    # -- the heartbeat --------------------------------------------------------------------------------------------------------

    def _report(self, token: Token, request: messages.ShareGroupHeartbeatRequest, client: Client, now_ms: int) -> Outcome:
        outcome = Outcome()
        before = self._find_member(request)
        names = request.subscribed_topic_names
        member = replace(
            before,
            rack_id=request.rack_id if request.rack_id is not None else before.rack_id,
            client_id=client.client_id,
            client_host=client.client_host,
            topic_names=tuple(sorted(set(names))) if names is not None else before.topic_names,
        )
        members = {**self.members, member.member_id: member}
        if member != before or member.member_id not in self.members:
            outcome.records.append(self._metadata_record(member))
        epoch = self._next_group_epoch(members, outcome, is_changed=member.topic_names != before.topic_names)
        target, target_epoch = self._assign(epoch, members, outcome, now_ms)
        # A member behind its epoch missed its last answer: it gets that first, or two lost answers would remove it.
        is_behind = request.member_epoch not in (JOIN_EPOCH, before.epoch)
        own_target = target.get(member.member_id, frozenset())
        settled = member if is_behind else self._settled(member, own_target, target_epoch, is_new_epoch=epoch != self.epoch)
        if settled != member:
            outcome.records.append(self._current_record(settled))
        self._begin_missing_states(members, epoch, outcome, now_ms)
        outcome.timers += self.member_timers(member, now_ms)
        shows_assignment = is_behind or request.member_epoch == JOIN_EPOCH or names is not None or settled.assigned != before.assigned
        outcome.replies.append(Reply(token, self._answered(settled, shows_assignment=shows_assignment)))
        return outcome

    def _find_member(self, request: messages.ShareGroupHeartbeatRequest) -> Member:
        """The reporting member, new or known, checked against its epoch."""
        known, epoch = self.members.get(request.member_id), request.member_epoch
        if known is None:
            if epoch != JOIN_EPOCH:
                raise self.unknown_member(request.member_id)
            if len(self.members) >= self.environment.config.share_max_size:
                raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The share group has its {len(self.members)} members already.")
            return Member(request.member_id)
        # The answer with the newer epoch may have been lost: the epoch before is valid, too.
        if epoch not in (JOIN_EPOCH, known.epoch, known.previous_epoch):
            raise fenced("share", epoch, known.epoch)
        return known

    # -- group epoch and target assignment ------------------------------------------------------------------------------------

    def _next_group_epoch(self, members: Mapping[str, Member], outcome: Outcome, *, is_changed: bool) -> int:
        """The group epoch, raised by one if the members or their topics changed, or if states have begun that no member has yet."""
        if self.target_epoch >= self.epoch:
            is_changed = is_changed or self._has_unassigned_states()
        topics = self.environment.topics
        if not is_changed and self.topics_version == topics.version:
            return self.epoch
        metadata_hash = hash_of(topic for name in sorted(_topic_names(members)) if (topic := topics.by_name(name)) is not None)
        if metadata_hash == self.metadata_hash:
            self.topics_version = topics.version
            if not is_changed:
                return self.epoch
        outcome.records.append(self._epoch_record(self.epoch + 1, metadata_hash))
        return self.epoch + 1

    def _has_unassigned_states(self) -> bool:
        """Whether a topic that is read and still exists has unassigned states: a deletion may have been missed while the group had no
        coordinator.
        """
        looked_at = (self.states, self.target_epoch, self.environment.topics.version)
        if looked_at == self.all_assigned_at:
            return False  # every heartbeat calls this, and large groups have many partitions
        given = frozenset[TopicIdPartition]().union(*self.target.values())
        read = {topic.topic_id for name in _topic_names(self.members) if (topic := self.environment.topics.by_name(name)) is not None}
        if any(
            topic_id in read and topic.partitions != {partition for of_topic, partition in given if of_topic == topic_id}
            for topic_id, topic in self.states.initialized.items()
        ):
            return True
        self.all_assigned_at = looked_at
        return False

    def _assign(self, epoch: int, members: Mapping[str, Member], outcome: Outcome, now_ms: int) -> tuple[Mapping[str, Assigned], int]:
        """The target and its epoch: a new one if the group epoch is ahead of it, at most once per interval."""
        if not self.is_target_due(epoch, now_ms):
            return self.target, self.target_epoch
        target = self._compute(members)
        outcome.records += self._target_records(self.target, target, epoch, now_ms)
        return target, epoch

    def _assignment_interval_ms(self) -> int:
        of_all = self.environment.config.share_assignment_interval_ms
        return self.environment.of_group(self.group_id, "share.assignment.interval.ms", of_all)

    def _compute(self, members: Mapping[str, Member]) -> Mapping[str, Assigned]:
        topics = self.environment.topics
        subscribers = {
            member_id: Subscriber(
                topic_ids=frozenset(topic.topic_id for name in member.topic_names if (topic := topics.by_name(name)) is not None),
                owned=self.target.get(member_id, frozenset()),
                rack_id=member.rack_id,
            )
            for member_id, member in members.items()
        }
        begun = self.states.begun().items()
        return simple.assign(subscribers, {topic_id: _partitions_of(topic_id, partitions) for topic_id, partitions in begun})

    def _settled(self, member: Member, target: Assigned, target_epoch: int, *, is_new_epoch: bool) -> Member:
        """The member with its target, as far as it still subscribes to it."""
        if member.epoch == target_epoch and not is_new_epoch:
            return member
        topics = self.environment.topics
        ids = {topic.topic_id for name in member.topic_names if (topic := topics.by_name(name)) is not None}
        assigned = frozenset(partition for partition in target if partition.topic_id in ids)
        if member.epoch == target_epoch:
            return replace(member, assigned=assigned)
        return replace(member, epoch=target_epoch, previous_epoch=member.epoch, assigned=assigned)

    # -- states at the share coordinator --------------------------------------------------------------------------------------

    def _begin_missing_states(self, members: Mapping[str, Member], epoch: int, outcome: Outcome, now_ms: int) -> None:
        missing = self._missing_states(_topic_names(members), now_ms)
        if missing:
            outcome.records.append(self.states.beginning(missing).record(self.group_id))
            outcome.sends.append(
                self.begin_states({topic_id: dict.fromkeys(topic.partitions, NO_OFFSET) for topic_id, topic in missing.items()}, epoch)
            )
            self.beginning_since_ms.update(dict.fromkeys(missing, now_ms))

    def _missing_states(self, names: Iterable[str], now_ms: int) -> dict[UUID, TopicPartitions]:
        """The states of read topics that have neither begun nor are being begun since a short time."""
        missing = {}
        retry_ms = self.environment.config.share_initialize_retry_interval_ms
        for name in sorted(names):
            topic = self.environment.topics.by_name(name)
            if topic is None:
                continue
            begun = self.states.initialized.get(topic.topic_id)
            known = begun.partitions if begun is not None else frozenset[int]()
            beginning = self.states.initializing.get(topic.topic_id)
            elapsed_ms = now_ms - self.beginning_since_ms.get(topic.topic_id, now_ms - retry_ms)
            if beginning is not None and elapsed_ms < retry_ms:
                known |= beginning.partitions
            if len(known) < topic.partition_count:
                missing[topic.topic_id] = TopicPartitions(name, frozenset(range(topic.partition_count)) - known)
        return missing

    def begin_states(self, starts: Mapping[UUID, Mapping[int, int]], epoch: int) -> BeginStates:
        """Begin states.  `starts`: start offsets by topic and partition.

        The group epoch is the state epoch: leaders with an older one are fenced.
        """
        return BeginStates(
            initialize.InitializeShareGroupStateRequest(
                group_id=self.group_id,
                topics=[
                    initialize.InitializeStateData(
                        topic_id=topic_id,
                        partitions=[
                            initialize.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
                            for partition, start in sorted(offsets.items())
                        ],
                    )
                    for topic_id, offsets in starts.items()
                ],
            )
        )

    def states_began(self, done: Partitions) -> Outcome:
        return Outcome([self.states.began(done, self.environment.topics).record(self.group_id)])

    def states_not_begun(self, failed: Partitions) -> Outcome:
        for topic_id in failed:
            self.beginning_since_ms.pop(topic_id, None)
        return Outcome([self.states.not_begun(failed).record(self.group_id)] if self.states.initializing else [])

    def forget_topics(self, topic_ids: Collection[UUID]) -> list[CoordinatorRecord]:
        left = self.states.forgets(topic_ids)
        return [left.record(self.group_id)] if left != self.states else []

    # -- leaving --------------------------------------------------------------------------------------------------------------

    def _leave(self, token: Token, request: messages.ShareGroupHeartbeatRequest, now_ms: int) -> Outcome:
        if request.member_id not in self.members:
            raise self.unknown_member(request.member_id)
        outcome = self.fence(request.member_id, now_ms)
        outcome.replies.append(
            Reply(
                token,
                messages.ShareGroupHeartbeatResponse(
                    member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
                ),
            )
        )
        return outcome

    def _refusal(self, code: ErrorCode, message: str) -> messages.ShareGroupHeartbeatResponse:
        return refusal(code, message)

    def fence(self, member_id: str, now_ms: int) -> Outcome:
        if member_id not in self.members:
            return Outcome()
        remaining = {key: member for key, member in self.members.items() if key != member_id}
        topics = self.environment.topics
        metadata_hash = hash_of(topic for name in sorted(_topic_names(remaining)) if (topic := topics.by_name(name)) is not None)
        key = {"group_id": self.group_id, "member_id": member_id}
        records = [
            CoordinatorRecord(stored.ShareGroupCurrentMemberAssignmentKey(**key), None),
            CoordinatorRecord(stored.ShareGroupTargetAssignmentMemberKey(**key), None),
            CoordinatorRecord(stored.ShareGroupMemberMetadataKey(**key), None),
            self._epoch_record(self.epoch + 1, metadata_hash),
        ]
        return Outcome(records, timers=sessions.cancelled(self, member_id))

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that forget an empty group."""
        assert not self.members, "members are removed one by one"
        return [
            CoordinatorRecord(stored.ShareGroupTargetAssignmentMetadataKey(group_id=self.group_id), None),
            CoordinatorRecord(stored.ShareGroupStatePartitionMetadataKey(group_id=self.group_id), None),
            CoordinatorRecord(stored.ShareGroupMetadataKey(group_id=self.group_id), None),
        ]

    # -- offsets: a share group commits none ----------------------------------------------------------------------------------

    def validate_commit(self, commit: Commit) -> ErrorCode:
        """Errors: GROUP_ID_NOT_FOUND, always: no consumer group has this name."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscribed_topics(self) -> Set[str]:
        return _topic_names(self.members)

    # -- hard state -----------------------------------------------------------------------------------------------------------

    def replay(self, key: Any, value: Any) -> None:
        """Replay one of the records of a share group."""
        match key:
            case stored.ShareGroupMetadataKey():
                assert isinstance(value, stored.ShareGroupMetadataValue)
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case stored.ShareGroupMemberMetadataKey():
                self._replay_member(key.member_id, value)
            case stored.ShareGroupTargetAssignmentMetadataKey():
                self._replay_target_epoch(value)
            case stored.ShareGroupTargetAssignmentMemberKey():
                if isinstance(value, stored.ShareGroupTargetAssignmentMemberValue):
                    self.target[key.member_id] = _assigned(value.topic_partitions)
                else:
                    self.target.pop(key.member_id, None)
            case stored.ShareGroupCurrentMemberAssignmentKey():
                self._replay_current(key.member_id, value)
            case stored.ShareGroupStatePartitionMetadataKey():
                is_there = isinstance(value, stored.ShareGroupStatePartitionMetadataValue)
                self.states = read_record(value) if is_there else StateTopics()
            case _:
                raise AssertionError(f"{type(key).__name__} is not part of a share group")

    def _replay_member(self, member_id: str, value: object) -> None:
        if not isinstance(value, stored.ShareGroupMemberMetadataValue):
            self.members.pop(member_id, None)
            return
        self.members[member_id] = replace(
            self.members.get(member_id) or Member(member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(value.subscribed_topic_names),
        )

    def _replay_current(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        if isinstance(value, stored.ShareGroupCurrentMemberAssignmentValue):
            self.members[member_id] = replace(
                member or Member(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned=_assigned(value.assigned_partitions),
            )
        elif member is not None:
            self.members[member_id] = replace(member, epoch=JOIN_EPOCH, previous_epoch=NO_PREVIOUS_EPOCH, assigned=frozenset())

    def _epoch_record(self, epoch: int, metadata_hash: int) -> CoordinatorRecord:
        value = stored.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        return CoordinatorRecord(stored.ShareGroupMetadataKey(group_id=self.group_id), value)

    def _metadata_record(self, member: Member) -> CoordinatorRecord:
        value = stored.ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.topic_names),
        )
        return CoordinatorRecord(stored.ShareGroupMemberMetadataKey(group_id=self.group_id, member_id=member.member_id), value)

    def _target_epoch_record(self, epoch: int, now_ms: int) -> CoordinatorRecord:
        value = stored.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        return CoordinatorRecord(stored.ShareGroupTargetAssignmentMetadataKey(group_id=self.group_id), value)

    def _target_record(self, member_id: str, target: Assigned) -> CoordinatorRecord:
        topics = [stored.TopicPartition(topic_id=topic_id, partitions=indexes) for topic_id, indexes in by_topic(target).items()]
        key = stored.ShareGroupTargetAssignmentMemberKey(group_id=self.group_id, member_id=member_id)
        return CoordinatorRecord(key, stored.ShareGroupTargetAssignmentMemberValue(topic_partitions=topics))

    def _current_record(self, member: Member) -> CoordinatorRecord:
        value = stored.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=MemberState.STABLE,
            assigned_partitions=[
                stored.ShareGroupCurrentMemberAssignmentValueTopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic(member.assigned).items()
            ],
        )
        key = stored.ShareGroupCurrentMemberAssignmentKey(group_id=self.group_id, member_id=member.member_id)
        return CoordinatorRecord(key, value)

    # -- answers --------------------------------------------------------------------------------------------------------------

    def _answered(self, member: Member, *, shows_assignment: bool) -> messages.ShareGroupHeartbeatResponse:
        assignment = messages.Assignment(
            topic_partitions=[
                messages.TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic(member.assigned).items()
            ]
        )
        of_all = self.environment.config.share_heartbeat_interval_ms
        return messages.ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.environment.of_group(self.group_id, "share.heartbeat.interval.ms", of_all),
            assignment=assignment if shows_assignment else None,
        )

    def describe(self) -> described.DescribedGroup:
        return described.DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            assignor_name=ASSIGNOR,
            members=[self._described(member) for member in self.members.values()],
        )

    def _described(self, member: Member) -> described.Member:
        topics = []
        for topic_id, partitions in by_topic(member.assigned).items():
            topic = self.environment.topics.by_id(topic_id)
            if topic is not None:
                topics.append(described.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=partitions))
        return described.Member(
            member_id=member.member_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.topic_names),
            assignment=described.Assignment(topic_partitions=topics),
        )

    # -- timers ---------------------------------------------------------------------------------------------------------------

    def member_timers(self, member: Member, now_ms: int, *, is_told_anew: bool = False) -> list[Timer]:
        of_all = self.environment.config.share_session_timeout_ms
        due_ms = now_ms + self.environment.of_group(self.group_id, "share.session.timeout.ms", of_all)
        return [sessions.session_timer(self, member.member_id, due_ms)]


def refusal(code: ErrorCode, message: str | None) -> messages.ShareGroupHeartbeatResponse:
    return messages.ShareGroupHeartbeatResponse(error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0)


def _topic_names(members: Mapping[str, Member]) -> set[str]:
    # Most members subscribe alike, and every heartbeat calls this.
    return set[str]().union(*{member.topic_names for member in members.values()})


def _partitions_of(topic_id: UUID, partitions: Iterable[int]) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic_id, partition) for partition in sorted(partitions)]


def _assigned(
    topics: Iterable[stored.TopicPartition | stored.ShareGroupCurrentMemberAssignmentValueTopicPartitions],
) -> Assigned:
    return frozenset(TopicIdPartition(each.topic_id, partition) for each in topics for partition in each.partitions)
