"""Our coordinators' records beside those of Apache Kafka's after the same requests; and requests that name things that do not exist."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from moldau.coordinator.group.records import GROUP_RECORDS
from moldau.coordinator.txn.records import TRANSACTION_RECORDS
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.stored import KeyedRecords
from moldau.testing.process import BrokerProcess
from moldau.types import uuid_to_text
from proof.kafka.apache import ApacheKafka
from proof.kafka.differential import Differential, RawClient, differences

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("differential")]

TOPIC = "stored"
NOT_YET = {14, 15, 16, 51}
WITHIN_S = 30
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "auto.create.topics.enable": "false",
}


class Side(NamedTuple):
    client: RawClient
    folder: Path
    topic_id: UUID

    def until_ready(self, request: Any, version: int, code_of: Any) -> Any:
        deadline = time.monotonic() + WITHIN_S
        while code_of(answer := self.client.ask(request, version)) in NOT_YET and time.monotonic() < deadline:
            time.sleep(0.05)
        return answer

    def stored(self, topic: str, records: KeyedRecords) -> list[tuple[Any, Any]]:
        """The keys and values of a topic, in order."""
        found = []
        for path in sorted((self.folder / f"{topic}-0").glob("*.log")):
            view = memoryview(path.read_bytes())
            for position, header in batches(view):
                if not header.is_control:
                    for record in records_of(view[position : position + header.size]):
                        assert record.key is not None
                        found.append(records.decode(record.key, record.value))
        return [each for each in found if each is not None]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Side, Side]]:
    with ApacheKafka(properties=PROPERTIES) as kafka, BrokerProcess(properties=PROPERTIES) as broker:
        differential = Differential(ours=("127.0.0.1", broker.port), theirs=("127.0.0.1", kafka.port))
        topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        sides = []
        for client, node in ((differential.ours, broker), (differential.theirs, kafka)):
            client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            found: Any = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
            side = Side(client, Path(node.directory) / "data", found.topics[0].topic_id)
            for key_type in (0, 1):
                asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
                side.until_ready(asked, 4, lambda said: said.coordinators[0].error_code)
            side.until_ready(commit("warm"), 9, lambda said: said.topics[0].partitions[0].error_code)
            state = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"shared:{uuid_to_text(side.topic_id)}:0"])
            side.until_ready(state, 6, lambda said: said.coordinators[0].error_code)
            sides.append(side)
        yield sides[0], sides[1]
        differential.close()


def commit(group: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    return OffsetCommitRequest(group_id=group, member_id="", topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])])


def same(both: tuple[Side, Side], request: Any, version: int, *, ignoring: tuple[str, ...] = ()) -> Any:
    ours, theirs = (side.client.ask(request, version) for side in both)
    assert not list(differences(ours, theirs, ignoring=ignoring)), (request, version)
    return ours


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("transactional_id", ["nosuch", ""])
@pytest.mark.parametrize("group", ["g", ""])
@pytest.mark.parametrize("partitions", [[(TOPIC, 7)], [(TOPIC, 0), (TOPIC, 7)], [("nosuch", 0)], [(TOPIC, 0), ("nosuch", 0)], []])
def test_offsets_in_a_transaction_for_what_does_not_exist(
    both: tuple[Side, Side], partitions: list[tuple[str, int]], group: str, transactional_id: str, version: int
) -> None:
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for topic, index in partitions:
        named = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
        by_topic.setdefault(topic, []).append(named)
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=5,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=named) for topic, named in by_topic.items()],
    )
    same(both, request, version)


def test_a_group_of_offsets_alone_is_forgotten_by_the_tombstone_of_its_record(both: tuple[Side, Side]) -> None:
    told = []
    for side in both:
        side.client.ask(commit("gone"), 9)
        assert side.client.ask(DeleteGroupsRequest(groups_names=["gone"]), 2).results[0].error_code == 0  # type: ignore[union-attr]
        records = side.stored("__consumer_offsets", GROUP_RECORDS)
        told.append([(key, value is None) for key, value in records if getattr(key, "group", "") == "gone"])
    assert told[0] == told[1]


@pytest.mark.parametrize("group", ["warm", "nosuch", ""])
def test_share_offsets_of_no_share_group(both: tuple[Side, Side], group: str) -> None:
    request = DeleteShareGroupOffsetsRequest(group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC)])
    same(both, request, 0, ignoring=("error_message",) if not group else ())


def test_states_begin_beside_a_topic_without_partitions(both: tuple[Side, Side]) -> None:
    told = []
    for side in both:
        for named in ([(side.topic_id, [0]), (UUID(int=7), [])], [(side.topic_id, [])]):
            request = InitializeShareGroupStateRequest(
                group_id="shared",
                topics=[
                    InitializeStateData(
                        topic_id=topic_id, partitions=[PartitionData(partition=each, state_epoch=1, start_offset=5) for each in indexes]
                    )
                    for topic_id, indexes in named
                ],
            )
            answer = side.until_ready(
                request, 0, lambda said: next((one.error_code for each in said.results for one in each.partitions), 0)
            )
            told.append([[(one.partition, one.error_code) for one in each.partitions] for each in answer.results])
    assert told[:2] == told[2:] == [[[(0, 0)]], []]


class Producer:
    """A transactional producer of one side.  It goes on with the id and epoch that the answer to `end` gave, from version 5."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.identity, self.sequence = (-1, -1), 0

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id="writer", transaction_timeout_ms=60_000)
        answer = self.side.until_ready(request, 5, lambda said: said.error_code)
        self.identity, self.sequence = (answer.producer_id, answer.producer_epoch), 0

    def produce(self, version: int) -> None:
        batch = build_batch(
            [NewRecord(time.time_ns() // 1_000_000, None, b"value")],
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=self.sequence,
            is_transactional=True,
        )
        topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
        request = ProduceRequest(transactional_id="writer", acks=-1, timeout_ms=5000, topic_data=[topic])
        self.side.until_ready(request, version, lambda said: said.responses[0].partition_responses[0].error_code)
        self.sequence += 1

    def end(self, version: int, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id="writer", producer_id=self.identity[0], producer_epoch=self.identity[1], committed=committed
        )
        answer = self.side.until_ready(request, version, lambda said: said.error_code)
        if version >= 5:
            self.identity, self.sequence = (answer.producer_id, answer.producer_epoch), 0


def test_transactions_are_stored_alike(both: tuple[Side, Side]) -> None:
    told = []
    for side in both:
        producer = Producer(side)
        producer.init()
        producer.produce(12)
        producer.end(5, committed=True)
        producer.produce(12)
        producer.end(5, committed=False)
        producer.end(5, committed=False)
        producer.init()
        producer.produce(12)
        producer.end(4, committed=True)
        producer.init()
        kept = {"transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms", "producer_id", "previous_producer_id"}
        told.append(
            [
                {
                    **{field.name: getattr(value, field.name) for field in value.FIELDS if field.name not in kept},
                    "is_own": value.previous_producer_id == value.producer_id,
                }
                for _, value in side.stored("__transaction_state", TRANSACTION_RECORDS)
            ]
        )
    assert told[0] == told[1]
