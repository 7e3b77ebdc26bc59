"""The consumer protocol (KIP-848), one group at a time."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from moldau.coordinator.group.assignors.model import TopicIdPartition, TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.consumer import ConsumerGroup, GroupState
from moldau.coordinator.group.consumer_member import Member, MemberState, current_record
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.membership import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from moldau.coordinator.group.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataValue,
)
from moldau.coordinator.outcome import CoordinatorRecord
from moldau.errors import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from proof.coordination import Desk, FixedTopics

GROUP = "readers"
SESSION_MS = 45_000
REBALANCE_MS = 60_000
ORDERS = TopicView(UUID(int=101), "orders", 4)
PAYMENTS = TopicView(UUID(int=102), "payments", 2)


def ids() -> Callable[[], UUID]:
    numbers = iter(range(1, 1_000))
    return lambda: UUID(int=next(numbers))


class Group:
    """A group whose members do what they are told at every heartbeat."""

    def __init__(self, *topics: TopicView, **config: Any) -> None:
        config.setdefault("consumer_assignment_interval_ms", 0)
        self.topics = FixedTopics(*(topics or (ORDERS,)))
        self.environment = Environment(GroupCoordinatorConfig(**config), self.topics, ids())
        self.desk = Desk(lambda: GroupMachine(self.environment))
        self.owned: dict[str, frozenset[TopicIdPartition]] = {}
        self.epochs: dict[str, int] = {}

    @property
    def group(self) -> ConsumerGroup:
        group = self.desk.machine.group(GROUP)
        assert isinstance(group, ConsumerGroup)
        return group

    def send(self, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)
        client = Client("client", "/127.0.0.1", 1)
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.consumer_heartbeat(token, request, client, now_ms)).answer
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def join(self, member_id: str, *names: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        answer = self.send(
            member_id,
            0,
            subscribed_topic_names=list(names or ("orders",)),
            rebalance_timeout_ms=REBALANCE_MS,
            topic_partitions=[],
            **fields,
        )
        self.take(member_id, answer)
        return answer

    def take(self, member_id: str, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            return
        self.epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[member_id] = frozenset(
                TopicIdPartition(each.topic_id, partition) for each in answer.assignment.topic_partitions for partition in each.partitions
            )

    def beat(self, member_id: str) -> ConsumerGroupHeartbeatResponse:
        owned: dict[UUID, list[int]] = {}
        for topic_id, partition in sorted(self.owned[member_id]):
            owned.setdefault(topic_id, []).append(partition)
        reported = [TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in owned.items()]
        answer = self.send(member_id, self.epochs[member_id], topic_partitions=reported)
        self.take(member_id, answer)
        return answer

    def settle(self) -> None:
        for _ in range(6):
            for member_id in list(self.owned):
                self.beat(member_id)
        assert self.group.state is GroupState.STABLE

    def counts(self) -> list[int]:
        return sorted(len(each) for each in self.owned.values())


def test_the_first_member_gets_everything_at_once() -> None:
    group = Group()
    answer = group.join("a")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 2)
    assert group.owned["a"] == set(ORDERS.partitions())
    assert group.group.state is GroupState.STABLE


@pytest.mark.parametrize(("members", "counts"), [(1, [4]), (2, [2, 2]), (4, [1, 1, 1, 1]), (5, [0, 1, 1, 1, 1])])
def test_four_partitions_are_shared_out(members: int, counts: list[int]) -> None:
    group = Group()
    for index in range(members):
        group.join(f"member-{index}")
        group.settle()
    assert group.counts() == counts


def test_a_partition_has_no_second_owner_before_the_first_gave_it_up() -> None:
    group = Group()
    group.join("a")
    group.join("b")
    assert group.owned["b"] == frozenset()
    group.beat("a")
    assert len(group.owned["a"]) == 2
    group.beat("b")
    assert group.owned["b"] == frozenset()
    group.beat("a")
    group.beat("b")
    assert group.owned["b"] == set(ORDERS.partitions()) - group.owned["a"]


def test_what_is_being_given_up_is_described_with_what_is_held() -> None:
    group = Group()
    group.join("a")
    group.join("b")
    group.send("a", 2)
    assert group.group.members["a"].pending_revocation
    described = group.group.describe().members[0]
    held, target = ([each.partitions for each in part.topic_partitions] for part in (described.assignment, described.target_assignment))
    assert (held, target) == ([[0, 1, 2, 3]], [[0, 1]])


def test_a_new_topic_moves_the_group_on() -> None:
    group = Group()
    group.join("a", "orders", "payments")
    epoch = group.group.epoch
    group.topics.set(ORDERS, PAYMENTS)
    group.beat("a")
    assert group.group.epoch == epoch + 1
    assert group.owned["a"] == {*ORDERS.partitions(), *PAYMENTS.partitions()}


def test_a_regular_expression_follows_the_topics() -> None:
    group = Group(ORDERS)
    answer = group.send("a", 0, subscribed_topic_regex="ord.*|pay.*", rebalance_timeout_ms=REBALANCE_MS, topic_partitions=[])
    group.take("a", answer)
    group.topics.set(ORDERS, PAYMENTS, TopicView(UUID(int=103), "disorders", 1))
    group.beat("a")
    assert group.owned["a"] == {*ORDERS.partitions(), *PAYMENTS.partitions()}


def test_an_expression_that_matches_nothing_is_no_news() -> None:
    group = Group()
    expression = {"subscribed_topic_regex": "pay.*", "rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": []}
    first = group.send("a", 0, **expression)
    assert (first.member_epoch, first.assignment.topic_partitions) == (1, [])  # type: ignore[union-attr]
    assert group.send("b", 0, **expression).member_epoch == 1
    group.topics.set(ORDERS, PAYMENTS)
    for member_id in "ab":
        given = group.send(member_id, 1)
        assert given.member_epoch == 2
        assert given.assignment is not None and len(given.assignment.topic_partitions[0].partitions) == 1
    group.topics.set(ORDERS)
    taken = group.send("a", 2)
    assert taken.assignment is not None and taken.assignment.topic_partitions == []
    assert list(group.desk.replayed().groups[GROUP].regexes) == ["pay.*"]  # type: ignore[union-attr]


def test_a_bad_regular_expression_is_refused() -> None:
    answer = Group().send("a", 0, subscribed_topic_regex="a(", rebalance_timeout_ms=REBALANCE_MS, topic_partitions=[])
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_leaving_hands_the_partitions_over() -> None:
    group = Group()
    group.join("a")
    group.join("b")
    group.settle()
    assert group.send("a", LEAVE_EPOCH).error_code == ErrorCode.NONE
    del group.owned["a"]
    group.settle()
    assert group.owned["b"] == set(ORDERS.partitions())


def test_a_silent_member_is_out_after_its_session() -> None:
    group = Group()
    group.join("a")
    group.join("b")
    group.settle()
    group.desk.advance(SESSION_MS - 1)
    group.beat("b")
    group.desk.advance(1)
    assert list(group.group.members) == ["b"]
    assert group.beat("a").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_give_up_partitions_in_time_is_out() -> None:
    group = Group(consumer_session_timeout_ms=SESSION_MS)
    group.join("a")
    group.join("b")
    group.send("a", group.epochs["a"])
    for _ in range(REBALANCE_MS // 10_000):
        group.desk.advance(10_000)
        group.send("a", group.epochs["a"])
        group.beat("b")
    assert list(group.group.members) == ["b"]


@pytest.mark.parametrize(("epoch", "error"), [(2, ErrorCode.NONE), (1, ErrorCode.FENCED_MEMBER_EPOCH), (3, ErrorCode.FENCED_MEMBER_EPOCH)])
def test_a_member_reports_at_its_epoch(epoch: int, error: ErrorCode) -> None:
    group = Group()
    group.join("a")
    assert group.send("a", epoch).error_code == error


def test_a_member_whose_last_answer_was_lost_is_not_fenced() -> None:
    group = Group()
    group.join("a")
    group.join("b")
    group.settle()
    lost = group.epochs["a"]
    group.send("b", LEAVE_EPOCH)
    group.beat("a")
    group.epochs["a"] = lost
    before = group.owned["a"]
    group.owned["a"] = frozenset(sorted(before)[:2])
    assert group.beat("a").error_code == ErrorCode.NONE


def test_a_static_member_comes_back_to_its_partitions() -> None:
    group = Group()
    group.join("a", instance_id="one")
    group.join("b", instance_id="two")
    group.settle()
    epoch = group.group.epoch
    mine = group.owned["a"]
    assert group.send("a", LEAVE_STATIC_EPOCH, instance_id="one").error_code == ErrorCode.NONE
    del group.owned["a"]
    group.join("c", instance_id="one")
    assert group.owned["c"] == mine
    assert group.group.epoch == epoch


def test_a_second_holder_of_an_instance_waits() -> None:
    group = Group()
    group.join("a", instance_id="one")
    assert group.join("b", instance_id="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_second_member_waits_for_the_next_assignment() -> None:
    group = Group(consumer_assignment_interval_ms=1_000)
    group.join("a")
    group.join("b")
    assert group.group.state is GroupState.ASSIGNING
    group.desk.advance(1_000)
    group.settle()
    assert group.counts() == [2, 2]


def test_who_goes_off_a_topic_is_rid_of_it_before_the_next_assignment() -> None:
    group = Group(ORDERS, PAYMENTS, consumer_assignment_interval_ms=1_000)
    group.desk.advance(1_000)
    group.join("a", "orders", "payments")
    told = group.send("a", 2, subscribed_topic_names=["orders"])
    assert (told.member_epoch, group.group.state) == (2, GroupState.ASSIGNING)
    group.take("a", told)
    assert {each.topic_id for each in group.owned["a"]} == {ORDERS.topic_id}
    assert group.group.members["a"].pending_revocation, "nobody else gets the partitions before the member says that it gave them up"
    group.beat("a")
    assert not group.group.members["a"].pending_revocation
    group.desk.advance(1_000)
    group.settle()
    assert group.epochs["a"] == 3
    assert len(group.owned["a"]) == ORDERS.partition_count


def test_after_a_fail_over_the_group_goes_on() -> None:
    group = Group()
    group.join("a")
    group.join("b")
    group.settle()
    owned = dict(group.owned)
    group.desk.fail_over()
    group.settle()
    assert group.owned == owned
    group.desk.advance(SESSION_MS)
    assert group.group.state is GroupState.EMPTY


def test_what_is_replayed_is_what_was_decided() -> None:
    group = Group(ORDERS, PAYMENTS)
    group.join("a", "orders")
    group.join("b", "orders", "payments", rack_id="east")
    group.beat("a")
    group.send("b", LEAVE_EPOCH)
    replayed = group.desk.replayed().groups[GROUP]
    assert isinstance(replayed, ConsumerGroup)
    replayed.topics_version = group.group.topics_version
    assert replayed == group.group


def test_a_classic_client_cannot_join_a_living_consumer_group_unasked() -> None:
    group = Group()
    group.join("a")
    listed = group.desk.ask(lambda token, now_ms: group.desk.machine.list_groups(token)).answer
    assert [(each.group_id, each.group_type, each.group_state) for each in listed] == [(GROUP, "consumer", "Stable")]


def test_a_late_report_gives_nothing_up() -> None:
    """The report was sent before the member was given a partition, and arrives when the member has it and is about to lose it."""
    group = Group()
    group.join("a")
    group.join("b")
    group.settle()
    late_epoch = group.epochs["a"]
    group.send("b", LEAVE_EPOCH)
    group.beat("a")
    assert len(group.owned["a"]) == 4 and group.epochs["a"] == late_epoch + 1
    group.join("c")
    group.send("a", late_epoch, topic_partitions=[])
    assert set(group.group.members["a"].holds()) == group.owned["a"]


def test_who_never_heard_what_it_was_given_is_told_that_first() -> None:
    group = Group()
    group.join("a")
    group.join("b")
    group.settle()
    kept = group.owned["a"]
    before = group.epochs["a"]
    group.send("b", LEAVE_EPOCH)
    group.beat("a")
    everything, group.owned["a"], group.epochs["a"] = group.owned["a"], kept, before  # the answer is lost
    group.join("c")
    told = group.beat("a")
    assert (told.member_epoch, group.owned["a"]) == (before + 1, everything), "otherwise it could not report what it is to give up"
    for _ in range(2):
        assert group.beat("a").error_code == ErrorCode.NONE
    assert (group.epochs["a"], len(group.owned["a"])) == (before + 2, 2)


def test_who_joins_again_is_given_at_once_what_is_there_for_it() -> None:
    group = Group(ORDERS, PAYMENTS)
    group.join("a", "orders")
    group.join("a", "orders", "payments")
    assert len(group.owned["a"]) == 6


def test_two_lost_answers_are_as_good_as_one() -> None:
    group = Group(ORDERS, PAYMENTS)
    group.join("a", "orders")
    before = group.epochs["a"]
    for member_id in ("b", "c", "d"):
        group.join(member_id, "payments")
        group.epochs["a"] = before
        told = group.beat("a")
        assert (told.error_code, told.member_epoch) == (ErrorCode.NONE, before + 1)
    assert group.beat("a").member_epoch == before + 3


def test_the_time_to_give_up_begins_anew_with_a_fail_over_and_when_it_is_told_anew() -> None:
    group = Group(consumer_session_timeout_ms=2 * REBALANCE_MS)
    group.join("a")
    group.join("b")
    group.send("a", group.epochs["a"])
    group.desk.advance(REBALANCE_MS - 1)
    group.join("a")  # it heard nothing, and begins again
    assert len(group.owned["a"]) == 4, "it keeps its partitions until it says that it gave them up"
    group.desk.advance(REBALANCE_MS - 1)
    assert "a" in group.group.members
    group.desk.fail_over()
    group.desk.advance(REBALANCE_MS - 1)
    assert "a" in group.group.members
    group.desk.advance(1)
    assert "a" not in group.group.members


def test_a_clock_that_is_set_back_holds_up_no_assignment() -> None:
    group = Group(consumer_assignment_interval_ms=1_000)
    group.join("a")
    group.desk.now_ms -= 3_000_000
    group.join("b")
    assert group.group.target_epoch == 3


def test_a_group_has_options_of_its_own() -> None:
    group = Group()
    group.environment.group_configs[GROUP] = {
        "consumer.session.timeout.ms": 50_000,
        "consumer.heartbeat.interval.ms": 7_000,
        "consumer.assignment.interval.ms": 3_000,
    }
    assert group.join("a").heartbeat_interval_ms == 7_000
    group.desk.advance(1_000)
    assert group.join("b").member_epoch == 2, "the next assignment is not due yet"
    group.desk.advance(SESSION_MS)
    assert group.group.members.keys() == {"a", "b"}
    group.beat("a")
    assert group.group.target_epoch == 3
    group.desk.advance(5_000)
    assert group.group.members.keys() == {"a"}


@pytest.mark.parametrize("epochs", [None, [], [3], [3, 4, 5]])
def test_a_record_whose_partitions_have_not_an_epoch_each_is_read_as_one_without(epochs: list[int] | None) -> None:
    """Kafka reads it so, too: one member's record must not keep the groups of its whole partition from being loaded."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=MemberState.STABLE,
        assigned_partitions=[
            ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(topic_id=ORDERS.topic_id, partitions=[0, 1], assignment_epochs=epochs)
        ],
        partitions_pending_revocation=[],
    )
    owned = Member("a").with_assignment(value).owned
    assert owned == {TopicIdPartition(ORDERS.topic_id, 0): 7, TopicIdPartition(ORDERS.topic_id, 1): 7}


@pytest.mark.parametrize(
    "written",
    [{"subscribed_topic_names": [], "subscribed_topic_regex": "["}, {"server_assignor": "org.example.OwnAssignor"}],
    ids=["an expression", "an assignor"],
)
def test_what_a_member_asked_for_elsewhere_and_is_none_here_keeps_nobody_from_joining(written: dict[str, object]) -> None:
    group = Group()
    group.join("a")
    (record,) = [
        entry
        for entry, _ in group.desk.log.entries
        if isinstance(entry, CoordinatorRecord) and isinstance(entry.value, ConsumerGroupMemberMetadataValue)
    ]
    assert isinstance(record.value, ConsumerGroupMemberMetadataValue)
    for field, value in written.items():
        setattr(record.value, field, value)
    group.desk.machine.replay(0, record, None)
    group.join("b")
    assert group.group.members.keys() == {"a", "b"}


def test_a_member_in_a_state_of_a_later_release_begins_again() -> None:
    """Kafka does the same: the group is loaded, nobody is given what the member holds, and the member is told to give all of it up."""
    group = Group()
    group.join("a")
    _write_state(group, "a", 99)
    group.join("b")
    assert group.owned["b"] == frozenset(), "the member may still read its partitions"
    fenced = group.send("a", group.epochs["a"], topic_partitions=[])
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert fenced.error_message == (
        "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
    )
    group.join("a")
    group.beat("b")
    assert {len(owned) for owned in group.owned.values()} == {2}
    assert group.group.state is GroupState.STABLE


def test_a_member_in_a_state_of_a_later_release_is_out_after_its_session() -> None:
    group = Group()
    group.join("a")
    _write_state(group, "a", 99)
    group.desk.advance(SESSION_MS)
    group.join("b")
    assert len(group.owned["b"]) == 4


def _write_state(group: Group, member_id: str, state: int) -> None:
    """Adds the member's assignment in another state to the log, and starts the coordinator again."""
    record = current_record(GROUP, group.group.members[member_id])
    assert isinstance(record.value, ConsumerGroupCurrentMemberAssignmentValue)
    record.value.state = state
    group.desk.log.entries.append((record, None))
    group.desk.fail_over()


def test_the_first_subscription_does_not_wait_for_the_assignment_interval() -> None:
    group = Group(consumer_assignment_interval_ms=10_000)
    joined = group.send("a", 0, subscribed_topic_names=[], rebalance_timeout_ms=REBALANCE_MS, topic_partitions=[])
    group.take("a", joined)
    assert (joined.member_epoch, group.group.target_epoch, group.group.target_timestamp_ms) == (1, 1, 0)
    subscribed = group.send("a", 1, subscribed_topic_names=["orders"], rebalance_timeout_ms=REBALANCE_MS, topic_partitions=[])
    group.take("a", subscribed)
    assert (subscribed.member_epoch, len(group.owned["a"])) == (2, 4)


def test_an_assignor_that_nobody_has_is_refused_before_the_group_is_looked_for() -> None:
    group = Group()
    assert group.send("a", 5, server_assignor="best").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert group.send("a", -1, server_assignor="").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
