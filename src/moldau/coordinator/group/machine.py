"""◇ Every group of one partition of `__consumer_offsets`, with their offsets: the machine that `runtime.Shard` runs.

The machine finds the group of a request, makes the checks that all protocols share, and lets the group decide.

Source: GroupCoordinatorShard.  Called by `server/coordinators/coordinators.py`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final
from uuid import UUID

from moldau.coordinator.group import classic_members, offset_requests, share, share_offsets
from moldau.coordinator.group.classic import ClassicGroup, refuse_join, refuse_sync
from moldau.coordinator.group.classic_description import dead_group, described
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.conversion import Conversions, obstacle_to_upgrade
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.kinds import GROUP_KEYS, KIND_OF, Group, HeartbeatGroup
from moldau.coordinator.group.membership import JOIN_EPOCH
from moldau.coordinator.group.offset_expiry import expired_offsets
from moldau.coordinator.group.offsets import Offsets, tombstone
from moldau.coordinator.group.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
)
from moldau.coordinator.group.share import ShareGroup
from moldau.coordinator.group.share_topics import Partitions
from moldau.coordinator.group.streams.answers import refusal as streams_refusal
from moldau.coordinator.group.streams.group import HeartbeatResult, StreamsGroup
from moldau.coordinator.group.written_today import as_written_today
from moldau.coordinator.hard_state import Soft
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, ProducerIdAndEpoch, Timer, Token, answer
from moldau.errors import ErrorCode
from moldau.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.delete_groups import DeletableGroupResult
from moldau.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from moldau.types import TopicPartition

EXPIRED_AT_ONCE: Final = 1_000
EXPIRY_PAUSE_MS: Final = 100
"""The pause between two runs of expiry: others are served."""
EXPIRY_KEY: Final = "expire-offsets"
NOT_FOUND_SINCE: Final = 6
"""The first DescribeGroups version that answers GROUP_ID_NOT_FOUND for an unknown group."""

NotDescribed = Callable[[str, ErrorCode, str | None], object]
"""A function of (group id, code, message) that makes the part of an answer with the reason of a refusal."""


class GroupMachine:
    """Hard state: `groups` and `offsets`.  A classic group whose first rebalance has not ended is in `_conversions`."""

    _conversions: Soft[Conversions]

    def __init__(self, environment: Environment) -> None:
        self.environment: Final = environment
        self.groups: dict[str, Group] = {}
        self.offsets: Final = Offsets()
        self._conversions = Conversions(environment)
        self._only_offsets: Final = ClassicGroup("", environment)
        """A stand-in for every group that has nothing but offsets: a classic group without members."""

    # -- the machine ----------------------------------------------------------------------------------------------------------

    def replay(self, offset: int, record: CoordinatorRecord, producer: ProducerIdAndEpoch | None) -> None:
        key, value = record
        if isinstance(key, OffsetCommitKey):
            self.offsets.replay(offset, key, value, producer.producer_id if producer is not None else None)
        elif isinstance(key, GroupMetadataKey):
            self._replay_classic(key.group, value)
        elif type(key) in KIND_OF:
            self._replay_of(KIND_OF[type(key)], key, value)
        elif isinstance(key, LegacyOffsetCommitKey):
            self.replay(offset, as_written_today(key, value), producer)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            self.groups.pop(group_id, None)
            return
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = self._conversions.take(ClassicGroup, group_id)
        group.replay(value)

    def _replay_of(self, kind: type[HeartbeatGroup], key: Any, value: object) -> None:
        group = self.groups.get(key.group_id)
        if isinstance(key, GROUP_KEYS) and value is None:
            if isinstance(group, kind):
                del self.groups[key.group_id]
            return
        if not isinstance(group, kind):
            if value is None:
                return
            group = self.groups[key.group_id] = self._conversions.take(kind, key.group_id)
        group.replay(key, value)

    def replay_end_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        self.offsets.replay_end_marker(producer.producer_id, is_commit=is_commit)

    def on_loaded(self, now_ms: int) -> Outcome:
        timers = [timer for group in self.groups.values() for timer in group.on_loaded(now_ms)]
        return Outcome(timers=[*timers, self._expiry_timer(now_ms)])

    def on_unloaded(self) -> list[Token]:
        return [token for group in self._all_groups().values() if isinstance(group, ClassicGroup) for token in group.waiting()]

    # -- membership -----------------------------------------------------------------------------------------------------------

    def join(self, token: Token, request: JoinGroupRequest, client: Client, now_ms: int) -> Outcome:
        """A member joins.  Errors: as `ClassicGroup.join`, or `classic_members.join` for a living group of the consumer protocol."""
        group = self.group(request.group_id)
        outcome = Outcome()
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return classic_members.join(group, token, request, client, now_ms)
        if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and not group.is_empty):
            return refuse_join(token, "", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            outcome.records += group.tombstones()
            group = None
        if group is None and request.member_id and not isinstance(self.group(request.group_id), ConsumerGroup | StreamsGroup):
            return refuse_join(token, request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if group is None:
            before, group = self.group(request.group_id), self._conversions.new(ClassicGroup, request.group_id)
            if not request.member_id:
                outcome += self._conversions.begin(group, before)
        outcome += group.join(token, request, client, now_ms)
        return outcome

    def sync(self, token: Token, request: SyncGroupRequest, now_ms: int) -> Outcome:
        group = self.group(request.group_id)
        if isinstance(group, ConsumerGroup):
            return classic_members.sync(group, token, request, now_ms)
        if not isinstance(group, ClassicGroup):
            return refuse_sync(token, ErrorCode.UNKNOWN_MEMBER_ID)
        return group.sync(token, request, now_ms)

    def heartbeat(self, token: Token, request: HeartbeatRequest, now_ms: int) -> Outcome:
        group = self.group(request.group_id)
        if isinstance(group, ConsumerGroup):
            return classic_members.heartbeat(group, token, request, now_ms)
        if not isinstance(group, ClassicGroup):
            return answer(token, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return group.heartbeat(token, request, now_ms)

    def leave(self, token: Token, request: LeaveGroupRequest, now_ms: int) -> Outcome:
        """Members leave.  `request.members` is filled in for versions that name one member outside the list."""
        group = self.group(request.group_id)
        if isinstance(group, ConsumerGroup):
            return classic_members.leave(group, token, request, now_ms)
        if not isinstance(group, ClassicGroup):
            unknown = [
                MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
                for each in request.members
            ]
            return answer(token, LeaveGroupResponse(members=unknown))
        return group.leave(token, request, now_ms)

    def consumer_heartbeat(self, token: Token, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int) -> Outcome:
        """A consumer's heartbeat.  Errors: as `ConsumerGroup.heartbeat`; UNSUPPORTED_ASSIGNOR, GROUP_ID_NOT_FOUND."""
        assignor, assignors = request.server_assignor, self.environment.config.consumer_assignors
        if assignor is not None and assignor not in assignors:
            message = f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(assignors)}."
            return answer(token, request.refused(ErrorCode.UNSUPPORTED_ASSIGNOR, message))
        group = self.group(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group.heartbeat(token, request, client, now_ms)
        if isinstance(group, ShareGroup | StreamsGroup):
            message = f"Group {request.group_id} is not a consumer group."
            return answer(token, request.refused(ErrorCode.GROUP_ID_NOT_FOUND, message))
        if request.member_epoch != JOIN_EPOCH:
            message = f"Group {request.group_id} {'not found' if group is None else 'is not a consumer group'}."
            return answer(token, request.refused(ErrorCode.GROUP_ID_NOT_FOUND, message))
        is_upgrade = group is not None and not group.is_empty
        obstacle = obstacle_to_upgrade(group) if group is not None and is_upgrade else None
        if obstacle is not None:
            message = f"Cannot upgrade classic group {request.group_id} to consumer group because {obstacle}"
            return answer(token, request.refused(ErrorCode.GROUP_ID_NOT_FOUND, message))
        if group is not None and is_upgrade:
            successor, records = self._conversions.upgraded(group)
        else:
            successor, records = self._conversions.new(ConsumerGroup, request.group_id), []
        return self._first_heartbeat(group, successor, records, successor.heartbeat(token, request, client, now_ms), now_ms)

    # -- streams groups -------------------------------------------------------------------------------------------------------

    def streams_heartbeat(self, token: Token, request: StreamsGroupHeartbeatRequest, client: Client, now_ms: int) -> Outcome:
        """A streams member's heartbeat; the reply is a `HeartbeatResult`.

        Errors: as `StreamsGroup.heartbeat`; GROUP_ID_NOT_FOUND, of a group of another protocol too.
        """
        group = self.group(request.group_id)
        if isinstance(group, StreamsGroup):
            return group.heartbeat(token, request, client, now_ms)
        before = group if isinstance(group, ClassicGroup) and group.is_empty else None
        if group is not before or request.member_epoch != JOIN_EPOCH:
            what = "is not a streams group" if group is not None else "not found"
            return answer(token, HeartbeatResult(streams_refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")))
        successor = self._conversions.new(StreamsGroup, request.group_id)
        return self._first_heartbeat(before, successor, [], successor.heartbeat(token, request, client, now_ms), now_ms)

    def _first_heartbeat(
        self,
        before: ClassicGroup | None,
        successor: HeartbeatGroup,
        conversion: list[CoordinatorRecord],
        decided: Outcome,
        now_ms: int,
    ) -> Outcome:
        """Begin a group of a protocol with heartbeats, in place of `before`.  `decided`: the outcome of its first member's heartbeat.

        `conversion`: the records that take the former group's members over.
        """
        if not decided.records:
            return decided  # the heartbeat was refused: the group has no member
        outcome = self._conversions.begin(successor, before)
        if isinstance(before, ClassicGroup):
            outcome.records += before.tombstones()
            outcome.records += conversion
            outcome += before.dissolved()
            outcome.timers += successor.on_loaded(now_ms)
        outcome += decided
        return outcome

    # -- share groups ---------------------------------------------------------------------------------------------------------

    def share_heartbeat(self, token: Token, request: ShareGroupHeartbeatRequest, client: Client, now_ms: int) -> Outcome:
        """A share member's heartbeat.  Errors: as `ShareGroup.heartbeat`; GROUP_ID_NOT_FOUND, of a group of another protocol too."""
        group = self.group(request.group_id)
        if isinstance(group, ShareGroup):
            return group.heartbeat(token, request, client, now_ms)
        if self._is_known(request.group_id) or request.member_epoch != JOIN_EPOCH:
            what = "is not a share group" if self._is_known(request.group_id) else "not found"
            return answer(token, share.refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}."))
        successor = self._conversions.new(ShareGroup, request.group_id)
        return self._first_heartbeat(None, successor, [], successor.heartbeat(token, request, client, now_ms), now_ms)

    def share_states_began(self, group_id: str, done: Partitions) -> Outcome:
        """Note that the share coordinator has begun the states that a heartbeat or an administrator asked for."""
        group = self.group(group_id)
        return group.states_began(done) if isinstance(group, ShareGroup) and done else Outcome()

    def share_states_not_begun(self, group_id: str, failed: Partitions) -> Outcome:
        group = self.group(group_id)
        return group.states_not_begun(failed) if isinstance(group, ShareGroup) and failed else Outcome()

    def share_partitions(self, token: Token, group_id: str) -> Outcome:
        """Reply with the partitions whose states have begun, by topic."""
        group = self.group(group_id)
        return answer(token, group.states.begun() if isinstance(group, ShareGroup) else {})

    def alter_share_offsets(self, token: Token, request: AlterShareGroupOffsetsRequest, now_ms: int) -> Outcome:
        """Set a share group's offsets; makes the group if there is none.  The reply is `share_offsets.Altered`.

        Errors: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND (of another protocol).
        """
        group = self.group(request.group_id)
        if not isinstance(group, ShareGroup) and self._is_known(request.group_id):
            code, message = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group."
            refused = AlterShareGroupOffsetsResponse(error_code=code, error_message=message, responses=[])
            return answer(token, share_offsets.Altered(refused, None))
        share_group = group if isinstance(group, ShareGroup) else self._conversions.new(ShareGroup, request.group_id)
        return share_offsets.alter_offsets(token, share_group, request, now_ms)

    def delete_share_offsets(self, token: Token, request: DeleteShareGroupOffsetsRequest) -> Outcome:
        """Delete a share group's offsets of topics.  The reply is `share_offsets.Deletion`.

        Errors: as `share_offsets.delete_offsets`; GROUP_ID_NOT_FOUND.
        """
        group = self.group(request.group_id)
        if not isinstance(group, ShareGroup):
            what = "is not a share group" if self._is_known(request.group_id) else "not found"
            return answer(token, share_offsets.refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}."))
        return share_offsets.delete_offsets(token, group, request)

    def share_offsets_deleted(self, token: Token, group_id: str, topic_ids: list[UUID]) -> Outcome:
        group = self.group(group_id)
        return share_offsets.offsets_deleted(token, group if isinstance(group, ShareGroup) else None, topic_ids)

    def prepare_share_deletion(self, token: Token, group_id: str) -> Outcome:
        """Reply with `share_offsets.Deletion` of all states of a share group; for other groups it is empty."""
        group = self.group(group_id)
        if not isinstance(group, ShareGroup):
            return answer(token, share_offsets.Deletion([], None))
        return share_offsets.prepare_deletion(token, group)

    def forget_topics(self, topic_ids: Collection[UUID]) -> Outcome:
        """Forget the states of deleted topics in share groups."""
        groups = [group for group in self.groups.values() if isinstance(group, ShareGroup)]
        return Outcome([record for group in groups for record in group.forget_topics(topic_ids)], is_atomic=False)

    # -- offsets --------------------------------------------------------------------------------------------------------------

    def commit_offsets(self, token: Token, request: OffsetCommitRequest, client: Client, now_ms: int) -> Outcome:
        """Commit offsets.  Errors: as `offset_requests.commit`."""
        return offset_requests.commit(token, self._commits_into(request.group_id), request, client, self._longest_metadata, now_ms)

    def commit_offsets_in_transaction(self, token: Token, request: TxnOffsetCommitRequest, client: Client, now_ms: int) -> Outcome:
        """Commit offsets in a transaction.  Errors: as `offset_requests.commit_in_transaction`."""
        group = self._commits_into(request.group_id)
        return offset_requests.commit_in_transaction(token, group, request, client, self._longest_metadata, now_ms)

    def fetch_offsets(self, token: Token, request: OffsetFetchRequestGroup, *, is_stable_required: bool) -> Outcome:
        """One group's part of an OffsetFetch.  Errors: as `offset_requests.fetch`."""
        group = self.group(request.group_id)
        return offset_requests.fetch(token, group, self.offsets, self.environment.topics, request, is_stable_required=is_stable_required)

    def delete_offsets(self, token: Token, request: OffsetDeleteRequest) -> Outcome:
        """Delete offsets.  Errors: as `offset_requests.delete`; GROUP_ID_NOT_FOUND."""
        if not self._is_known(request.group_id):
            return answer(token, OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=[]))
        return offset_requests.delete(token, self.group(request.group_id), self.offsets, request)

    def forget_topic_partitions(self, partitions: Iterable[TopicPartition]) -> Outcome:
        """Forget the offsets of deleted partitions."""
        gone = frozenset(partitions)
        group_ids = dict.fromkeys(self.offsets.groups())
        return Outcome([record for group_id in group_ids for record in self.offsets.tombstones(group_id, gone)], is_atomic=False)

    # -- administration -------------------------------------------------------------------------------------------------------

    def describe(self, token: Token, group_id: str, client: Client) -> Outcome:
        """One group's part of a DescribeGroups.  An unknown group is Dead, or from version 6 on GROUP_ID_NOT_FOUND."""
        group = self.group(group_id)
        if isinstance(group, ConsumerGroup | ShareGroup | StreamsGroup) or not self._is_known(group_id):
            what = "is not a classic group" if group is not None else "not found"
            is_error = client.api_version >= NOT_FOUND_SINCE
            return answer(token, dead_group(group_id, f"Group {group_id} {what}.", is_error=is_error))
        return answer(token, described(group or self._conversions.new(ClassicGroup, group_id)))

    def describe_of(self, token: Token, group_id: str, kind: type[HeartbeatGroup], not_described: NotDescribed) -> Outcome:
        """One group's part of a ConsumerGroupDescribe, or of the similar request for another `kind`.

        Errors: GROUP_ID_NOT_FOUND, of a group of another protocol too.
        """
        group = self.group(group_id)
        if isinstance(group, kind):
            return answer(token, group.describe())
        what = f"is not a {kind.group_type} group" if self._is_known(group_id) else "not found"
        return answer(token, not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}."))

    def list_groups(self, token: Token) -> Outcome:
        """Reply with a list of `ListedGroup`, not filtered."""
        groups = self._all_groups()
        listed = []
        for group_id in dict.fromkeys([*groups, *self.offsets.groups()]):
            group = groups.get(group_id, self._only_offsets)
            listed.append(
                ListedGroup(
                    group_id=group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=group.group_type,
                )
            )
        return answer(token, listed)

    def delete_group(self, token: Token, group_id: str) -> Outcome:
        """One group's part of a DeleteGroups.  Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        group = self.group(group_id)
        if not self._is_known(group_id):
            return answer(token, DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        if group is not None and not group.is_empty:
            return answer(token, DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NON_EMPTY_GROUP))
        outcome = answer(token, DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE))
        outcome.is_atomic = False
        outcome.records += self.offsets.tombstones(group_id)
        outcome += self._forgotten(group_id, group)
        return outcome

    # -- expiry ---------------------------------------------------------------------------------------------------------------

    def expire_offsets(self, now_ms: int) -> Outcome:
        """Forget offsets past their time, and groups that have nothing left (KIP-211); in several runs if there are many."""
        outcome = Outcome(is_atomic=False)
        retention_ms = self.environment.config.offsets_retention_minutes * 60_000
        groups = self._all_groups()
        for group_id in dict.fromkeys([*groups, *self.offsets.groups()]):
            group = groups.get(group_id)
            committed = self.offsets.committed(group_id)
            past = expired_offsets(self.offsets, group_id, group, retention_ms=retention_ms, now_ms=now_ms)
            going = past[: EXPIRED_AT_ONCE - len(outcome.records)]
            outcome.records += [tombstone(group_id, partition) for partition in going]
            is_left_with_nothing = len(going) == len(committed) and not self.offsets.has_pending(group_id)
            is_kept = isinstance(group, ShareGroup)  # its offsets are elsewhere: only an administrator deletes it
            if is_left_with_nothing and (group is None or group.is_empty) and not is_kept:
                outcome += self._forgotten(group_id, group)
            if len(outcome.records) >= EXPIRED_AT_ONCE:
                outcome.timers.append(Timer(EXPIRY_KEY, now_ms + EXPIRY_PAUSE_MS, self.expire_offsets))
                return outcome
        outcome.timers.append(self._expiry_timer(now_ms))
        return outcome

    def _expiry_timer(self, now_ms: int) -> Timer:
        return Timer(EXPIRY_KEY, now_ms + self.environment.config.offsets_retention_check_interval_ms, self.expire_offsets)

    # -- what several decisions ask -------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group | None:
        """The group as its clients see it, whether a record has it yet or not."""
        return self._conversions.forming(group_id) or self.groups.get(group_id)

    def _all_groups(self) -> dict[str, Group]:
        return self.groups | {group.group_id: group for group in self._conversions.all_forming()}

    def _forgotten(self, group_id: str, group: Group | None) -> Outcome:
        """The records that forget a group without members.

        Kafka makes a group for offsets that were committed without one, and forgets it only by the tombstone of a group's record.
        """
        self._conversions.forget(group_id)
        return Outcome((group or self._conversions.new(ClassicGroup, group_id)).tombstones(), is_atomic=False)

    def _is_known(self, group_id: str) -> bool:
        """A group without members exists as long as it has offsets: an administrator's commit makes one."""
        return self.group(group_id) is not None or self.offsets.knows(group_id)

    def _commits_into(self, group_id: str) -> Group | None:
        group = self.group(group_id)
        return self._only_offsets if group is None and self._is_known(group_id) else group

    @property
    def _longest_metadata(self) -> int:
        return self.environment.config.offset_metadata_max_bytes
