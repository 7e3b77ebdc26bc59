"""The classic protocol, one group at a time."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from moldau.coordinator.group.classic_state import GroupState
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Client, Environment, NoTopics
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from moldau.coordinator.outcome import CoordinatorRecord, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from proof.coordination import Asked, Desk

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 30_000


def ids() -> Callable[[], UUID]:
    numbers = iter(range(1, 1_000))
    return lambda: UUID(int=next(numbers))


def a_desk(**config: Any) -> Desk[GroupMachine]:
    config.setdefault("initial_rebalance_delay_ms", 0)
    environment = Environment(GroupCoordinatorConfig(**config), NoTopics(), ids())
    return Desk(lambda: GroupMachine(environment))


class Group:
    """The clients of one group."""

    def __init__(self, desk: Desk[GroupMachine], api_version: int = 9, *, rebalance_ms: int = REBALANCE_MS) -> None:
        self.desk = desk
        self.api_version = api_version
        self.rebalance_ms = rebalance_ms

    def ask_join(self, member_id: str = "", instance_id: str | None = None, protocols: tuple[str, ...] = ("range",)) -> Asked:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in protocols],
        )
        client = Client("client", "/127.0.0.1", self.api_version)
        return self.desk.ask(lambda token, now_ms: self.desk.machine.join(token, request, client, now_ms))

    def join_new(self, **how: Any) -> tuple[str, Asked]:
        """Joins as clients do: first for an id, then with the id."""
        member_id: str = self.ask_join(**how).answer.member_id
        return member_id, self.ask_join(member_id, **how)

    def sync(self, member_id: str, generation_id: int, assignments: dict[str, bytes] | None = None) -> Asked:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation_id,
            member_id=member_id,
            assignments=[SyncGroupRequestAssignment(member_id=key, assignment=each) for key, each in (assignments or {}).items()],
        )
        return self.desk.ask(lambda token, now_ms: self.desk.machine.sync(token, request, now_ms))

    def heartbeat(self, member_id: str, generation_id: int) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation_id, member_id=member_id)

        def operation(token: Token, now_ms: int) -> Any:
            return self.desk.machine.heartbeat(token, request, now_ms)

        return ErrorCode(self.desk.ask(operation).answer.error_code)

    def leave(self, member_id: str, instance_id: str | None = None) -> Any:
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id, group_instance_id=instance_id)])
        return self.desk.ask(lambda token, now_ms: self.desk.machine.leave(token, request, now_ms)).answer

    @property
    def state(self) -> GroupState:
        return self.desk.machine.group(GROUP).state

    def stable_with(self, count: int, **how: Any) -> tuple[list[str], int]:
        """Makes a group of `count` members, all assigned; returns their ids and the generation."""
        member_ids: list[str] = []
        for _ in range(count):
            new_id, newest = self.join_new(**how)
            rejoined = [self.ask_join(each) for each in member_ids]
            member_ids.append(new_id)
            answers = [each.answer for each in (*rejoined, newest)]
        generation_id = answers[-1].generation_id
        leader = answers[-1].leader
        for each in sorted(member_ids, key=lambda member_id: member_id == leader):
            self.sync(each, generation_id, {key: key.encode() for key in member_ids} if each == leader else None)
        assert self.state is GroupState.STABLE
        return member_ids, generation_id


def test_a_new_member_is_given_an_id_first() -> None:
    group = Group(a_desk())
    answer = group.ask_join().answer
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("client-")


def test_a_client_before_kip_394_is_in_at_once() -> None:
    group = Group(a_desk(), api_version=3)
    answer = group.ask_join().answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, answer.member_id)


def test_the_leader_sees_every_member_and_assigns_them() -> None:
    group = Group(a_desk())
    first, joined = group.join_new()
    leader: JoinGroupResponse = joined.answer
    assert [each.member_id for each in leader.members] == [first]
    assert group.state is GroupState.COMPLETING_REBALANCE
    synced = group.sync(first, leader.generation_id, {first: b"everything"}).answer
    assert (synced.error_code, synced.assignment, synced.protocol_name) == (ErrorCode.NONE, b"everything", "range")
    assert group.state is GroupState.STABLE


def test_followers_wait_for_the_leaders_assignment() -> None:
    group = Group(a_desk())
    first, _ = group.join_new()
    second, newest = group.join_new()
    rejoined = group.ask_join(first).answer
    assert newest.answer.members == []
    waiting = group.sync(second, rejoined.generation_id)
    assert not waiting.is_answered
    group.sync(first, rejoined.generation_id, {first: b"1", second: b"2"})
    assert waiting.answer.assignment == b"2"


def test_a_rebalance_ends_without_those_who_did_not_come_back() -> None:
    group = Group(a_desk())
    (first,), generation_id = group.stable_with(1)
    _, newest = group.join_new()
    assert group.heartbeat(first, generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(REBALANCE_MS // 5_000):
        group.desk.advance(5_000)
        group.heartbeat(first, generation_id)
    assert newest.answer.generation_id == generation_id + 1
    assert group.heartbeat(first, generation_id) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_rebalance_waits_for_more_members() -> None:
    group = Group(a_desk(initial_rebalance_delay_ms=3_000))
    _, first = group.join_new()
    group.desk.advance(2_000)
    _, second = group.join_new()
    group.desk.advance(2_000)
    assert not first.is_answered
    group.desk.advance(2_000)
    assert first.answer.generation_id == second.answer.generation_id == 1
    assert len(first.answer.members) == 2


def test_a_silent_member_is_out_after_its_session() -> None:
    group = Group(a_desk())
    (first, second), generation_id = group.stable_with(2)
    for _ in range(2):
        group.desk.advance(SESSION_MS - 1)
        group.heartbeat(first, generation_id)
    assert group.heartbeat(second, generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(first, generation_id) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_client_that_names_no_rebalance_timeout_has_its_session_to_sync() -> None:
    group = Group(a_desk(), rebalance_ms=0)
    member_id, joined = group.join_new()
    group.desk.advance(SESSION_MS - 1)
    assert group.sync(member_id, joined.answer.generation_id, {member_id: b"1"}).answer.assignment == b"1"
    late = Group(a_desk(), rebalance_ms=0)
    member_id, joined = late.join_new()
    late.desk.advance(SESSION_MS)
    assert late.sync(member_id, joined.answer.generation_id).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_is_never_used_does_not_hold_up_a_rebalance_for_ever() -> None:
    group = Group(a_desk())
    (first,), generation_id = group.stable_with(1)
    group.ask_join()
    rejoining = group.ask_join(first)
    assert not rejoining.is_answered
    group.desk.advance(SESSION_MS)
    assert rejoining.answer.generation_id == generation_id + 1


def test_the_last_one_out_leaves_an_empty_group_of_the_next_generation() -> None:
    group = Group(a_desk())
    (first,), generation_id = group.stable_with(1)
    assert group.leave(first).members[0].error_code == ErrorCode.NONE
    assert group.state is GroupState.EMPTY
    assert group.desk.machine.group(GROUP).generation_id == generation_id + 1


@pytest.mark.parametrize(
    ("generation_offset", "member", "error"),
    [
        (1, "known", ErrorCode.ILLEGAL_GENERATION),
        (-1, "known", ErrorCode.ILLEGAL_GENERATION),
        (0, "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        (0, "known", ErrorCode.NONE),
    ],
)
def test_a_heartbeat_names_its_generation(generation_offset: int, member: str, error: ErrorCode) -> None:
    group = Group(a_desk())
    (first,), generation_id = group.stable_with(1)
    assert group.heartbeat(first if member == "known" else "x", generation_id + generation_offset) is error


def test_protocols_without_one_in_common_are_refused() -> None:
    group = Group(a_desk())
    group.stable_with(1)
    assert group.ask_join(protocols=("sticky",)).answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_most_members_prefer_is_chosen() -> None:
    group = Group(a_desk())
    first, _ = group.join_new(protocols=("range", "sticky"))
    _, second = group.join_new(protocols=("sticky", "range"))
    _, third = group.join_new(protocols=("sticky", "range"))
    group.ask_join(first, protocols=("range", "sticky"))
    assert second.answer.protocol_name == third.answer.protocol_name == "sticky"


def test_a_full_group_takes_nobody() -> None:
    group = Group(a_desk(max_size=1))
    group.stable_with(1)
    assert group.ask_join().answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    group = Group(a_desk())
    joined = group.ask_join(instance_id="one").answer
    group.sync(joined.member_id, joined.generation_id, {joined.member_id: b"mine"})
    again = group.ask_join(instance_id="one").answer
    assert (again.generation_id, again.skip_assignment) == (joined.generation_id, True)
    assert again.member_id != joined.member_id
    assert group.sync(again.member_id, again.generation_id).answer.assignment == b"mine"
    assert group.ask_join(joined.member_id, instance_id="one").answer.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_absent_static_members_without_a_rebalance_timeout_are_not_looked_for_without_end() -> None:
    members = [
        MemberMetadata(
            member_id=name,
            group_instance_id=instance,
            client_id="c",
            client_host="/h",
            rebalance_timeout=0,
            session_timeout=session_ms,
            subscription=b"",
            assignment=b"",
        )
        for name, instance, session_ms in (("static", "i", 30_000), ("leader", None, 10_000))
    ]
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="leader", members=members)
    desk = a_desk()
    desk.log.entries.append((CoordinatorRecord(GroupMetadataKey(group=GROUP), value), None))
    desk.fail_over()
    desk.now_ms += 10_000
    desk.shard.fire(desk.now_ms)
    due_ms = desk.shard.next_due_ms()
    assert due_ms is not None and due_ms > desk.now_ms
    desk.advance(20_000)
    assert desk.machine.group(GROUP).is_empty


def test_an_assignment_that_is_too_large_is_refused_and_a_smaller_one_taken() -> None:
    group = Group(a_desk())
    members, generation_id = group.stable_with(2)
    for member_id in members:
        group.ask_join(member_id, protocols=("range", "sticky"))
    generation_id += 1
    leader, follower = members
    waiting = group.sync(follower, generation_id)
    group.desk.log.failure = ErrorCode.MESSAGE_TOO_LARGE
    refused = group.sync(leader, generation_id, {follower: b"huge"})
    group.desk.log.failure = None
    assert refused.answer is waiting.answer is ErrorCode.MESSAGE_TOO_LARGE
    assert group.state is GroupState.PREPARING_REBALANCE
    assert group.heartbeat(follower, generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = [group.ask_join(member_id) for member_id in members]
    generation_id = joined[0].answer.generation_id
    group.sync(leader, generation_id, {follower: b"small"})
    assert group.sync(follower, generation_id).answer.assignment == b"small"


def test_a_first_assignment_that_is_too_large_leaves_a_group_that_goes_on() -> None:
    group = Group(a_desk())
    first, joined = group.join_new()
    group.desk.log.failure = ErrorCode.RECORD_LIST_TOO_LARGE
    assert group.sync(first, joined.answer.generation_id, {first: b"huge"}).answer is ErrorCode.RECORD_LIST_TOO_LARGE
    group.desk.log.failure = None
    again = group.ask_join(first).answer
    assert group.sync(first, again.generation_id, {first: b"small"}).answer.assignment == b"small"


def test_a_static_member_whose_return_is_not_stored_may_return_again() -> None:
    group = Group(a_desk())
    old = group.ask_join(instance_id="one").answer
    group.sync(old.member_id, old.generation_id, {old.member_id: b"mine"})
    group.desk.log.failure = ErrorCode.MESSAGE_TOO_LARGE
    assert group.ask_join(instance_id="one").answer is ErrorCode.MESSAGE_TOO_LARGE
    group.desk.log.failure = None
    assert group.heartbeat(old.member_id, old.generation_id) is ErrorCode.NONE
    again = group.ask_join(instance_id="one").answer
    assert group.sync(again.member_id, again.generation_id).answer.assignment == b"mine"


def test_members_whose_end_is_not_stored_are_out_when_their_next_session_ends() -> None:
    group = Group(a_desk())
    (first,), generation_id = group.stable_with(1)
    group.desk.log.failure = ErrorCode.MESSAGE_TOO_LARGE
    group.desk.advance(SESSION_MS)
    group.desk.log.failure = None
    assert group.heartbeat(first, generation_id) is ErrorCode.NONE
    group.desk.advance(SESSION_MS)
    assert group.state is GroupState.EMPTY


def test_after_a_fail_over_a_stable_group_goes_on() -> None:
    group = Group(a_desk())
    (first,), generation_id = group.stable_with(1)
    group.desk.fail_over()
    assert group.state is GroupState.STABLE
    assert group.heartbeat(first, generation_id) is ErrorCode.NONE
    assert group.sync(first, generation_id).answer.assignment == first.encode()
    group.desk.advance(SESSION_MS)
    assert group.state is GroupState.EMPTY


def test_a_fail_over_sends_away_those_who_wait() -> None:
    group = Group(a_desk())
    group.stable_with(1)
    _, waiting = group.join_new()
    group.desk.fail_over()
    assert waiting.answer is ErrorCode.NOT_COORDINATOR


def test_assignments_are_described_through_a_rebalance() -> None:
    group = Group(a_desk())
    (first,), _ = group.stable_with(1)
    group.join_new()
    described = group.desk.ask(lambda token, _: group.desk.machine.describe(token, GROUP, Client("c", "/h", 5))).answer
    assert (described.group_state, {each.member_id: each.member_assignment for each in described.members}[first]) == (
        "PreparingRebalance",
        first.encode(),
    )


def test_a_member_of_no_group_is_unknown_whatever_it_brings() -> None:
    group = Group(a_desk())
    assert group.ask_join("nobody", protocols=()).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
