"""A group changes its protocol while its members stay (KIP-848)."""

from typing import Any
from uuid import UUID

import pytest

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.classic import ClassicGroup
from moldau.coordinator.group.classic_state import GroupState
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.errors import ErrorCode
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.stored import decode_versioned, encode_versioned
from proof.coordination import Asked, Desk

GROUP = "readers"
ORDERS = TopicView(UUID(int=101), "orders", 4)
CLIENT = Client("client", "/127.0.0.1", 9)
SESSION_MS, REBALANCE_MS = 10_000, 30_000


class OneTopic:
    version = 1

    def by_name(self, name: str) -> TopicView | None:
        return ORDERS if name == ORDERS.name else None

    def by_id(self, topic_id: UUID) -> TopicView | None:
        return ORDERS if topic_id == ORDERS.topic_id else None

    def names(self) -> list[str]:
        return [ORDERS.name]


class Group:
    def __init__(self, **config: Any) -> None:
        numbers = iter(range(1, 1_000))
        config = {"initial_rebalance_delay_ms": 0, "consumer_assignment_interval_ms": 0, **config}
        environment = Environment(GroupCoordinatorConfig(**config), OneTopic(), lambda: UUID(int=next(numbers)))
        self.desk = Desk(lambda: GroupMachine(environment))

    @property
    def group(self) -> Any:
        return self.desk.machine.group(GROUP)

    def ask(self, name: str, request: Any, *rest: Any) -> Asked:
        return self.desk.ask(lambda token, now_ms: getattr(self.desk.machine, name)(token, request, *rest, now_ms))

    def ask_join(
        self,
        member_id: str = "",
        owned: tuple[int, ...] = (),
        instance_id: str | None = None,
        *,
        protocol: str = "range",
        metadata: bytes | None = None,
    ) -> Asked:
        owns = [TopicPartition(topic="orders", partitions=list(owned))] if owned else []
        if metadata is None:
            metadata = encode_versioned(ConsumerProtocolSubscription(topics=["orders"], owned_partitions=owns), 1)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=protocol, metadata=metadata)],
        )
        return self.ask("join", request, CLIENT)

    def sync(
        self, member_id: str, generation_id: int, assignments: dict[str, list[int]] | None = None, user_data: bytes | None = None
    ) -> Any:
        encoded = {
            key: encode_versioned(
                ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="orders", partitions=indexes)], user_data=user_data),
                1,
            )
            for key, indexes in (assignments or {}).items()
        }
        given = [SyncGroupRequestAssignment(member_id=key, assignment=each) for key, each in encoded.items()]
        request = SyncGroupRequest(group_id=GROUP, generation_id=generation_id, member_id=member_id, assignments=given)
        return self.ask("sync", request).answer

    def classic_heartbeat(self, member_id: str, generation_id: int) -> ErrorCode:
        return ErrorCode(
            self.ask("heartbeat", HeartbeatRequest(group_id=GROUP, generation_id=generation_id, member_id=member_id)).answer.error_code
        )

    def heartbeat(self, member_id: str, epoch: int, owned: tuple[int, ...] = (), instance_id: str | None = None) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            instance_id=instance_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=["orders"],
            topic_partitions=[TopicPartitions(topic_id=ORDERS.topic_id, partitions=list(owned))] if owned else [],
        )
        return self.ask("consumer_heartbeat", request, Client("client", "/127.0.0.1", 1)).answer

    def classic_member(self, user_data: bytes | None = None) -> tuple[str, int]:
        """Joins one classic member, which is stable and has all four partitions."""
        member_id = self.ask_join().answer.member_id
        joined = self.ask_join(member_id).answer
        self.sync(member_id, joined.generation_id, {member_id: [0, 1, 2, 3]}, user_data)
        return member_id, joined.generation_id


def partitions(synced: Any) -> list[int]:
    assignment = decode_versioned(ConsumerProtocolAssignment, synced.assignment)
    return sorted(index for topic in assignment.assigned_partitions for index in topic.partitions)


def upgraded(group: Group) -> tuple[str, int]:
    member_id, generation_id = group.classic_member()
    answer = group.heartbeat("new", 0)
    assert answer.error_code == ErrorCode.NONE
    assert isinstance(group.group, ConsumerGroup)
    return member_id, generation_id


def test_the_first_consumer_member_upgrades_the_group() -> None:
    group = Group()
    old, generation_id = upgraded(group)
    assert list(group.group.members) == [old, "new"]
    assert len(group.group.members[old].owned) == 4, "the classic member keeps all partitions until it is told to give some up"
    assert group.heartbeat("new", group.group.members["new"].epoch).assignment.topic_partitions == []
    assert group.classic_heartbeat(old, generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = group.ask_join(old, owned=(0, 1, 2, 3)).answer
    assert (joined.leader, joined.members) == ("", [])
    kept = partitions(group.sync(old, joined.generation_id))
    assert len(kept) == 2, "it is told to give two up"
    assert group.classic_heartbeat(old, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS, "it has yet to say that it did"
    again = group.ask_join(old, owned=tuple(kept)).answer
    assert partitions(group.sync(old, again.generation_id)) == kept
    assert group.classic_heartbeat(old, again.generation_id) is ErrorCode.NONE
    taken = group.heartbeat("new", group.group.members["new"].epoch).assignment.topic_partitions[0].partitions
    assert sorted([*taken, *kept]) == [0, 1, 2, 3]


def test_the_group_survives_a_fail_over_half_way() -> None:
    group = Group()
    old, _ = upgraded(group)
    live = group.group
    group.desk.fail_over()
    assert group.group.members == live.members
    assert group.group.members[old].classic.session_timeout_ms == SESSION_MS


def test_whoever_waits_for_the_old_rebalance_is_sent_back() -> None:
    group = Group()
    group.classic_member()
    second = group.ask_join().answer.member_id
    waiting = group.ask_join(second)
    assert not waiting.is_answered
    assert group.heartbeat("new", 0).error_code == ErrorCode.NONE
    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_can_forbid_it(policy: str) -> None:
    group = Group(consumer_migration_policy=policy)
    group.classic_member()
    assert group.heartbeat("new", 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(group.group, ClassicGroup)


def test_what_an_assignor_of_their_own_tells_its_members_would_be_lost() -> None:
    group = Group()
    group.classic_member(user_data=b"mine")
    refused = group.heartbeat("new", 0)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "unsupported custom assignor" in refused.error_message
    assert isinstance(group.group, ClassicGroup)


def test_what_members_are_only_told_back_stands_in_nobodys_way() -> None:
    """Such user data comes from the sticky assignor of librdkafka."""
    group = Group()
    metadata = encode_versioned(ConsumerProtocolSubscription(topics=["orders"], user_data=b"mine"), 1)
    member_id = group.ask_join(metadata=metadata).answer.member_id
    joined = group.ask_join(member_id, metadata=metadata).answer
    group.sync(member_id, joined.generation_id, {member_id: [0, 1, 2, 3]}, b"mine")
    assert group.heartbeat("new", 0).error_code == ErrorCode.NONE
    assert isinstance(group.group, ConsumerGroup)


def test_the_last_consumer_member_that_leaves_takes_the_protocol_along() -> None:
    group = Group()
    old, _ = upgraded(group)
    assert group.heartbeat("new", -1).error_code == ErrorCode.NONE
    assert isinstance(group.group, ClassicGroup)
    group.desk.advance(0)
    assert group.group.state is GroupState.PREPARING_REBALANCE
    generation_id = group.group.generation_id
    assert group.classic_heartbeat(old, generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = group.ask_join(old).answer
    assert (joined.leader, joined.generation_id) == (old, generation_id + 1)
    assert isinstance(group.desk.replayed().groups[GROUP], ClassicGroup)


def test_an_upgrade_that_is_not_stored_leaves_the_group_as_it_was() -> None:
    group = Group()
    old, generation_id = group.classic_member()
    group.desk.log.failure = ErrorCode.MESSAGE_TOO_LARGE
    assert group.heartbeat("new", 0) is ErrorCode.MESSAGE_TOO_LARGE
    group.desk.log.failure = None
    assert isinstance(group.group, ClassicGroup)
    assert group.classic_heartbeat(old, generation_id) is ErrorCode.NONE
    assert group.heartbeat("new", 0).error_code == ErrorCode.NONE
    assert group.group.members.keys() == {"new", old}


def test_a_downgrade_that_is_not_stored_leaves_the_group_as_it_was() -> None:
    group = Group()
    old, _ = upgraded(group)
    group.desk.log.failure = ErrorCode.MESSAGE_TOO_LARGE
    assert group.heartbeat("new", -1) is ErrorCode.MESSAGE_TOO_LARGE
    group.desk.log.failure = None
    assert isinstance(group.group, ConsumerGroup)
    assert group.heartbeat("new", -1).error_code == ErrorCode.NONE
    assert isinstance(group.group, ClassicGroup)
    group.desk.advance(0)
    assert group.ask_join(old).answer.leader == old


def test_without_leave_to_go_back_the_group_stays() -> None:
    group = Group(consumer_migration_policy="upgrade")
    old, _ = upgraded(group)
    group.heartbeat("new", -1)
    assert list(group.group.members) == [old]
    assert isinstance(group.group, ConsumerGroup)


def test_a_classic_member_that_does_not_come_back_is_out() -> None:
    group = Group()
    old, generation_id = upgraded(group)
    for _ in range(7):
        assert group.classic_heartbeat(old, generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
        group.heartbeat("new", group.group.members["new"].epoch)
        group.desk.advance(5_000)
        if old not in group.group.members:
            break
    assert list(group.group.members) == ["new"], "heartbeats do not put the rebalance time-out off"


def test_a_classic_member_joins_again_once_that_brings_something() -> None:
    group = Group(consumer_assignment_interval_ms=1_000)
    group.desk.advance(1_000)
    group.heartbeat("new", 0)
    member_id = group.ask_join().answer.member_id
    joined = group.ask_join(member_id).answer
    assert group.group.epoch > group.group.target_epoch == joined.generation_id
    assert partitions(group.sync(member_id, joined.generation_id)) == []
    assert group.classic_heartbeat(member_id, joined.generation_id) is ErrorCode.NONE
    group.desk.advance(1_000)
    assert group.classic_heartbeat(member_id, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.ask_join(member_id).answer
    assert again.generation_id == group.group.target_epoch == group.group.epoch


def test_a_silent_classic_member_is_out_after_its_own_session() -> None:
    group = Group()
    upgraded(group)
    group.desk.advance(SESSION_MS + 1)
    assert list(group.group.members) == ["new"]


def test_a_classic_member_can_join_and_leave_a_consumer_group() -> None:
    group = Group()
    group.heartbeat("new", 0)
    member_id = group.ask_join().answer.member_id
    joined = group.ask_join(member_id).answer
    assert joined.error_code == ErrorCode.NONE
    request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)])
    assert group.ask("leave", request).answer.members[0].error_code == ErrorCode.NONE
    assert list(group.group.members) == ["new"]


def test_a_static_member_comes_back_to_a_full_group() -> None:
    group = Group(consumer_max_size=2)
    group.heartbeat("new", 0)
    first = group.ask_join(instance_id="one").answer
    assert group.ask_join(instance_id="two").answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    again = group.ask_join(instance_id="one").answer
    assert again.error_code == ErrorCode.NONE
    assert again.member_id != first.member_id
    assert sorted(group.group.members) == sorted(["new", again.member_id])


def test_a_member_of_the_consumer_protocol_is_stored_as_one() -> None:
    """Kafka takes the member for a classic one without protocols if the record leaves this out."""
    group = Group()
    group.heartbeat("new", 0)
    values = [entry[0].value for entry in group.desk.log.entries if hasattr(entry[0].value, "classic_member_metadata")]  # type: ignore[union-attr]
    assert [value.classic_member_metadata for value in values] == [None]  # type: ignore[union-attr]


def test_an_empty_group_takes_the_first_members_protocol_and_forgets_the_other_one() -> None:
    """The end of the old group must not take the new group along."""
    group = Group(initial_rebalance_delay_ms=1_000)
    group.heartbeat("new", 0)
    group.heartbeat("new", -1)
    assert isinstance(group.group, ConsumerGroup)
    member_id = group.ask_join().answer.member_id
    asked = group.ask_join(member_id)
    assert isinstance(group.group, ClassicGroup)
    group.desk.advance(1_000)
    assert asked.answer.error_code == ErrorCode.NONE
    assert list(group.group.members) == [member_id]


def test_a_classic_group_that_was_replaced_has_no_say_any_more() -> None:
    group = Group(initial_rebalance_delay_ms=1_000)
    group.ask_join(group.ask_join().answer.member_id)
    group.desk.advance(1_000)
    group.desk.advance(SESSION_MS + REBALANCE_MS)
    assert group.group.state is GroupState.EMPTY
    group.heartbeat("new", 0)
    group.desk.advance(30_000)
    assert isinstance(group.group, ConsumerGroup)
    assert list(group.group.members) == ["new"]


def test_a_fail_over_between_downgrade_and_rebalance_gives_nobody_what_another_holds() -> None:
    group = Group()
    old, _ = upgraded(group)
    group.heartbeat("new", -1)
    group.desk.fail_over()
    assert isinstance(group.group, ClassicGroup)
    group.desk.advance(0)
    assert group.group.state is GroupState.PREPARING_REBALANCE, "the rebalance was about to begin"
    assert partitions(group.group.members[old]) == [0, 1, 2, 3], "the member keeps what it held"


def test_where_groups_do_not_change_their_protocol_nobody_joins_with_the_other() -> None:
    group = Group(consumer_migration_policy="disabled")
    group.heartbeat("new", 0)
    refused = group.ask_join().answer
    assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_who_is_refused_is_told_no_member_id() -> None:
    group = Group()
    group.heartbeat("new", 0)
    first = group.ask_join().answer.member_id
    group.ask_join(first)
    assert group.ask_join("late", instance_id="nobody").answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    refused = group.ask_join("late", protocol="sticky").answer
    assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_a_member_id_is_given_out_before_the_subscription_is_read() -> None:
    group = Group()
    group.heartbeat("new", 0)
    given = group.ask_join(metadata=b"").answer
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert group.ask_join(given.member_id).answer.error_code == ErrorCode.NONE


def test_the_last_consumer_member_that_comes_back_as_a_classic_one_takes_the_protocol_along() -> None:
    """Static members do not say that they leave."""
    group = Group()
    old, _ = group.classic_member()
    group.heartbeat("new", 0, instance_id="one")
    epoch = group.group.epoch
    joined = group.ask_join(instance_id="one").answer
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.NONE, epoch, "")
    assert isinstance(group.group, ClassicGroup)
    assert sorted(group.group.members) == sorted([old, joined.member_id])
    assert group.group.members[joined.member_id].group_instance_id == "one"
    group.desk.advance(0)
    assert group.group.state is GroupState.PREPARING_REBALANCE
    assert group.classic_heartbeat(joined.member_id, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    waiting = [group.ask_join(old), group.ask_join(joined.member_id, instance_id="one")]
    assert [asked.answer.generation_id for asked in waiting] == [epoch + 1, epoch + 1]
    assert sorted(group.desk.replayed().groups[GROUP].members) == sorted([old, joined.member_id])


def test_without_leave_to_go_back_a_static_member_changes_its_protocol_alone() -> None:
    group = Group(consumer_migration_policy="upgrade")
    old, _ = group.classic_member()
    group.heartbeat("new", 0, instance_id="one")
    joined = group.ask_join(instance_id="one").answer
    assert isinstance(group.group, ConsumerGroup)
    assert sorted(group.group.members) == sorted([old, joined.member_id])
