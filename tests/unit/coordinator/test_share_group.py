"""Share groups (KIP-932) one at a time: the half that the group coordinator does."""

from typing import Any
from uuid import UUID

import pytest

from moldau.coordinator.group.assignors import simple
from moldau.coordinator.group.assignors.model import Subscriber, TopicIdPartition, TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.share import BeginStates, ShareGroup
from moldau.coordinator.group.share_offsets import Altered, Deletion
from moldau.errors import ErrorCode
from moldau.protocol.messages import alter_share_group_offsets as alter
from moldau.protocol.messages import delete_share_group_offsets as delete
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from proof.coordination import Desk, FixedTopics

GROUP = "queue"
SESSION_MS = 45_000
ORDERS = TopicView(UUID(int=101), "orders", 4)
PAYMENTS = TopicView(UUID(int=102), "payments", 2)
CLIENT = Client("client", "/127.0.0.1", 1)


class Queue:
    """A group, and a share coordinator that answers when `begin` is called."""

    def __init__(self, *topics: TopicView, **config: Any) -> None:
        config.setdefault("share_assignment_interval_ms", 0)
        self.topics = FixedTopics(*(topics or (ORDERS,)))
        self.environment = Environment(GroupCoordinatorConfig(**config), self.topics, lambda: UUID(int=1))
        self.desk = Desk(lambda: GroupMachine(self.environment))

    @property
    def group(self) -> ShareGroup:
        group = self.desk.machine.group(GROUP)
        assert isinstance(group, ShareGroup)
        return group

    def ask(self, name: str, *rest: Any) -> Any:
        return self.desk.ask(lambda token, now_ms: getattr(self.desk.machine, name)(token, *rest)).answer

    def send(self, member_id: str, epoch: int, *names: str, **fields: Any) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, subscribed_topic_names=list(names) or None, **fields
        )
        answer = self.desk.ask(lambda token, now_ms: self.desk.machine.share_heartbeat(token, request, CLIENT, now_ms)).answer
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        return answer

    def begin(self, *, fails: bool = False) -> list[BeginStates]:
        """The share coordinator answers the requests that were sent to it."""
        asked, self.desk.sent[:] = list(self.desk.sent), []
        for send in asked:
            partitions = {each.topic_id: frozenset(one.partition for one in each.partitions) for each in send.request.topics}
            outcome = "share_states_not_begun" if fails else "share_states_began"
            self.desk.ask(lambda token, now_ms, ps=partitions, o=outcome: getattr(self.desk.machine, o)(GROUP, ps))  # type: ignore[misc]
        return asked

    def settle(self, member_id: str, *names: str) -> ShareGroupHeartbeatResponse:
        """A member joins and is given its partitions."""
        joined = self.send(member_id, 0, *(names or ("orders",)))
        self.begin()
        return self.send(member_id, joined.member_epoch)


def owned(answer: ShareGroupHeartbeatResponse) -> list[tuple[int, int]]:
    assert answer.assignment is not None
    return [(each.topic_id.int, partition) for each in answer.assignment.topic_partitions for partition in each.partitions]


def test_partitions_are_assigned_once_their_states_have_begun() -> None:
    queue = Queue()
    joined = queue.send("a", 0, "orders")
    assert (joined.error_code, joined.member_epoch, owned(joined)) == (ErrorCode.NONE, 2, [])
    assert queue.send("a", 2).assignment is None, "nothing new"
    (asked,) = queue.begin()
    assert [(one.partition, one.start_offset, one.state_epoch) for one in asked.request.topics[0].partitions] == [
        (index, -1, 2) for index in range(4)
    ]
    settled = queue.send("a", 2)
    assert (settled.member_epoch, owned(settled)) == (3, [(101, index) for index in range(4)])
    assert queue.send("a", 3).assignment is None


def test_a_share_coordinator_that_fails_is_asked_again() -> None:
    queue = Queue()
    queue.send("a", 0, "orders")
    queue.begin(fails=True)
    queue.send("a", 2)
    assert len(queue.desk.sent) == 1, "it is asked again with the next heartbeat"
    queue.send("a", 2)
    assert len(queue.desk.sent) == 1, "it is not asked again while it is being asked"
    queue.desk.advance(20_000)
    queue.send("a", 2)
    queue.desk.advance(11_000)
    queue.send("a", 2)
    assert len(queue.desk.sent) == 2, "it is asked again if it never answers"
    queue.desk.fail_over()
    queue.send("a", 2)
    assert len(queue.desk.sent) == 3, "a new coordinator does not wait"


def test_a_topic_that_grows_is_begun_and_assigned() -> None:
    queue = Queue()
    queue.settle("a")
    queue.topics.set(ORDERS._replace(partition_count=5))
    queue.send("a", 3)
    (asked,) = queue.begin()
    assert [one.partition for one in asked.request.topics[0].partitions] == [4]
    settled = queue.send("a", queue.group.members["a"].epoch)
    assert owned(settled) == [(101, index) for index in range(5)]


def test_members_are_fenced_by_epoch_session_and_size() -> None:
    queue = Queue(share_max_size=1)
    queue.settle("a")
    assert queue.send("b", 0, "orders").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert queue.send("b", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert queue.send("a", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert queue.send("a", 4).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert queue.send("a", 2).error_code == ErrorCode.NONE, "its newer answer may have been lost"
    assert owned(queue.send("a", 0, "orders")) == [(101, index) for index in range(4)], "the member may forget everything and join again"
    queue.desk.advance(SESSION_MS - 1)
    assert queue.group.members
    queue.desk.advance(1)
    assert not queue.group.members
    assert queue.send("a", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_two_lost_answers_are_as_good_as_one() -> None:
    queue = Queue()
    before = queue.settle("a").member_epoch
    for member_id in ("b", "c"):
        queue.send(member_id, 0, "orders")
        told = queue.send("a", before)
        assert (told.error_code, told.member_epoch) == (ErrorCode.NONE, before + 1)
        assert owned(told), "the member is told what it never heard"
    assert queue.send("a", before + 1).member_epoch == before + 2


def test_a_session_outlives_fail_over_by_its_length() -> None:
    queue = Queue()
    queue.settle("a")
    queue.desk.fail_over()
    queue.desk.advance(SESSION_MS - 1)
    assert queue.group.members
    queue.desk.advance(1)
    assert queue.group.is_empty


def test_the_assignment_interval_holds_back() -> None:
    queue = Queue(share_assignment_interval_ms=1_000)
    joined = queue.send("a", 0, "orders")
    queue.begin()
    assert (joined.member_epoch, queue.send("a", 2).member_epoch) == (2, 2)
    queue.desk.advance(1_000)
    assert queue.send("a", 2).member_epoch == 3


def test_a_clock_that_is_put_back_holds_up_no_assignment() -> None:
    queue = Queue(share_assignment_interval_ms=1_000)
    queue.send("a", 0, "orders")
    queue.begin()
    queue.desk.now_ms -= 3_600_000
    assert queue.send("a", 2).member_epoch == 3


def test_what_a_group_was_given_holds() -> None:
    queue = Queue()
    queue.environment.group_configs[GROUP] = {"share.heartbeat.interval.ms": 7_000, "share.session.timeout.ms": 50_000}
    assert queue.settle("a").heartbeat_interval_ms == 7_000
    queue.desk.advance(SESSION_MS)
    assert queue.group.members


def test_leaving() -> None:
    queue = Queue()
    queue.settle("a")
    epoch = queue.group.epoch
    left = queue.send("a", -1)
    assert (left.error_code, left.member_epoch, queue.group.epoch) == (ErrorCode.NONE, -1, epoch + 1)
    assert queue.send("a", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert queue.desk.shard.next_due_ms() == queue.desk.now_ms + 600_000, "no session is left, only the search for expired offsets"


def test_other_protocols_have_no_group_of_that_name() -> None:
    queue = Queue()
    queue.settle("a")
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    assert queue.ask("join", join, CLIENT, 0).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    consumer = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="c", member_epoch=0)
    assert queue.ask("consumer_heartbeat", consumer, CLIENT, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert queue.ask("describe", GROUP, Client("", "", 6)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for group_id, what in ((GROUP, "is not a consumer group"), ("nosuch", "not found")):
        told = queue.ask("describe_of", group_id, ConsumerGroup, lambda *said: said)
        assert told == (group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
    (listed,) = queue.ask("list_groups")
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("share", "share", "Stable")


def test_an_empty_group_stays_until_it_is_deleted() -> None:
    queue = Queue()
    queue.settle("a")
    assert queue.ask("prepare_share_deletion", GROUP).error == ErrorCode.NON_EMPTY_GROUP
    assert queue.ask("delete_group", GROUP).error_code == ErrorCode.NON_EMPTY_GROUP
    queue.send("a", -1)
    queue.desk.advance(30 * 24 * 3600 * 1000)
    assert queue.group.is_empty
    deletion = queue.ask("prepare_share_deletion", GROUP)
    assert isinstance(deletion, Deletion)
    assert [(topic.topic_id.int, len(topic.partitions)) for topic in deletion.request.topics] == [(101, 4)]  # type: ignore[union-attr]
    assert not queue.group.states.initialized
    again = queue.ask("prepare_share_deletion", GROUP)
    assert again.request == deletion.request, "a request that was not answered is sent again"
    assert queue.ask("delete_group", GROUP).error_code == ErrorCode.NONE
    assert GROUP not in queue.desk.machine.groups
    assert not queue.desk.replayed().groups


def test_partitions_whose_offsets_are_altered_are_told_apart_by_their_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing each partition with all others took half a minute for as many as a request can name."""

    def compared(*_: object) -> bool:
        raise AssertionError("partitions are compared with each other")

    monkeypatch.setattr(alter.AlterShareGroupOffsetsRequestPartition, "__eq__", compared)
    partitions = [alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=index) for index in (0, 1, 0)]
    topic = alter.AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=partitions)
    altered = Queue(ORDERS).ask("alter_share_offsets", alter.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic]), 0)
    assert [one.error_code for one in altered.response.responses[0].partitions] == 3 * [ErrorCode.NONE]


def test_offsets_are_altered_and_deleted_of_a_group_without_members() -> None:
    queue = Queue(ORDERS, PAYMENTS)
    partitions = [alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=9) for index in (1, 4)]
    request = alter.AlterShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[alter.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions) for name in ("orders", "nothing")],
    )
    altered = queue.ask("alter_share_offsets", request, 0)
    assert isinstance(altered, Altered)
    assert altered.begin is not None
    codes = [one.error_code for topic in altered.response.responses for one in topic.partitions]
    assert codes == [ErrorCode.NONE, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3]
    assert [(one.partition, one.start_offset) for one in altered.begin.request.topics[0].partitions] == [(1, 9)]
    queue.desk.ask(lambda token, now_ms: queue.desk.machine.share_states_began(GROUP, {ORDERS.topic_id: frozenset({1})}))
    assert queue.ask("share_partitions", GROUP) == {ORDERS.topic_id: frozenset({1})}
    joined = queue.send("a", 0, "orders")
    assert owned(joined) == [(101, 1)], "partitions whose states have begun are assigned at once"
    assert queue.ask("alter_share_offsets", request, 0).response.error_code == ErrorCode.NON_EMPTY_GROUP
    forget = delete.DeleteShareGroupOffsetsRequest(
        group_id=GROUP, topics=[delete.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("orders", "payments", "nothing")]
    )
    assert queue.ask("delete_share_offsets", forget).error == ErrorCode.NON_EMPTY_GROUP
    queue.begin()
    queue.send("a", -1)
    deletion = queue.ask("delete_share_offsets", forget)
    assert [topic.topic_name for topic in deletion.unknown] == ["payments", "nothing"]
    assert len(deletion.request.topics[0].partitions) == 4
    assert set(queue.group.states.deleting) == {ORDERS.topic_id}
    queue.ask("share_offsets_deleted", GROUP, [ORDERS.topic_id])
    assert not queue.group.states.deleting
    assert queue.ask("delete_share_offsets", delete.DeleteShareGroupOffsetsRequest(group_id="other", topics=[])).error == (
        ErrorCode.GROUP_ID_NOT_FOUND
    )


def test_a_deleted_topic_is_forgotten() -> None:
    queue = Queue(ORDERS, PAYMENTS)
    queue.settle("a", "orders", "payments")
    queue.topics.set(PAYMENTS)
    queue.desk.ask(lambda token, now_ms: queue.desk.machine.forget_topics({ORDERS.topic_id}))
    assert set(queue.group.states.initialized) == {PAYMENTS.topic_id}
    assert owned(queue.send("a", 3)) == [(102, 0), (102, 1)]


def test_a_deletion_that_nobody_saw_does_no_harm() -> None:
    queue = Queue()
    queue.settle("a")
    again = ORDERS._replace(topic_id=UUID(int=103))
    queue.topics.set(again)
    queue.send("a", 3)
    queue.begin()
    assert owned(queue.send("a", 4, "orders")) == [(103, index) for index in range(4)]
    epoch = queue.group.epoch
    queue.send("a", epoch)
    queue.send("a", epoch)
    assert queue.group.epoch == epoch, "the states left of the old topic change no assignment"


def test_hard_state_is_what_the_log_says() -> None:
    queue = Queue(ORDERS, PAYMENTS)
    queue.settle("a", "orders")
    queue.settle("b", "payments")
    queue.send("a", -1)
    replayed = queue.desk.replayed().groups[GROUP]
    assert isinstance(replayed, ShareGroup)
    assert (replayed.members, replayed.target, replayed.states) == (queue.group.members, queue.group.target, queue.group.states)
    assert (replayed.epoch, replayed.target_epoch) == (queue.group.epoch, queue.group.target_epoch)


@pytest.mark.parametrize(("members", "partitions"), [(1, 4), (3, 4), (4, 4), (5, 4), (9, 4), (2, 0), (7, 1)])
def test_every_partition_is_read_and_no_member_idles(members: int, partitions: int) -> None:
    topic_id = UUID(int=1)
    given = [TopicIdPartition(topic_id, index) for index in range(partitions)]
    subscribers = {f"m{index}": Subscriber(frozenset({topic_id}), frozenset()) for index in range(members)}
    assignment = simple.assign(subscribers, {topic_id: given})
    readers = [sum(partition in each for each in assignment.values()) for partition in given]
    sizes = [len(each) for each in assignment.values()]
    sharing = -(-members // partitions) if partitions else 0
    assert readers == [sharing] * partitions
    assert max(sizes) - min(sizes) <= 1
    kept = simple.assign({name: Subscriber(frozenset({topic_id}), assignment[name]) for name in subscribers}, {topic_id: given})
    assert kept == assignment, "an even assignment stays"
