"""Committed offsets are forgotten by offsets.retention.minutes and the rules of KIP-211, and at times that clients ask for."""

from typing import Any
from uuid import UUID

import pytest

from moldau.config import MAX_LONG
from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.classic import ClassicGroup
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.offsets import commit_record
from moldau.coordinator.group.records import LegacyOffsetCommitKey, LegacyOffsetCommitValue, OffsetCommitValue
from moldau.coordinator.outcome import CoordinatorRecord, ProducerIdAndEpoch
from moldau.errors import ErrorCode
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.stored import decode_versioned, encode_versioned
from moldau.types import TopicPartition
from proof.coordination import Desk, FixedTopics, MemoryLog

GROUP = "readers"
MINUTE_MS = 60_000
RETENTION_MINUTES, CHECK_MINUTES = 100, 10
TOPICS = {name: TopicView(UUID(int=100 + number), name, 2) for number, name in enumerate(("orders", "payments"))}
CLIENT = Client("client", "/127.0.0.1", 9)


class Group:
    def __init__(self) -> None:
        config = GroupCoordinatorConfig.load(
            {
                "offsets.retention.minutes": str(RETENTION_MINUTES),
                "offsets.retention.check.interval.ms": str(CHECK_MINUTES * MINUTE_MS),
                "group.initial.rebalance.delay.ms": "0",
                "group.consumer.assignment.interval.ms": "0",
            }
        )
        numbers = iter(range(1, 1_000))
        environment = Environment(config, FixedTopics(*TOPICS.values()), lambda: UUID(int=next(numbers)))
        self.new_machine = lambda: GroupMachine(environment)
        self.desk = Desk(self.new_machine)

    def ask(self, name: str, request: Any, *rest: Any) -> Any:
        return self.desk.ask(lambda token, now_ms: getattr(self.desk.machine, name)(token, request, *rest, now_ms)).answer

    def commit(self, topic: str, *, member_id: str = "", epoch: int = -1, retention_ms: int = -1) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        answer = self.ask("commit_offsets", request, CLIENT)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    def join(self, *topics: str) -> tuple[str, int]:
        metadata = encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 1)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=1_000_000_000,
            rebalance_timeout_ms=1_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = self.ask("join", request, Client("client", "/127.0.0.1", 3))
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        request = SyncGroupRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[assignment])
        self.ask("sync", request)
        return joined.member_id, joined.generation_id

    def leave(self, member_id: str) -> None:
        self.ask("leave", LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)]))

    def after(self, minutes: float) -> set[str]:
        """Topics that still have an offset after so many minutes."""
        self.desk.advance(int(minutes * MINUTE_MS))
        assert self.desk.machine.offsets.committed(GROUP) == self.desk.replayed().offsets.committed(GROUP)
        return {partition.topic for partition in self.desk.machine.offsets.committed(GROUP)}


def test_without_members_the_commit_counts() -> None:
    group = Group()
    group.commit("orders")
    assert group.after(60) == {"orders"}
    group.commit("payments")
    assert group.after(39) == {"orders", "payments"}
    assert group.after(CHECK_MINUTES + 1) == {"payments"}
    assert group.after(60) == set()
    assert GROUP not in group.desk.machine.groups


def test_a_group_at_work_keeps_what_it_reads_and_forgets_what_it_reads_no_more() -> None:
    group = Group()
    member_id, generation_id = group.join("orders")
    for topic in TOPICS:
        group.commit(topic, member_id=member_id, epoch=generation_id)
    assert group.after(RETENTION_MINUTES - 1) == {"orders", "payments"}
    assert group.after(CHECK_MINUTES + 1) == {"orders"}
    assert group.after(10 * RETENTION_MINUTES) == {"orders"}


def test_after_the_last_member_the_time_counts_from_when_it_left() -> None:
    group = Group()
    member_id, generation_id = group.join("orders")
    group.commit("orders", member_id=member_id, epoch=generation_id)
    group.after(5 * RETENTION_MINUTES)
    group.leave(member_id)
    assert group.after(RETENTION_MINUTES - 1) == {"orders"}
    assert GROUP in group.desk.machine.groups
    assert group.after(CHECK_MINUTES + 1) == set()
    assert GROUP not in group.desk.machine.groups, "a group with nothing left is forgotten too"
    assert GROUP not in group.desk.replayed().groups


def test_a_group_that_is_rebalancing_keeps_everything() -> None:
    group = Group()
    member_id, generation_id = group.join("orders")
    for topic in TOPICS:
        group.commit(topic, member_id=member_id, epoch=generation_id)
    group.desk.advance((RETENTION_MINUTES - 1) * MINUTE_MS)
    metadata = encode_versioned(ConsumerProtocolSubscription(topics=["orders"]), 1)
    waiting = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=1_000_000_000,
        rebalance_timeout_ms=1_000_000_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    group.desk.ask(lambda token, now_ms: group.desk.machine.join(token, waiting, Client("other", "/127.0.0.1", 3), now_ms))
    assert group.after(CHECK_MINUTES + 5) == {"orders", "payments"}


def test_a_consumer_group_keeps_what_it_reads() -> None:
    group = Group()
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=0, rebalance_timeout_ms=1_000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    epoch = group.ask("consumer_heartbeat", request, CLIENT).member_epoch
    for topic in TOPICS:
        group.commit(topic, member_id="m", epoch=epoch)
    for _ in range((RETENTION_MINUTES + CHECK_MINUTES) * 2):
        group.ask("consumer_heartbeat", ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=epoch), CLIENT)
        left = group.after(0.5)
    assert left == {"orders"}


@pytest.mark.parametrize("asked_minutes", [1, 10 * RETENTION_MINUTES])
def test_a_client_of_before_kip_211_may_ask_for_a_time_of_its_own(asked_minutes: int) -> None:
    group = Group()
    group.commit("orders", retention_ms=asked_minutes * MINUTE_MS)
    assert group.after(asked_minutes - 0.5) == {"orders"}
    assert group.after(CHECK_MINUTES + 1) == set()


def test_a_time_of_its_own_may_be_without_end() -> None:
    record = commit_record("g", TopicPartition("t", 0), offset=1, leader_epoch=0, metadata="", now_ms=5, retention_ms=MAX_LONG)
    assert record.value is not None
    kept = decode_versioned(OffsetCommitValue, encode_versioned(record.value, 1))
    assert kept.expire_timestamp == MAX_LONG


def test_an_offset_that_a_transaction_will_change_stays() -> None:
    group = Group()
    group.commit("orders")
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=8, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=5,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )
    group.ask("commit_offsets_in_transaction", request, CLIENT)
    assert group.after(RETENTION_MINUTES + CHECK_MINUTES + 1) == {"orders"}
    group.desk.end_transaction(ProducerIdAndEpoch(5, 0), is_commit=False)
    assert group.after(CHECK_MINUTES + 1) == set()


class SmallBatches(MemoryLog):
    """A log that refuses what no batch could hold."""

    def append(self, records: list[Any], producer: ProducerIdAndEpoch | None, guard: object | None, now_ms: int) -> int | ErrorCode:
        return ErrorCode.MESSAGE_TOO_LARGE if len(records) > 1_000 else super().append(records, producer, guard, now_ms)


def many_offsets(count: int) -> Group:
    group = Group()
    group.desk = Desk(group.new_machine, SmallBatches())
    for number in range(count):
        group.commit(f"topic-{number}")
    return group


def test_many_offsets_expire_in_several_goes() -> None:
    """All offsets together were more than a batch holds: nothing was ever forgotten again."""
    group = many_offsets(5_000)
    group.desk.advance(RETENTION_MINUTES * MINUTE_MS - 1)
    left = [len(group.desk.machine.offsets.committed(GROUP))]
    while left[-1] and len(left) < 20:
        group.desk.advance(100)
        left.append(len(group.desk.machine.offsets.committed(GROUP)))
    assert left == [5_000, 4_000, 3_000, 2_000, 1_000, 0]
    assert not group.desk.replayed().offsets.knows(GROUP)


def test_a_group_with_many_offsets_can_be_deleted() -> None:
    group = many_offsets(3_000)
    asked = group.desk.ask(lambda token, now_ms: group.desk.machine.delete_group(token, GROUP))
    assert asked.answer.error_code == ErrorCode.NONE
    assert not group.desk.replayed().offsets.knows(GROUP)


def test_offsets_of_many_partitions_of_a_deleted_topic_are_forgotten() -> None:
    group = many_offsets(3_000)
    gone = [TopicPartition(f"topic-{number}", 0) for number in range(1, 3_000)]
    group.desk.ask(lambda token, now_ms: group.desk.machine.forget_topic_partitions(gone))
    assert list(group.desk.replayed().offsets.committed(GROUP)) == [TopicPartition("topic-0", 0)]


def test_what_members_read_is_asked_once_for_all_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the subscriptions of a thousand classic members takes milliseconds, and there are offsets by the ten thousand."""
    group = many_offsets(50)
    asked: list[str] = []

    def counted(self: ClassicGroup) -> frozenset[str]:
        asked.append(self.group_id)
        return frozenset()

    monkeypatch.setattr(ClassicGroup, "subscribed_topics", counted)
    group.join("orders")
    group.desk.advance(2 * CHECK_MINUTES * MINUTE_MS)
    assert 1 <= len(asked) <= 3


def test_commits_of_before_kafka_0_9_count() -> None:
    group = Group()
    key = LegacyOffsetCommitKey(group=GROUP, topic="orders", partition=0)
    value = LegacyOffsetCommitValue(offset=7, metadata="from long ago", commit_timestamp=group.desk.now_ms)
    group.desk.log.entries.append((CoordinatorRecord(key, value), None))
    group.desk.fail_over()
    (found,) = group.desk.machine.offsets.committed(GROUP).values()
    assert (found.offset, found.metadata) == (7, "from long ago")
    group.desk.log.entries.append((CoordinatorRecord(key, None), None))
    group.desk.fail_over()
    assert not group.desk.machine.offsets.committed(GROUP)
