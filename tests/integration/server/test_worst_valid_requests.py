"""The longest requests that a broker carries out: thousands of partitions, topics and groups that are there.

The tests measure how long one turn of its loop is, in CPU time.  `test_worst_requests.py` mostly sends requests that are refused, because
the things that they name are not there.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import UUID

import pytest

from moldau.net.channel import Channel
from moldau.net.sockets import SystemNetwork
from moldau.protocol.declared import Struct
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from moldau.protocol.messages.alter_configs import AlterConfigsRequest
from moldau.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from moldau.protocol.messages.describe_producers import DescribeProducersRequest
from moldau.protocol.messages.describe_producers import TopicRequest as ProducersOf
from moldau.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.share_fetch import FetchPartition as SharePartition
from moldau.protocol.messages.share_fetch import FetchTopic as ShareTopic
from moldau.protocol.messages.share_fetch import ShareFetchRequest
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.embedded import EmbeddedBroker
from moldau.types import uuid_to_text
from proof.hostile.turns import LONGEST_TURN_S, Turns, broker_as_in_a_process, measured

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("worst valid requests")]

PARTITIONS: Final = 2_000
TOPICS: Final = 1_000
NEW_TOPICS: Final = 4_900
"""A topic takes two records; a decision of the controller has 10,000 at most.  A partition keeps two files open: below 20,000 in all."""
GROUPS: Final = 300
WIDE: Final = "wide"
NAMES: Final = [f"t{number:06d}" for number in range(TOPICS)]
GROUP_IDS: Final = [f"g{number:06d}" for number in range(GROUPS)]
TIMEOUT_S: Final = 120.0
ATTEMPTS: Final = 300
PASSING: Final = {14, 15, 16, 51}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS: the request is sent again."""


class Asker:
    """Sends requests to the broker, and keeps what later requests need of earlier answers."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.topic_ids: dict[str, UUID] = {}
        self.producer_id = self.producer_epoch = -1

    def ask(self, request: Any, version: int | None = None) -> Any:
        """The answer, in which nothing was refused."""

        async def send() -> Any:
            channel = await Channel.connect(SystemNetwork(), "127.0.0.1", self._port)
            try:
                for _ in range(ATTEMPTS):
                    response = await channel.send(request, version=version, timeout_s=TIMEOUT_S)
                    codes = error_codes(response)
                    if not codes & PASSING:
                        break
                    await asyncio.sleep(0.1)
                return response, codes
            finally:
                channel.abort()

        response, codes = asyncio.run(send())
        assert not codes, codes
        return response


def error_codes(message: Struct) -> set[int]:
    """The error codes of the message and of everything in it, but for 0."""
    found = set()
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name == "error_code":
            found.add(int(value))
        elif isinstance(value, Struct):
            found |= error_codes(value)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for each in value:
                found |= error_codes(each)
    return found - {0}


@pytest.fixture(scope="module")
def turns() -> Iterator[Turns]:
    with measured() as turns:
        yield turns


@pytest.fixture(scope="module")
def broker(turns: Turns) -> Iterator[EmbeddedBroker]:
    with broker_as_in_a_process({"offsets.topic.num.partitions": "1"}) as broker:
        yield broker


@pytest.fixture(scope="module")
def asker(broker: EmbeddedBroker) -> Asker:
    """The asker, once its topics and groups are there."""
    asker = Asker(broker.port)
    asker.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=GROUP_IDS))
    asker.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["txn"]))
    begun = asker.ask(InitProducerIdRequest(transactional_id="txn", transaction_timeout_ms=600_000), version=4)
    asker.producer_id, asker.producer_epoch = begun.producer_id, begun.producer_epoch
    asker.ask(creation([WIDE], PARTITIONS))
    asker.ask(creation(NAMES, 1))
    asker.topic_ids = {topic.name: topic.topic_id for topic in asker.ask(MetadataRequest(topics=None)).topics}
    for group in GROUP_IDS:
        asker.ask(commit(group, 1), version=9)
    return asker


def creation(names: list[str], partition_count: int) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1, assignments=[], configs=[]) for name in names]
    return CreateTopicsRequest(timeout_ms=600_000, topics=topics)


def commit(group: str, count: int) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata="") for index in range(count)]
    topic = OffsetCommitRequestTopic(name=WIDE, partitions=partitions)
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[topic])


def commit_in_transaction(asker: Asker) -> TxnOffsetCommitRequest:
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata="") for index in range(PARTITIONS)
    ]
    return TxnOffsetCommitRequest(
        transactional_id="txn",
        group_id=GROUP_IDS[1],
        producer_id=asker.producer_id,
        producer_epoch=asker.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=WIDE, partitions=partitions)],
    )


def produce(asker: Asker) -> ProduceRequest:
    batch = memoryview(build_batch([NewRecord(1_700_000_000_000, None, b"value")]))
    data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    return ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(topic_id=asker.topic_ids[WIDE], partition_data=data)])


def fetch(asker: Asker) -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(PARTITIONS)]
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, session_epoch=0, topics=[FetchTopic(topic_id=asker.topic_ids[WIDE], partitions=partitions)]
    )


def share_fetch(asker: Asker) -> ShareFetchRequest:
    topics = [
        ShareTopic(topic_id=asker.topic_ids[name], partitions=[SharePartition(partition_index=0, acknowledgement_batches=[])])
        for name in NAMES
    ]
    return ShareFetchRequest(
        group_id="shared",
        member_id=uuid_to_text(UUID(int=7)),
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        max_records=500,
        batch_size=500,
        topics=topics,
        forgotten_topics_data=[],
    )


Make = Callable[[Asker], Any]

REQUESTS: Final[dict[str, tuple[Make, int | None]]] = {
    "Produce": (produce, None),
    "Fetch": (fetch, None),
    "ListOffsets": (
        lambda asker: ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=WIDE, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
                )
            ],
        ),
        None,
    ),
    "ListOffsets by time": (
        lambda asker: ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=WIDE, partitions=[ListOffsetsPartition(partition_index=index, timestamp=5) for index in range(PARTITIONS)]
                )
            ],
        ),
        None,
    ),
    "Metadata of all": (lambda asker: MetadataRequest(topics=None), None),
    "DescribeTopicPartitions": (lambda asker: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in NAMES]), None),
    "OffsetForLeaderEpoch": (
        lambda asker: OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic=WIDE, partitions=[OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(PARTITIONS)]
                )
            ],
        ),
        None,
    ),
    "OffsetCommit": (lambda asker: commit(GROUP_IDS[0], PARTITIONS), 9),
    "OffsetFetch of all": (
        lambda asker: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUP_IDS]),
        9,
    ),
    "OffsetDelete": (
        lambda asker: OffsetDeleteRequest(
            group_id=GROUP_IDS[0],
            topics=[
                OffsetDeleteRequestTopic(
                    name=WIDE, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in range(PARTITIONS)]
                )
            ],
        ),
        None,
    ),
    "ListGroups": (lambda asker: ListGroupsRequest(), None),
    "DescribeGroups": (lambda asker: DescribeGroupsRequest(groups=GROUP_IDS), 5),
    "DescribeProducers": (
        lambda asker: DescribeProducersRequest(topics=[ProducersOf(name=WIDE, partition_indexes=list(range(PARTITIONS)))]),
        None,
    ),
    "AddPartitionsToTxn": (
        lambda asker: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="txn",
            v3_and_below_producer_id=asker.producer_id,
            v3_and_below_producer_epoch=asker.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=WIDE, partitions=list(range(PARTITIONS)))],
        ),
        3,
    ),
    "TxnOffsetCommit": (commit_in_transaction, 5),
    "EndTxn": (
        lambda asker: EndTxnRequest(
            transactional_id="txn", producer_id=asker.producer_id, producer_epoch=asker.producer_epoch, committed=True
        ),
        4,
    ),
    "DescribeConfigs": (
        lambda asker: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None) for name in NAMES]
        ),
        None,
    ),
    "IncrementalAlterConfigs": (
        lambda asker: IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2, resource_name=name, configs=[AlterableConfig(name="retention.ms", config_operation=0, value="5")]
                )
                for name in NAMES
            ],
            validate_only=False,
        ),
        None,
    ),
    "AlterConfigs": (
        lambda asker: AlterConfigsRequest(
            resources=[
                WholeResource(resource_type=2, resource_name=name, configs=[WholeConfig(name="retention.ms", value="6")]) for name in NAMES
            ],
            validate_only=False,
        ),
        None,
    ),
    "DescribeLogDirs of all": (lambda asker: DescribeLogDirsRequest(topics=None), None),
    "ElectLeaders of all": (lambda asker: ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=60_000), None),
    "AlterPartitionReassignments": (
        lambda asker: AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=WIDE, partitions=[ReassignablePartition(partition_index=index, replicas=[1]) for index in range(PARTITIONS)]
                )
            ]
        ),
        None,
    ),
    "ListPartitionReassignments of all": (lambda asker: ListPartitionReassignmentsRequest(timeout_ms=60_000, topics=None), None),
    "ConsumerGroupHeartbeat": (
        lambda asker: ConsumerGroupHeartbeatRequest(
            group_id="consuming",
            member_id=uuid_to_text(UUID(int=5)),
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[WIDE, *NAMES],
            topic_partitions=[],
        ),
        None,
    ),
    "ShareGroupHeartbeat": (
        lambda asker: ShareGroupHeartbeatRequest(
            group_id="shared", member_id=uuid_to_text(UUID(int=7)), member_epoch=0, subscribed_topic_names=[WIDE, *NAMES]
        ),
        None,
    ),
    "ShareFetch": (share_fetch, None),
    "CreatePartitions": (
        lambda asker: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES], timeout_ms=60_000, validate_only=False
        ),
        None,
    ),
    "DeleteRecords": (
        lambda asker: DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=WIDE, partitions=[DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(PARTITIONS)]
                )
            ],
            timeout_ms=60_000,
        ),
        None,
    ),
    "DeleteGroups": (lambda asker: DeleteGroupsRequest(groups_names=GROUP_IDS[1:]), None),
    "CreateTopics": (lambda asker: creation([f"n{number:06d}" for number in range(NEW_TOPICS)], 1), None),
    "DeleteTopics": (
        lambda asker: DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=UUID(int=0)) for name in [WIDE, *NAMES]], timeout_ms=60_000
        ),
        None,
    ),
}
"""The requests, in the order in which they are sent.  Where no version is given, it is the newest."""
ONCE: Final = {"EndTxn", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "CreatePartitions", "CreateTopics", "DeleteTopics"}
"""Requests that can be carried out only once."""


@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_that_is_carried_out_holds_the_loop(asker: Asker, turns: Turns, name: str) -> None:
    make, version = REQUESTS[name]
    said = []
    for _ in range(1 if name in ONCE else 3):  # the shortest counts: other programs on the processor make CPU time longer
        request = make(asker)
        gc.freeze()  # the request of this test is no object of the broker
        turns.begin()
        asker.ask(request, version)
        if turns.longest_s <= LONGEST_TURN_S:
            return
        said.append(f"{turns.longest_s:.3f} s in {turns.what}")
    pytest.fail(f"{name}: {said}")
