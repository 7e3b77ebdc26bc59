"""Share groups under what members, time, administrators, a slow share coordinator and fail-over can do to them.

No member is given a partition without a state.  Every partition is read when things calm down.  Hard state is what the log replays to.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.coordinator.group.assignors import simple
from moldau.coordinator.group.assignors.model import Subscriber, TopicIdPartition, TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.share import ShareGroup
from moldau.errors import ErrorCode
from moldau.protocol.messages import alter_share_group_offsets as alter
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from proof.coordination import Asked, Desk, FixedTopics, MemoryLog

GROUP = "queue"
NAMES = ("orders", "payments", "returns")
MEMBERS = st.sampled_from(["a", "b", "c", "d"])
SUBSCRIPTIONS = st.sets(st.sampled_from(NAMES), min_size=1)
CLIENT = Client("client", "/127.0.0.1", 1)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=2), st.sets(st.integers(1, 3)), min_size=1, max_size=7),
    st.dictionaries(st.integers(1, 3), st.integers(0, 5)),
    st.data(),
)
def test_the_simple_assignor_leaves_nothing_unread(subscribed: dict[str, set[int]], sizes: dict[int, int], data: st.DataObject) -> None:
    assignable = {UUID(int=topic): [TopicIdPartition(UUID(int=topic), index) for index in range(size)] for topic, size in sizes.items()}
    everything = [partition for partitions in assignable.values() for partition in partitions]
    owned = st.sets(st.sampled_from(everything)) if everything else st.just(set[TopicIdPartition]())
    members = {
        name: Subscriber(frozenset(UUID(int=topic) for topic in topics), frozenset(data.draw(owned))) for name, topics in subscribed.items()
    }
    assignment = simple.assign(members, assignable)
    assert assignment.keys() == members.keys()
    for name, partitions in assignment.items():
        assert partitions <= set(everything)
        assert {partition.topic_id for partition in partitions} <= members[name].topic_ids
    for partition in everything:
        could = [name for name, member in members.items() if partition.topic_id in member.topic_ids]
        readers = [name for name in could if partition in assignment[name]]
        assert readers or not could, "every partition that somebody subscribes to is read"
    if len({member.topic_ids for member in members.values()}) == 1:
        loads = [len(partitions) for partitions in assignment.values()]
        assert max(loads) - min(loads) <= 1, "the loads of members differ by one partition at most"


def views(sizes: Mapping[str, int]) -> list[TopicView]:
    return [TopicView(UUID(int=number), name, size) for number, (name, size) in enumerate(sizes.items(), start=1)]


class ShareGroups(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.sizes = dict.fromkeys(NAMES, 2)
        self.topics = FixedTopics(*views(self.sizes))
        config = GroupCoordinatorConfig(share_assignment_interval_ms=500, share_max_size=3)
        environment = Environment(config, self.topics, lambda: UUID(int=1))
        self.desk = Desk(lambda: GroupMachine(environment), MemoryLog(commits_at_once=False))
        self.epochs: dict[str, int] = {}
        self.subscribed: dict[str, set[str]] = {}
        self.asked: list[Asked] = []

    @property
    def group(self) -> ShareGroup | None:
        group = self.desk.machine.group(GROUP)
        assert group is None or isinstance(group, ShareGroup)
        return group

    def send(self, member_id: str, epoch: int, names: Iterable[str] = ()) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, subscribed_topic_names=sorted(names) or None
        )
        asked = self.desk.ask(lambda token, now_ms: self.desk.machine.share_heartbeat(token, request, CLIENT, now_ms))
        self.asked.append(asked)
        self.desk.commit()
        answer = asked.answer
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        return answer

    @rule(member_id=MEMBERS, names=SUBSCRIPTIONS)
    def member_joins(self, member_id: str, names: set[str]) -> None:
        is_full = self.group is not None and member_id not in self.group.members and len(self.group.members) == 3
        answer = self.send(member_id, 0, names)
        if is_full:
            assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            return
        assert answer.error_code == ErrorCode.NONE
        self.epochs[member_id], self.subscribed[member_id] = answer.member_epoch, names

    @rule(member_id=MEMBERS, names=st.one_of(st.just(set[str]()), SUBSCRIPTIONS), is_lost=st.booleans())
    def member_reports(self, member_id: str, names: set[str], is_lost: bool) -> None:
        answer = self.send(member_id, self.epochs.get(member_id, 7), names)
        is_member = self.group is not None and member_id in self.group.members
        expected = {ErrorCode.NONE} if is_member else {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
        if answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH:
            del self.epochs[member_id]  # two answers in a row were lost
            assert self.group is not None
            return
        assert answer.error_code in expected
        if is_member:
            self.subscribed[member_id] = names or self.subscribed[member_id]
            if not is_lost:
                self.epochs[member_id] = answer.member_epoch

    @rule(member_id=MEMBERS)
    def member_leaves(self, member_id: str) -> None:
        was_member = self.group is not None and member_id in self.group.members
        assert (self.send(member_id, -1).error_code == ErrorCode.NONE) == was_member
        self.epochs.pop(member_id, None)

    @rule(fails=st.booleans())
    def share_coordinator_answers(self, fails: bool) -> None:
        self.answer_all(fails=fails)

    def answer_all(self, *, fails: bool) -> None:
        machine = self.desk.machine
        outcome = machine.share_states_not_begun if fails else machine.share_states_began
        for send in self.desk.sent:
            partitions = {each.topic_id: frozenset(one.partition for one in each.partitions) for each in send.request.topics}
            self.desk.ask(lambda token, now_ms, partitions=partitions: outcome(GROUP, partitions))  # type: ignore[misc]
        self.desk.sent.clear()
        self.desk.commit()

    @rule()
    def share_coordinator_is_lost(self) -> None:
        self.desk.sent.clear()

    @rule(name=st.sampled_from(NAMES))
    def topic_grows(self, name: str) -> None:
        self.sizes[name] = min(self.sizes[name] + 1, 5)
        self.topics.set(*views(self.sizes))

    @rule(name=st.sampled_from(NAMES), start=st.integers(0, 9))
    def offsets_are_altered(self, name: str, start: int) -> None:
        partitions = [alter.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start)]
        topics = [alter.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)]
        request = alter.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
        asked = self.desk.ask(lambda token, now_ms: self.desk.machine.alter_share_offsets(token, request, now_ms))
        self.desk.commit()
        is_busy = self.group is not None and bool(self.group.members)
        assert (asked.answer.response.error_code == ErrorCode.NON_EMPTY_GROUP) == is_busy
        if asked.answer.begin is not None:
            self.desk.sent.append(asked.answer.begin)

    @rule(elapsed_ms=st.sampled_from([100, 1_000, 20_000, 46_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.desk.advance(elapsed_ms)
        self.desk.commit()

    @rule()
    def coordinator_fails_over(self) -> None:
        self.desk.fail_over()

    @invariant()
    def only_states_that_have_begun_are_given_out(self) -> None:
        if self.group is not None:
            begun = {(topic_id, index) for topic_id, partitions in self.group.states.begun().items() for index in partitions}
            for partitions in self.group.target.values():
                assert partitions <= begun

    @invariant()
    def hard_state_is_what_the_log_says(self) -> None:
        replayed = self.desk.replayed().group(GROUP)
        if self.group is None:
            assert replayed is None
            return
        assert isinstance(replayed, ShareGroup)
        assert (replayed.members, replayed.target, replayed.states) == (self.group.members, self.group.target, self.group.states)
        assert (replayed.epoch, replayed.target_epoch) == (self.group.epoch, self.group.target_epoch)

    def teardown(self) -> None:
        """When everybody does what they should, every partition is read soon."""
        if not hasattr(self, "desk") or self.group is None or not self.group.members:
            return
        self.desk.sent.clear()
        self.desk.advance(31_000)
        for _ in range(4):
            for member_id, member in sorted(self.group.members.items()):
                assert self.send(member_id, member.epoch).error_code == ErrorCode.NONE
            self.answer_all(fails=False)
            self.desk.advance(1_000)
        names = {name for member in self.group.members.values() for name in member.topic_names}
        wanted = {partition for topic in views(self.sizes) if topic.name in names for partition in topic.partitions()}
        given_out = set().union(*(member.assigned for member in self.group.members.values()))
        assert given_out == wanted


TestShareGroups = ShareGroups.TestCase
