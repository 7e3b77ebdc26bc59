"""Streams groups (KIP-1071), one at a time."""

from typing import Any
from uuid import UUID

import pytest

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.streams.group import HeartbeatResult, StreamsGroup
from moldau.coordinator.group.streams.internal_topics import Status
from moldau.coordinator.group.streams.member import assignment_record
from moldau.coordinator.group.streams.records import StreamsGroupCurrentMemberAssignmentValue
from moldau.errors import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from moldau.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from proof.coordination import Desk, FixedTopics
from proof.groups.topologies import Tasks, spelled, subtopology, tasks, topology

GROUP = "word-count"
CLIENT = Client("client", "/127.0.0.1", 0)
LINES, WORDS, COUNTS = (TopicView(UUID(int=100 + index), name, 4) for index, name in enumerate(("lines", "words", "counts"), 1))
PROGRAM = topology(subtopology("0", ["lines"], sinks=["words"]), subtopology("1", repartition=["words"], changelogs=["counts"]))
EVERYTHING = {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}
NOTHING: Tasks = {}


class Program:
    """The group of one program, and the requests of its members."""

    def __init__(self, *topics: TopicView, **config: Any) -> None:
        config = {"streams_assignment_interval_ms": 0, "streams_initial_rebalance_delay_ms": 0, **config}
        self.topics = FixedTopics(*(topics or (LINES, WORDS, COUNTS)))
        self.environment = Environment(GroupCoordinatorConfig(**config), self.topics, lambda: UUID(int=1))
        self.desk = Desk(lambda: GroupMachine(self.environment))
        self.missing: list[str] = []

    @property
    def group(self) -> StreamsGroup:
        group = self.desk.machine.group(GROUP)
        assert isinstance(group, StreamsGroup)
        return group

    def ask(self, name: str, *rest: Any) -> Any:
        return self.desk.ask(lambda token, now_ms: getattr(self.desk.machine, name)(token, *rest)).answer

    def send(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        result = self.desk.ask(lambda token, now_ms: self.desk.machine.streams_heartbeat(token, request, CLIENT, now_ms)).answer
        assert isinstance(result, HeartbeatResult)
        self.missing = [topic.name for topic in result.missing]
        return result.response

    def join(self, member_id: str, program: Topology = PROGRAM, **fields: Any) -> StreamsGroupHeartbeatResponse:
        fields = {"process_id": f"process-of-{member_id}", "rebalance_timeout_ms": 60_000, "endpoint_information_epoch": -1, **fields}
        return self.send(
            StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member_id,
                member_epoch=0,
                topology=program,
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                **fields,
            )
        )

    def beat(
        self, member_id: str, epoch: int, active: Tasks | None = None, standby: Tasks = NOTHING, **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        """Reports the member's tasks, unless they are left out."""
        if active is not None:
            fields |= {"active_tasks": tasks(active), "standby_tasks": tasks(standby), "warmup_tasks": []}
        fields = {"endpoint_information_epoch": 0, **fields}
        return self.send(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields))

    def commit(self, member_id: str, epoch: int, topic: str, partition: int) -> ErrorCode:
        partitions = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=7, committed_metadata="")]
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        client = Client("client", "/127.0.0.1", 9)
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.commit_offsets(token, request, client, now_ms)).answer
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def commit_in_transaction(self, member_id: str, epoch: int, topic: str, partition: int) -> ErrorCode:
        partitions = [TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=7, committed_metadata="")]
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=GROUP,
            producer_id=1,
            producer_epoch=0,
            member_id=member_id,
            generation_id=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.commit_offsets_in_transaction(token, request, CLIENT, now_ms)).answer
        return ErrorCode(answer.topics[0].partitions[0].error_code)


def statuses(answer: StreamsGroupHeartbeatResponse) -> list[Status]:
    return [Status(each.status_code) for each in answer.status or ()]


def test_the_only_member_has_every_task() -> None:
    program = Program()
    joined = program.join("a")
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (ErrorCode.NONE, 2, 5_000)
    assert (spelled(joined.active_tasks), joined.standby_tasks, joined.warmup_tasks) == (EVERYTHING, [], [])
    assert (program.group.state.value, program.group.validated_topology_epoch) == ("Stable", 0)
    assert program.beat("a", 2, EVERYTHING).active_tasks is None, "nothing new"


def test_an_active_task_is_given_away_only_once_it_was_given_up() -> None:
    program = Program()
    program.join("a")
    joined = program.join("b")
    assert (joined.member_epoch, spelled(joined.active_tasks)) == (3, {}), "other members still have everything"
    told = program.beat("a", 2)
    assert told.member_epoch == 2, "its epoch stays until it has given up what it should"
    assert spelled(program.beat("b", 3).active_tasks) is None, "a member that does not report its tasks has them"
    kept = spelled(told.active_tasks)
    assert kept is not None
    assert sum(map(len, kept.values())) == 4
    assert spelled(program.beat("b", 3, {}).active_tasks) is None
    assert program.beat("a", 2, EVERYTHING).member_epoch == 2, "the member still has them"
    assert program.beat("a", 2, kept).member_epoch == 3
    given = spelled(program.beat("b", 3, {}).active_tasks)
    assert given is not None
    assert {key: sorted(kept.get(key, []) + given.get(key, [])) for key in EVERYTHING} == EVERYTHING
    assert program.group.state.value == "Stable"


def test_missing_topics_stand_in_the_way_and_are_asked_for() -> None:
    program = Program(TopicView(UUID(int=1), "other", 1))
    joined = program.join("a")
    assert (statuses(joined), spelled(joined.active_tasks), program.missing) == ([Status.MISSING_SOURCE_TOPICS], {}, [])
    assert program.group.state.value == "NotReady"
    program.topics.set(LINES)
    told = program.beat("a", joined.member_epoch, {})
    assert (statuses(told), program.missing) == ([Status.MISSING_INTERNAL_TOPICS], ["counts", "words"])
    assert told.status is not None
    assert told.status[0].status_detail == "Internal topics are missing: counts, words"
    program.topics.set(LINES, WORDS, COUNTS)
    assert spelled(program.beat("a", told.member_epoch, {}).active_tasks) == EVERYTHING
    program.topics.set(LINES, WORDS._replace(partition_count=3), COUNTS)
    told = program.beat("a", program.group.members["a"].epoch, EVERYTHING)
    assert statuses(told) == [Status.INCORRECTLY_PARTITIONED_TOPICS]
    assert spelled(told.active_tasks) == {}, "tasks are given up while the topics do not fit"


def test_the_first_assignment_waits_for_more_members() -> None:
    program = Program(streams_initial_rebalance_delay_ms=3_000)
    for name in ("a", "b"):
        joined = program.join(name)
        assert (joined.member_epoch, spelled(joined.active_tasks), statuses(joined)) == (1, {}, [Status.ASSIGNMENT_DELAYED])
    program.desk.advance(3_001)
    assert program.group.target_epoch == program.group.epoch == 3
    shares = [spelled(program.beat(name, 1, {}).active_tasks) for name in ("a", "b")]
    assert [sum(map(len, (share or {}).values())) for share in shares] == [4, 4], "nobody had to give anything up"


def test_assignments_keep_their_distance() -> None:
    program = Program(streams_assignment_interval_ms=1_000)
    program.join("a")
    assert statuses(program.join("b")) == [Status.ASSIGNMENT_DELAYED]
    program.desk.advance(1_000)
    assert statuses(program.beat("b", 2, {})) == []
    assert program.group.target_epoch == 3


def test_standby_tasks_lie_beside_another_process() -> None:
    program = Program(streams_standby_count=1)
    program.join("a")
    program.join("b")
    for _ in range(4):
        for name, member in sorted(program.group.members.items()):
            held = member.held.ids()
            active, standby = ({key: [p for s, p in role if s == key] for key in "01"} for role in (held.active, held.standby))
            program.beat(name, member.epoch, active, standby)
    a, b = (program.group.members[name].held for name in ("a", "b"))
    assert not a.standby & a.active.keys()
    assert not b.standby & b.active.keys()
    assert {task.partition for task in a.standby | b.standby} == {0, 1, 2, 3}
    assert {task.subtopology_id for task in a.standby | b.standby} == {"1"}, "a task without state needs no copy"
    program.environment.group_configs[GROUP] = {"streams.num.standby.replicas": 0}
    program.beat("a", program.group.members["a"].epoch)
    assert not any(each.standby for each in program.group.target.values()), "the group's own option goes before the broker's"


def test_members_are_fenced_by_epoch_session_and_size() -> None:
    program = Program(streams_max_size=2)
    program.join("a")
    fenced = program.beat("a", 7)
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert str(fenced.error_message).startswith("The streams group member has a greater member epoch (7) than the one known by the group")
    assert program.beat("b", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    program.join("b")
    assert program.join("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert program.join("b").error_code == ErrorCode.NONE, "a member that joins again does not make the group larger"
    program.desk.advance(30_000)
    program.beat("b", 3)
    program.desk.advance(16_000)
    assert sorted(program.group.members) == ["b"], "a was silent for the length of its session"
    assert program.beat("b", -1).error_code == ErrorCode.NONE
    assert program.group.state.value == "Empty"


def test_who_does_not_give_up_in_time_is_out() -> None:
    program = Program()
    program.join("a", rebalance_timeout_ms=10_000)
    program.join("b")
    program.beat("a", 2, EVERYTHING)
    for _ in range(3):
        program.desk.advance(5_000)
        program.beat("b", 3, {})
        if "a" in program.group.members:
            program.beat("a", 2, EVERYTHING)
    assert sorted(program.group.members) == ["b"]
    assert program.beat("a", 2, EVERYTHING).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_lost_answer_costs_nothing() -> None:
    program = Program()
    program.join("a")
    program.join("b")
    program.beat("b", -1)
    program.beat("a", 2, EVERYTHING)
    assert program.group.members["a"].epoch == 4
    again = program.beat("a", 2, EVERYTHING)
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, 4)
    program.join("b")
    told = program.beat("a", 2, {})
    assert (told.member_epoch, spelled(told.active_tasks)) == (4, EVERYTHING), "under an older epoch it cannot know what it was given since"
    assert program.beat("a", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH, "without its tasks the report could be anybody's"
    told = program.beat("a", 4, {"0": [0]})
    assert spelled(told.active_tasks) == {"0": [0, 1], "1": [0, 1]}, "a member that reports all its tasks may have missed what it was given"


@pytest.mark.parametrize(
    ("active", "message"),
    [
        ({"9": [0]}, "Subtopology 9 does not exist in the topology."),
        ({"0": [4]}, "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"),
    ],
)
def test_tasks_that_cannot_be_are_refused(active: Tasks, message: str) -> None:
    program = Program()
    program.join("a")
    refused = program.beat("a", 2, active)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_who_tells_otherwise_hears_what_is_new_rather_than_what_was() -> None:
    program = Program()
    program.join("a")
    assert spelled(program.beat("a", 2, {}).active_tasks) == EVERYTHING, "the answer may have been lost"
    program.environment.group_configs[GROUP] = {"streams.assignment.interval.ms": 5_000, "streams.num.standby.replicas": 1}
    assert program.beat("a", 2, {}).active_tasks is None, "a new assignment is on its way"
    program.desk.advance(5_000)
    assert spelled(program.beat("a", 2, {}).active_tasks) == EVERYTHING


def test_members_may_run_an_older_topology_but_not_a_newer_one() -> None:
    program = Program()
    newer = Topology(epoch=3, subtopologies=PROGRAM.subtopologies)
    program.join("a", newer)
    joined = program.join("b", PROGRAM)
    assert statuses(joined) == [Status.STALE_TOPOLOGY]
    assert statuses(program.beat("b", joined.member_epoch)) == [Status.STALE_TOPOLOGY], "the status comes with every heartbeat"
    assert program.join("c", Topology(epoch=4, subtopologies=PROGRAM.subtopologies)).error_code == ErrorCode.INVALID_REQUEST
    changed = topology(subtopology("0", ["lines"]), epoch=3)
    assert program.join("c", changed).error_code == ErrorCode.INVALID_REQUEST
    assert program.group.topology is not None
    assert program.group.topology.epoch == 3


def test_a_join_that_comes_late_gives_nothing_up() -> None:
    program = Program()
    program.join("a")
    program.join("b")
    program.beat("a", 2)
    again = program.join("a")
    assert spelled(again.active_tasks) == EVERYTHING, "the member sent this before it heard what it was given, so it does not speak of that"
    assert len(program.group.members["a"].pending_revocation.active) == 4
    assert spelled(program.beat("b", 3, {}).active_tasks) is None
    assert spelled(program.beat("a", 2, EVERYTHING).active_tasks) == {"0": [0, 1], "1": [0, 1]}
    assert program.beat("a", 2, {"0": [0, 1], "1": [0, 1]}).member_epoch == 3


def test_who_never_heard_what_it_was_given_is_told_that_first() -> None:
    program = Program()
    program.join("a")
    program.join("b")
    program.beat("b", -1)
    kept = {"0": [0, 1], "1": [0, 1]}
    program.beat("a", 2)  # the answer, with epoch 4, is lost
    program.join("b")
    told = program.beat("a", 2, kept)
    assert (told.member_epoch, spelled(told.active_tasks)) == (4, EVERYTHING), "nothing is taken back that the member may have by now"
    assert program.group.members["a"].epoch == 4, "it goes on from there, once it has heard its epoch"
    told = program.beat("a", 4, EVERYTHING)
    assert (told.member_epoch, spelled(told.active_tasks)) == (4, kept)
    assert program.beat("a", 4, kept).member_epoch == 5


def test_the_time_to_give_up_begins_anew_when_it_is_told_anew() -> None:
    program = Program()
    program.join("a")
    program.join("b")
    program.beat("a", 2)
    for _ in range(3):
        program.desk.advance(40_000)
        program.join("a")
        program.beat("b", 3)
    for _ in range(2):
        program.desk.advance(40_000)
        program.beat("a", 2)
        program.beat("b", 3)
    assert "a" not in program.group.members


def test_what_has_to_be_given_up_is_told_again() -> None:
    program = Program()
    program.join("a")
    program.join("b")
    for _ in range(2):
        assert spelled(program.beat("a", 2).active_tasks) == {"0": [0, 1], "1": [0, 1]}, "the answer before may have been lost"


def test_one_member_can_have_all_shut_down() -> None:
    program = Program()
    program.join("a")
    program.join("b")
    assert statuses(program.beat("a", 2, shutdown_application=True)) == [Status.SHUTDOWN_APPLICATION]
    assert statuses(program.beat("b", 3)) == [Status.SHUTDOWN_APPLICATION]
    program.beat("a", -1)
    program.beat("b", -1)
    assert statuses(program.join("a")) == [], "a member that joins afterwards starts anew"


def test_members_learn_where_others_answer_queries() -> None:
    program = Program()
    joined = program.join("a", user_endpoint=Endpoint(host="here", port=80))
    (told,) = joined.partitions_by_user_endpoint or ()
    assert (told.user_endpoint.host, [(each.topic, each.partitions) for each in told.active_partitions]) == (
        "here",
        [("lines", [0, 1, 2, 3]), ("words", [0, 1, 2, 3])],
    )
    known = joined.endpoint_information_epoch
    assert program.beat("a", 2, endpoint_information_epoch=known).partitions_by_user_endpoint is None
    program.join("b", user_endpoint=Endpoint(host="there", port=81))
    told_later = program.beat("a", 2, endpoint_information_epoch=known)
    assert [each.user_endpoint.port for each in told_later.partitions_by_user_endpoint or ()] == [80, 81]
    joined = program.join("c", process_id="process-of-a", user_endpoint=Endpoint(host="here", port=80))
    assert [each.user_endpoint.port for each in joined.partitions_by_user_endpoint or ()] == [80, 81], "threads of one process are one"


def test_a_commit_needs_the_epoch_at_which_the_task_was_given() -> None:
    program = Program()
    program.join("a")
    assert program.commit("a", 2, "lines", 0) == ErrorCode.NONE
    assert program.commit("a", 3, "lines", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert program.commit("b", 2, "lines", 0) == ErrorCode.UNKNOWN_MEMBER_ID
    program.join("b")
    kept = spelled(program.beat("a", 2, EVERYTHING).active_tasks) or {}
    assert program.commit("a", 2, "lines", 3) == ErrorCode.NONE, "the member is just giving the task up"
    program.beat("a", 2, kept)
    given = spelled(program.beat("b", 3, {}).active_tasks) or {}
    (mine, theirs) = (kept["0"][0], given["0"][0])
    assert program.commit("a", 2, "lines", mine) == ErrorCode.NONE, "the member had the task already at this older epoch"
    assert program.commit("a", 2, "lines", theirs) == ErrorCode.STALE_MEMBER_EPOCH
    assert program.commit("a", 3, "unknown", 0) == ErrorCode.NONE, "with its own epoch a member may commit anything, as in Kafka"
    assert program.commit("a", 2, "unknown", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert program.commit_in_transaction("a", 2, "lines", theirs) == ErrorCode.ILLEGAL_GENERATION
    assert program.commit_in_transaction("a", 2, "lines", mine) == ErrorCode.NONE
    assert program.commit_in_transaction("", -1, "lines", 0) == ErrorCode.NONE, "a commit without a member is not checked"


def test_offsets_are_fetched_and_deleted_by_their_members_rules() -> None:
    program = Program()
    program.join("a")
    program.commit("a", 2, "lines", 0)

    def fetch(member_id: str | None, epoch: int) -> int:
        request = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None)
        asked = program.desk.ask(lambda token, now_ms: program.desk.machine.fetch_offsets(token, request, is_stable_required=False))
        code: int = asked.answer.error_code
        return code

    assert [fetch("a", 2), fetch("a", 1), fetch("b", 2), fetch(None, -1)] == [
        ErrorCode.NONE,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name="lines", partitions=partitions)])
    assert program.ask("delete_offsets", request).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    program.beat("a", -1)
    assert program.ask("delete_offsets", request).topics[0].partitions[0].error_code == ErrorCode.NONE


def test_groups_are_described_listed_and_deleted() -> None:
    program = Program()
    program.join("a", client_tags=[])
    described = program.ask("describe_of", GROUP, StreamsGroup, lambda *said: said)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    sizes = {
        each.subtopology_id: [topic.partitions for topic in each.repartition_source_topics] for each in described.topology.subtopologies
    }
    assert sizes == {"0": [], "1": [4]}
    (member,) = described.members
    assert (member.member_id, spelled(member.assignment.active_tasks), spelled(member.target_assignment.active_tasks)) == (
        "a",
        EVERYTHING,
        EVERYTHING,
    )
    (listed,) = program.ask("list_groups")
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("streams", "streams", "Stable")
    assert program.ask("delete_group", GROUP).error_code == ErrorCode.NON_EMPTY_GROUP
    program.beat("a", -1)
    assert program.ask("delete_group", GROUP).error_code == ErrorCode.NONE
    assert program.ask("describe_of", GROUP, StreamsGroup, lambda *said: said[1]) == ErrorCode.GROUP_ID_NOT_FOUND
    assert not program.desk.replayed().groups


def test_only_an_empty_group_changes_its_protocol() -> None:
    program = Program()
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    classic = Client("client", "/127.0.0.1", 3)
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="c", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["lines"], topic_partitions=[]
    )

    def joins() -> int:
        asked = program.desk.ask(lambda token, now_ms: program.desk.machine.join(token, join, classic, now_ms))
        program.desk.advance(4_000)
        code: int = asked.answer.error_code
        return code

    program.join("a")
    assert joins() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    asked = program.desk.ask(lambda token, now_ms: program.desk.machine.consumer_heartbeat(token, consumer, CLIENT, now_ms))
    assert asked.answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    program.beat("a", -1)
    assert joins() == ErrorCode.NONE
    assert program.desk.machine.group(GROUP).group_type == "classic"
    assert not program.desk.replayed().groups, "the streams group is gone from the log"
    assert program.join("a").error_code == ErrorCode.GROUP_ID_NOT_FOUND, "the classic group has a member"
    program.desk.advance(60_000)
    assert program.join("a").error_code == ErrorCode.NONE, "the classic group is empty"
    assert program.group.state.value == program.desk.replayed().groups[GROUP].state.value == "Stable"


def test_a_new_coordinator_goes_on_where_the_last_one_was() -> None:
    program = Program(streams_standby_count=1)
    program.join("a", user_endpoint=Endpoint(host="here", port=80))
    program.join("b")
    before = program.group
    program.desk.fail_over()
    after = program.group
    assert after is not before
    assert (after.members, after.target, after.topology, after.epoch) == (before.members, before.target, before.topology, before.epoch)
    told = program.beat("a", 2, EVERYTHING)
    assert (told.error_code, told.member_epoch) == (ErrorCode.NONE, 2)
    assert program.group.epoch == before.epoch, "unchanged topics are no news"
    program.desk.advance(46_000)
    assert not program.group.members, "sessions go on running"


def test_a_member_in_a_state_of_a_later_release_begins_again() -> None:
    """Kafka does the same: the group is loaded, nobody is given what the member holds, and the member is told to give all of it up."""
    program = Program()
    program.join("a")
    record = assignment_record(GROUP, program.group.members["a"])
    assert isinstance(record.value, StreamsGroupCurrentMemberAssignmentValue)
    record.value.state = 99
    program.desk.log.entries.append((record, None))
    program.desk.fail_over()
    assert spelled(program.join("b").active_tasks) == NOTHING, "the member may still run its tasks"
    fenced = program.beat("a", 2, NOTHING)
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert fenced.error_message == "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
    assert program.join("a").error_code == ErrorCode.NONE
    program.beat("b", 3, NOTHING)
    assert program.group.state.value == "Stable"
