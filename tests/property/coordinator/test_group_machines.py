"""Groups under everything that clients, time and fail-over can do to them, against what must hold at every step.

A partition has one owner in a generation or epoch.  No commit of a fenced member is accepted.  Hard state is what the log replays to.
Every request is answered once.  Fail-over loses what was not committed.
"""

from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.coordinator.group.assignors.model import TopicIdPartition, TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.membership import JOIN_EPOCH, LEAVE_EPOCH
from moldau.coordinator.hard_state import hard_state
from moldau.errors import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from proof.coordination import Asked, Desk, FixedTopics, MemoryLog

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 30_000
PARTITIONS = 5
ORDERS = TopicView(UUID(int=101), "orders", PARTITIONS)
CLIENTS = st.integers(0, 3)


class GroupsUnderFire(RuleBasedStateMachine):
    """Both protocols have this in common: the log, time, fail-over and commits."""

    @initialize()
    def begin(self) -> None:
        numbers = iter(range(1, 1_000_000))
        config = GroupCoordinatorConfig(initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)
        environment = Environment(config, FixedTopics(ORDERS), lambda: UUID(int=next(numbers)))
        self.desk = Desk(lambda: GroupMachine(environment), MemoryLog(commits_at_once=False))
        self.asked: list[Asked] = []
        self.commits = 0

    def ask(self, name: str, request: Any, *rest: Any) -> Asked:
        asked = self.desk.ask(lambda token, now_ms: getattr(self.desk.machine, name)(token, request, *rest, now_ms))
        self.asked.append(asked)
        return asked

    def commit_offset(self, member_id: str, epoch: int) -> Asked:
        self.commits += 1
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.commits, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
        )
        return self.ask("commit_offsets", request, Client("client", "/127.0.0.1", 9))

    @rule()
    def log_is_committed(self) -> None:
        self.desk.commit()

    @rule(elapsed_ms=st.sampled_from([100, 4_000, 11_000, 31_000, 50_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.desk.advance(elapsed_ms)

    @rule()
    def coordinator_fails_over(self) -> None:
        self.desk.fail_over()
        assert all(asked.is_answered for asked in self.asked), "clients that waited were told to look for the coordinator again"
        self.forget_soft_state()

    def forget_soft_state(self) -> None: ...

    @invariant()
    def requests_are_answered_at_most_once(self) -> None:
        assert all(len(asked.answers) <= 1 for asked in self.asked)

    @rule()
    def log_takes_no_records(self) -> None:
        """Until the log has room again it refuses every record for what it is; the partition goes on."""
        self.desk.log.failure = ErrorCode.MESSAGE_TOO_LARGE
        self.desk.advance(1_000)

    @rule()
    def log_has_room_again(self) -> None:
        self.desk.log.failure = None

    @invariant()
    def hard_state_is_what_the_log_says(self) -> None:
        assert hard_state(self.desk.machine) == hard_state(self.desk.replayed())

    def teardown(self) -> None:
        if not hasattr(self, "desk"):
            return
        self.desk.commit()
        self.desk.shard.close()
        assert all(len(asked.answers) == 1 for asked in self.asked), "every request is answered once"


def accepted(asked: Asked) -> bool:
    (answer,) = asked.answers
    return not isinstance(answer, ErrorCode) and answer.topics[0].partitions[0].error_code == ErrorCode.NONE


class ClassicGroups(GroupsUnderFire):
    """Up to four clients join, sync, report, leave and commit in any order, with what they last heard."""

    @initialize()
    def begin_clients(self) -> None:
        self.ids = ["", "", "", ""]
        self.generations = [-1, -1, -1, -1]
        self.joining: list[Asked | None] = [None] * 4
        self.syncing: list[tuple[Asked, int, str] | None] = [None] * 4
        self.joined: list[JoinGroupResponse | None] = [None] * 4
        self.highest = -1
        self.gone: set[str] = set()
        self.owners: dict[tuple[int, str], str] = {}

    def forget_soft_state(self) -> None:
        # An assignment that was answered was committed.  A generation that was only joined may come again with other members.
        self.highest = max((generation for generation, _ in self.owners), default=-1)
        self.joining, self.syncing = [None] * 4, [None] * 4

    @rule(who=CLIENTS)
    def join(self, who: int) -> None:
        if self.joining[who] is not None and not self.joining[who].is_answered:
            return
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.ids[who],
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        asked = self.ask("join", request, Client("client", "/127.0.0.1", 9))
        self.joining[who] = asked

    @rule(who=CLIENTS)
    def client_hears(self, who: int) -> None:
        """Answers arrive."""
        asked, waiting = self.joining[who], self.syncing[who]
        if asked is not None and asked.is_answered:
            self.joining[who] = None
            self._hear_joined(who, asked.answer)
        if waiting is not None and waiting[0].is_answered:
            self.syncing[who] = None
            self._hear_synced(*waiting)

    def _hear_joined(self, who: int, answer: Any) -> None:
        if not isinstance(answer, JoinGroupResponse):
            return
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.ids[who] = answer.member_id
        elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.ids[who] = ""
        elif answer.error_code == ErrorCode.NONE:
            self.ids[who], self.generations[who] = answer.member_id, answer.generation_id
            self.joined[who] = answer
            self.highest = max(self.highest, answer.generation_id)
            self._sync(who, answer)

    def _hear_synced(self, asked: Asked, generation_id: int, member_id: str) -> None:
        answer = asked.answer
        if isinstance(answer, SyncGroupResponse) and answer.error_code == ErrorCode.NONE:
            for partition in filter(None, answer.assignment.decode().split(",")):
                owner = self.owners.setdefault((generation_id, partition), member_id)
                assert owner == member_id, f"partition {partition} has two owners in generation {generation_id}"

    def _sync(self, who: int, joined: JoinGroupResponse) -> None:
        ids = [member.member_id for member in joined.members]
        shares = {member_id: ",".join(str(p) for p in range(PARTITIONS) if p % len(ids) == index) for index, member_id in enumerate(ids)}
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=key, assignment=each.encode()) for key, each in shares.items()],
        )
        self.syncing[who] = (self.ask("sync", request), joined.generation_id, joined.member_id)

    @rule(who=CLIENTS)
    def sync_again(self, who: int) -> None:
        """The connection broke before the answer came."""
        joined = self.joined[who]
        if joined is not None:
            self._sync(who, joined)

    @rule(who=CLIENTS)
    def heartbeat(self, who: int) -> None:
        self.ask("heartbeat", HeartbeatRequest(group_id=GROUP, generation_id=self.generations[who], member_id=self.ids[who]))

    @rule(who=CLIENTS)
    def leave(self, who: int) -> None:
        asked = self.ask("leave", LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.ids[who])]))
        self.desk.commit()
        answer = asked.answer
        if not isinstance(answer, ErrorCode) and answer.error_code == ErrorCode.NONE and answer.members[0].error_code == ErrorCode.NONE:
            self.gone.add(self.ids[who])
            self.ids[who] = ""

    @rule(who=CLIENTS, age=st.integers(0, 2))
    def commit(self, who: int, age: int) -> None:
        """`age`: a zombie commits with what it knew that many generations ago."""
        generation_id = self.generations[who] - age
        if not self.ids[who] or generation_id < 0:
            return
        is_fenced = generation_id < self.highest
        asked = self.commit_offset(self.ids[who], generation_id)
        self.desk.commit()
        assert not (accepted(asked) and is_fenced), f"generation {generation_id} was taken after {self.highest}"

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def zombie_commits(self, data: st.DataObject) -> None:
        """A member that left must not change an offset, whatever generation it names."""
        member_id = data.draw(st.sampled_from(sorted(self.gone)))
        asked = self.commit_offset(member_id, max(self.highest, 0))
        self.desk.commit()
        assert not accepted(asked)


class ConsumerGroups(GroupsUnderFire):
    """Up to four clients of KIP-848 do what they are told, late or never."""

    @initialize()
    def begin_clients(self) -> None:
        self.lives = [0, 0, 0, 0]
        self.epochs = [JOIN_EPOCH] * 4
        self.owned: list[frozenset[int]] = [frozenset()] * 4
        self.reported_at = [0, 0, 0, 0]
        self.last_reader = ""
        """The last reader of partition 0, which is the partition that clients commit."""

    def member_id(self, who: int) -> str:
        return f"member-{who}-{self.lives[who]}"

    @rule(who=CLIENTS, is_lost=st.booleans())
    def heartbeat(self, who: int, is_lost: bool) -> None:
        """`is_lost`: the answer does not arrive."""
        if self.epochs[who] != JOIN_EPOCH and not self._is_alive(who):
            self._abandon(who)
        is_joining = self.epochs[who] == JOIN_EPOCH
        held = frozenset() if is_joining else self.owned[who]
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id(who),
            member_epoch=self.epochs[who],
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=["orders"],
            topic_partitions=[TopicPartitions(topic_id=ORDERS.topic_id, partitions=sorted(held))] if held else [],
        )
        asked = self.ask("consumer_heartbeat", request, Client("client", "/127.0.0.1", 1))
        self.desk.commit()
        answer = asked.answer
        self.reported_at[who] = self.desk.now_ms
        if is_lost or isinstance(answer, ErrorCode):
            return
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.error_code != ErrorCode.NONE:
            self._abandon(who)
            return
        self.epochs[who] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[who] = frozenset(index for topic in answer.assignment.topic_partitions for index in topic.partitions)
            if 0 in self.owned[who]:
                self.last_reader = self.member_id(who)

    def _is_alive(self, who: int) -> bool:
        """A client that has not polled for its rebalance time-out, its max.poll.interval.ms, leaves by itself.

        The answer that told it to give partitions up within that time may never have come.
        """
        return self.desk.now_ms - self.reported_at[who] < REBALANCE_MS

    def _abandon(self, who: int) -> None:
        """A client was fenced, or was silent for so long that it must take itself for gone."""
        self.epochs[who], self.owned[who] = JOIN_EPOCH, frozenset()
        self.lives[who] += 1

    @rule(who=CLIENTS)
    def leave(self, who: int) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id(who), member_epoch=LEAVE_EPOCH)
        self.ask("consumer_heartbeat", request, Client("client", "/127.0.0.1", 1))
        self._abandon(who)

    @rule(who=CLIENTS, age=st.integers(0, 2))
    def commit(self, who: int, age: int) -> None:
        epoch = self.epochs[who] - age
        if epoch <= 0:
            return
        group = self.desk.machine.group(GROUP)
        known = group.members.get(self.member_id(who)) if isinstance(group, ConsumerGroup) else None
        asked = self.commit_offset(self.member_id(who), epoch)
        self.desk.commit()
        if accepted(asked):
            assert known is not None, "a member that is not in the group committed"
            if known.epoch != epoch:
                assert self.last_reader in ("", self.member_id(who)), "an older epoch committed what another member has read since"

    @rule(who=CLIENTS)
    def zombie_commits(self, who: int) -> None:
        """A member commits under the id of an earlier life."""
        if self.lives[who] == 0:
            return
        asked = self.commit_offset(f"member-{who}-{self.lives[who] - 1}", 1)
        self.desk.commit()
        group = self.desk.machine.group(GROUP)
        if accepted(asked):
            assert isinstance(group, ConsumerGroup) and f"member-{who}-{self.lives[who] - 1}" in group.members

    @invariant()
    def a_partition_has_one_holder(self) -> None:
        group = self.desk.machine.group(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        held: list[TopicIdPartition] = [partition for member in group.members.values() for partition in member.holds()]
        assert len(held) == len(set(held)), held

    @invariant()
    def no_two_clients_read_a_partition(self) -> None:
        """Clients judge by what they know: one that was silent for too long takes itself for gone."""
        alive = [who for who in range(4) if self._is_alive(who)]
        read = [partition for who in alive for partition in self.owned[who]]
        assert len(read) == len(set(read)), [sorted(self.owned[who]) for who in alive]


TestClassicGroups = ClassicGroups.TestCase
TestConsumerGroups = ConsumerGroups.TestCase
TestClassicGroups.settings = TestConsumerGroups.settings = settings(stateful_step_count=40)
