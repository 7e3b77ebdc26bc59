"""OffsetFetch by name and without a list of topics: ids, transactions, topics that were made anew."""

from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Client, Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.types import ZERO_UUID
from proof.coordination import Desk, FixedTopics

GROUP = "readers"
CLIENT = Client("client", "/127.0.0.1", 10)
ORDERS, PAYMENTS = TopicView(UUID(int=101), "orders", 2), TopicView(UUID(int=102), "payments", 1)
PRODUCER = ProducerIdAndEpoch(5, 0)


class Offsets:
    """One group's offsets, as its clients see them."""

    def __init__(self) -> None:
        self.topics = FixedTopics(ORDERS, PAYMENTS)
        environment = Environment(GroupCoordinatorConfig(), self.topics, lambda: UUID(int=1))
        self.desk = Desk(lambda: GroupMachine(environment))

    def commit(self, topic: TopicView, offset: int, partition: int = 0) -> None:
        named = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=GROUP, member_id="", topics=[OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=[named])]
        )
        assert self.desk.ask(lambda token, now_ms: self.desk.machine.commit_offsets(token, request, CLIENT, now_ms)).is_answered

    def commit_in_transaction(self, topic: TopicView, offset: int, *, is_commit: bool = True) -> None:
        named = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=GROUP,
            producer_id=PRODUCER.producer_id,
            producer_epoch=PRODUCER.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic.name, partitions=[named])],
        )
        machine = self.desk.machine
        assert self.desk.ask(lambda token, now_ms: machine.commit_offsets_in_transaction(token, request, CLIENT, now_ms)).is_answered
        self.desk.end_transaction(PRODUCER, is_commit=is_commit)

    def fetch(self, *named: tuple[str, int]) -> list[tuple[str, UUID, dict[int, int]]]:
        """(topic, id, offset by partition) of the partitions named; without names, of all that have an offset."""
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[partition]) for name, partition in named]
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=topics if named else None)
        asked = self.desk.ask(lambda token, now_ms: self.desk.machine.fetch_offsets(token, request, is_stable_required=True))
        return [
            (one.name, one.topic_id, {each.partition_index: each.committed_offset for each in one.partitions})
            for one in asked.answer.topics
        ]


def test_offsets_of_a_transaction_bear_the_id_that_the_metadata_has() -> None:
    offsets = Offsets()
    offsets.commit_in_transaction(ORDERS, 7)
    assert offsets.fetch() == [("orders", ORDERS.topic_id, {0: 7})]
    offsets.commit_in_transaction(ORDERS, 9, is_commit=False)
    offsets.commit(ORDERS, 3, partition=1)
    offsets.commit(PAYMENTS, 4)
    assert offsets.fetch() == [("orders", ORDERS.topic_id, {0: 7, 1: 3}), ("payments", PAYMENTS.topic_id, {0: 4})]


def test_an_offset_of_an_earlier_topic_of_the_same_name_is_none() -> None:
    offsets = Offsets()
    offsets.commit(ORDERS, 7)
    offsets.commit_in_transaction(PAYMENTS, 8)
    anew = TopicView(UUID(int=201), "orders", 2)
    offsets.topics.set(anew, PAYMENTS)
    assert offsets.fetch() == [("payments", PAYMENTS.topic_id, {0: 8})]
    assert offsets.fetch(("orders", 0), ("payments", 0)) == [("orders", anew.topic_id, {0: -1}), ("payments", PAYMENTS.topic_id, {0: 8})]
    offsets.commit(anew, 1)
    assert offsets.fetch() == [("orders", anew.topic_id, {0: 1}), ("payments", PAYMENTS.topic_id, {0: 8})]


def test_a_topic_that_is_gone_is_told_without_an_id() -> None:
    offsets = Offsets()
    offsets.commit(ORDERS, 7)
    offsets.topics.set(PAYMENTS)
    assert offsets.fetch() == [("orders", ZERO_UUID, {0: 7})]


def test_a_topic_that_is_named_twice_is_answered_twice() -> None:
    offsets = Offsets()
    offsets.commit(ORDERS, 7)
    assert offsets.fetch(("orders", 0), ("orders", 1)) == [("orders", ORDERS.topic_id, {0: 7}), ("orders", ORDERS.topic_id, {1: -1})]
