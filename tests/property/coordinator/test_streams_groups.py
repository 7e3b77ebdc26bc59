"""Streams groups under everything that clients, time, topics and fail-over can do to them, against what must hold at every step.

One process runs an active task, and no process has two copies of one.  A commit under an older epoch is its last owner's.  Hard state is
what the log replays to.  When things calm down every task runs, with the copies asked for.
"""

from collections.abc import Iterable
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.streams.group import HeartbeatResult, StreamsGroup
from moldau.coordinator.group.streams.tasks import TaskId, Tasks, by_subtopology, read_tasks
from moldau.errors import ErrorCode
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from proof.coordination import Desk, FixedTopics, MemoryLog
from proof.groups.topologies import subtopology, topology

GROUP = "word-count"
NAMES = ("lines", "words", "counts")
PARTITIONS = 3
TOPICS = [TopicView(UUID(int=number), name, PARTITIONS) for number, name in enumerate(NAMES, start=1)]
REBALANCE_MS = 30_000
PROGRAM = topology(subtopology("0", ["lines"], sinks=["words"]), subtopology("1", repartition=["words"], changelogs=["counts"]))
CLIENTS = st.integers(0, 4)
PROCESSES = ("P", "P", "Q", "Q", "R")
"""The process of each client: some clients are threads of one process."""


def spelled(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=key, partitions=partitions) for key, partitions in by_subtopology(tasks)]


class StreamsGroups(RuleBasedStateMachine):
    """Up to five threads of three processes do what they are told, late or never."""

    @initialize(standby_count=st.integers(0, 2), delay_ms=st.sampled_from([0, 3_000]))
    def begin(self, standby_count: int, delay_ms: int) -> None:
        self.there = set(NAMES)
        self.topics = FixedTopics(*TOPICS)
        self.standby_count = standby_count
        config = GroupCoordinatorConfig(
            streams_assignment_interval_ms=500,
            streams_initial_rebalance_delay_ms=delay_ms,
            streams_standby_count=standby_count,
            streams_max_size=4,
        )
        environment = Environment(config, self.topics, lambda: UUID(int=1))
        self.desk = Desk(lambda: GroupMachine(environment), MemoryLog(commits_at_once=False))
        self.lives = [0] * 5
        self.epochs = [0] * 5
        self.wanted: list[Tasks] = [Tasks()] * 5
        """The tasks that each client was told last."""
        self.running: list[Tasks] = [Tasks()] * 5
        self.reported: list[Tasks | None] = [None] * 5
        """The tasks that each client last reported.  It is None once an answer was lost: the client then reports everything anew."""
        self.heard_at = [-REBALANCE_MS] * 5
        self.slow: set[int] = set()
        """Slow clients report, but are busy with the tasks that they have."""
        self.last_owner: dict[TaskId, str] = {}
        """The reference: the member that ran an active task last."""
        for _ in range(4):
            self.everybody_reports([0, 2], None, 1)

    @property
    def group(self) -> StreamsGroup | None:
        group = self.desk.machine.group(GROUP)
        assert group is None or isinstance(group, StreamsGroup)
        return group

    def member_id(self, who: int) -> str:
        return f"member-{who}-{self.lives[who]}"

    # -- clients --------------------------------------------------------------------------------------------------------------

    @rule(who=CLIENTS, is_lost=st.booleans())
    def heartbeat(self, who: int, is_lost: bool) -> None:
        """`is_lost`: the answer does not arrive."""
        if self.epochs[who] != 0 and not self.is_alive(who):
            self.abandon(who)
        answer = self.send(who)
        if is_lost:
            self.reported[who] = None
            return
        if answer.error_code != ErrorCode.NONE:
            self.abandon(who)
            return
        self.epochs[who] = answer.member_epoch
        if answer.active_tasks is not None:
            assert answer.standby_tasks is not None
            self.wanted[who] = Tasks(read_tasks(answer.active_tasks), read_tasks(answer.standby_tasks))

    def send(self, who: int) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id(who), member_epoch=self.epochs[who], endpoint_information_epoch=0
        )
        if self.epochs[who] == 0:
            request.topology, request.process_id, request.rebalance_timeout_ms = PROGRAM, PROCESSES[who], REBALANCE_MS
            self.reported[who] = None
        if self.running[who] != self.reported[who]:
            self.reported[who] = self.running[who]
            request.active_tasks, request.standby_tasks = spelled(self.running[who].active), spelled(self.running[who].standby)
            request.warmup_tasks = []
        self.heard_at[who] = self.desk.now_ms
        client = Client("client", "/127.0.0.1", 0)
        asked = self.desk.ask(lambda token, now_ms: self.desk.machine.streams_heartbeat(token, request, client, now_ms))
        self.desk.commit()
        assert isinstance(asked.answer, HeartbeatResult)
        return asked.answer.response

    @rule(who=CLIENTS)
    def client_reconciles(self, who: int) -> None:
        """A client first gives up what it should not have any more.  It begins new tasks the next time."""
        if who in self.slow:
            return
        running, wanted = self.running[who], self.wanted[who]
        kept = Tasks(running.active & wanted.active, running.standby & wanted.standby)
        self.running[who] = wanted if kept == running else kept
        self.last_owner.update(dict.fromkeys(self.running[who].active, self.member_id(who)))

    @rule(who=CLIENTS)
    def client_slows_down_or_recovers(self, who: int) -> None:
        self.slow ^= {who}

    def is_alive(self, who: int) -> bool:
        """A client that was silent for its max.poll.interval.ms takes itself for gone."""
        return self.desk.now_ms - self.heard_at[who] < REBALANCE_MS

    def abandon(self, who: int) -> None:
        self.epochs[who], self.reported[who] = 0, None
        self.wanted[who] = self.running[who] = Tasks()
        self.lives[who] += 1

    @rule(order=st.permutations(range(4)), unlucky=st.none() | CLIENTS, rounds=st.integers(1, 3))
    def everybody_reports(self, order: list[int], unlucky: int | None, rounds: int) -> None:
        """The group lives on for some rounds, in which one client may miss all answers."""
        for _ in range(rounds):
            for who in order:
                self.heartbeat(who, is_lost=who == unlucky)
                self.client_reconciles(who)
            self.no_two_clients_run_a_task()
            self.desk.advance(1_000)
            self.desk.commit()

    @rule(who=CLIENTS)
    def leave(self, who: int) -> None:
        """A client gives everything up before it says that it leaves."""
        self.wanted[who] = self.running[who] = Tasks()
        self.epochs[who] = -1
        self.send(who)
        self.abandon(who)

    @rule(who=CLIENTS, age=st.integers(0, 3), name=st.sampled_from(["lines", "words"]), partition=st.integers(0, PARTITIONS - 1))
    def commit(self, who: int, age: int, name: str, partition: int) -> None:
        epoch = self.epochs[who] - age
        if epoch <= 0:
            return
        member = self.group.members.get(self.member_id(who)) if self.group is not None else None
        partitions = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata="")]
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.member_id(who),
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=name, partitions=partitions)],
        )
        client = Client("client", "/127.0.0.1", 9)
        asked = self.desk.ask(lambda token, now_ms: self.desk.machine.commit_offsets(token, request, client, now_ms))
        self.desk.commit()
        if asked.answer.topics[0].partitions[0].error_code != ErrorCode.NONE:
            return
        assert member is not None, "a member that is not in the group committed"
        if epoch != member.epoch:
            owner = self.last_owner.get(TaskId("0" if name == "lines" else "1", partition))
            assert owner in (None, self.member_id(who)), "an older epoch committed a task that another member has run since"

    # -- the world ------------------------------------------------------------------------------------------------------------

    @rule(elapsed_ms=st.sampled_from([100, 1_000, 11_000, 31_000, 46_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.desk.advance(elapsed_ms)
        self.desk.commit()

    @rule()
    def coordinator_fails_over(self) -> None:
        self.desk.fail_over()

    @rule(name=st.sampled_from(NAMES))
    def topic_comes_or_goes(self, name: str) -> None:
        self.there ^= {name}
        self.topics.set(*(topic for topic in TOPICS if topic.name in self.there))

    # -- what holds -----------------------------------------------------------------------------------------------------------

    @invariant()
    def a_task_has_one_holder(self) -> None:
        if not hasattr(self, "desk") or self.group is None:
            return
        members = list(self.group.members.values())
        active = [task for member in members for part in (member.held, member.pending_revocation) for task in part.active]
        assert len(active) == len(set(active)), active
        for process_id in set(PROCESSES):
            copies = [
                task
                for member in members
                if member.process_id == process_id
                for part in (member.held, member.pending_revocation)
                for task in [*part.active, *part.standby]
            ]
            assert len(copies) == len(set(copies)), (process_id, copies)

    @invariant()
    def no_two_clients_run_a_task(self) -> None:
        if not hasattr(self, "desk"):
            return
        alive = [who for who in range(5) if self.is_alive(who)]
        active = [task for who in alive for task in self.running[who].active]
        assert len(active) == len(set(active)), [sorted(self.running[who].active) for who in alive]
        for process_id in set(PROCESSES):
            mine = [self.running[who] for who in alive if PROCESSES[who] == process_id]
            copies = [task for tasks in mine for task in [*tasks.active, *tasks.standby]]
            assert len(copies) == len(set(copies)), (process_id, copies)

    @rule()
    def hard_state_is_what_the_log_says(self) -> None:
        """This is no invariant: checked at every step, it would be most of what this machine does."""
        replayed = self.desk.replayed().group(GROUP)
        if self.group is None:
            assert replayed is None
            return
        assert isinstance(replayed, StreamsGroup)
        for name in (
            "epoch",
            "metadata_hash",
            "validated_topology_epoch",
            "assignment_configs",
            "topology",
            "members",
            "target_epoch",
            "target",
        ):
            assert getattr(replayed, name) == getattr(self.group, name), name

    def teardown(self) -> None:
        """When everybody does what they should, every task runs soon, with its copies, and none moves any more."""
        if not hasattr(self, "desk") or self.group is None or not self.group.members:
            return
        self.hard_state_is_what_the_log_says()
        self.there, self.slow = set(NAMES), set()
        self.topics.set(*TOPICS)
        for _ in range(25):  # sessions of members that are gone have to end first
            for who in range(4):
                self.client_reconciles(who)
                self.heartbeat(who, is_lost=False)
            self.a_task_has_one_holder()
            self.no_two_clients_run_a_task()
            self.desk.advance(5_000)
            self.desk.commit()
        group = self.group
        assert group is not None
        assert group.state.value == "Stable", group
        members = [who for who in range(4) if self.epochs[who] > 0]
        assert {self.member_id(who) for who in members} == group.members.keys()
        active = [task for who in members for task in self.running[who].active]
        standby = [task for who in members for task in self.running[who].standby]
        assert sorted(active) == [TaskId(key, index) for key in "01" for index in range(PARTITIONS)]
        processes = {PROCESSES[who] for who in members}
        copies = min(self.standby_count, len(processes) - 1)
        assert sorted(standby) == sorted([TaskId("1", index) for index in range(PARTITIONS)] * copies)


TestStreamsGroups = StreamsGroups.TestCase
TestStreamsGroups.settings = settings(stateful_step_count=60, max_examples=max(150, settings().max_examples))
