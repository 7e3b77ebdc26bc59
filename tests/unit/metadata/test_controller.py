"""The controller over a real driver on files in memory: it decides, commits and tells, is deposed, and starts again."""

import asyncio
from random import Random
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.controller import Controller, ControllerConfig, batch_ends, idle_interval_ms
from moldau.metadata.delta import Delta, replay
from moldau.metadata.features import METADATA_VERSION
from moldau.metadata.image import MetadataImage, encode_record
from moldau.metadata.loader import Loader
from moldau.metadata.outcome import PIECE
from moldau.metadata.records import BeginTransactionRecord, FeatureLevelRecord, PartitionChangeRecord, RemoveTopicRecord, TopicRecord
from moldau.metadata.topics import TopicRules
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest
from moldau.raft.config import QuorumConfig
from moldau.raft.driver import RaftDriver
from moldau.raft.replica_log import MAX_BATCH_BYTES
from moldau.raft.voters import Address, Voter, VoterSet
from moldau.server.peers.controller import LocalController
from moldau.testing.files import MemoryFiles
from moldau.types import OffsetAndEpoch

DIRECTORY = UUID(int=777)
BOOTSTRAP = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)]


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Node:
    """Driver, loader and controller, wired as a node wires them."""

    def __init__(self, files: MemoryFiles) -> None:
        self.clock = Clock()
        voters = VoterSet([Voter(1, DIRECTORY, (Address("CONTROLLER", "localhost", 9093),))])
        self.driver = RaftDriver(
            files=files,
            clock=self.clock,
            directory="/d",
            node_id=1,
            directory_id=DIRECTORY,
            config=QuorumConfig.load({}),
            static_voters=voters,
        )
        self.loader = Loader(self.clock)
        ids = iter(range(1000, 2000))
        rules = TopicRules(ConfigSchema({}, node_id=1), 1, 1, lambda: UUID(int=next(ids)), Random(1))
        self.controller = Controller(self.driver, self.loader, self.clock, ControllerConfig("cluster", 9000, True, rules, 0), BOOTSTRAP)
        self.seen: list[MetadataImage] = []
        self.loader.add_publisher(lambda _, image: self.seen.append(image))

    async def start(self) -> "Node":
        await self.driver.start(self.loader)
        await self.controller.wait_until_active()
        return self

    async def stop(self) -> None:
        await self.controller.stop()
        await self.loader.stop()
        await self.driver.stop()

    async def join(self, incarnation: int = 9) -> int:
        """Broker 1 registers and is unfenced; its epoch."""
        listeners = [Listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)]
        features = [Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=30)]
        request = BrokerRegistrationRequest(
            broker_id=1,
            cluster_id="cluster",
            incarnation_id=UUID(int=incarnation),
            listeners=listeners,
            features=features,
            rack=None,
            log_dirs=[UUID(int=500)],
        )
        epoch = (await self.controller.register_broker(request)).broker_epoch
        heartbeat = BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=epoch, current_metadata_offset=self.loader.image.offset, want_fence=False, want_shut_down=False
        )
        assert not (await self.controller.broker_heartbeat(heartbeat)).is_fenced
        return epoch


def a_topic(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic])


async def test_the_quorum_is_described_to_a_broker_whose_own_controller_has_become_active_meanwhile() -> None:
    node = await Node(MemoryFiles()).start()
    partitions = [DescribeQuorumRequestPartitionData(partition_index=0)]
    asked = DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=partitions)])
    (topic,) = (await LocalController(node.controller).ask(asked)).topics
    assert [(one.leader_id, [voter.replica_id for voter in one.current_voters]) for one in topic.partitions] == [(1, [1])]
    await node.stop()


async def test_a_topic_is_there_when_the_answer_is() -> None:
    node = await Node(MemoryFiles()).start()
    epoch = await node.join()
    assert node.loader.image.brokers[1].epoch == epoch
    response = await node.controller.create_topics(a_topic("orders"))
    assert response.topics[0].error_code == 0
    assert node.loader.image.topics["orders"].id == response.topics[0].topic_id
    assert node.seen[-1] is node.loader.image
    assert node.loader.image == node.controller.newest_image or node.loader.image.topics == node.controller.newest_image.topics
    await node.stop()


async def test_what_was_answered_is_there_after_a_crash() -> None:
    files = MemoryFiles()
    node = await Node(files).start()
    epoch = await node.join()
    await node.controller.create_topics(a_topic("orders"))
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    assert (await node.controller.allocate_producer_ids(request)).producer_id_start == 0
    await node.driver.abandon()
    files.crash(Random(5))
    again = await Node(files).start()
    assert list(again.loader.image.topics) == ["orders"]
    assert again.loader.image.next_producer_id == 1000
    await again.stop()


async def test_a_snapshot_brings_the_same_image() -> None:
    files = MemoryFiles()
    node = await Node(files).start()
    await node.join()
    await node.controller.create_topics(a_topic("before"))
    await node.loader.write_snapshot(node.driver)
    await node.controller.create_topics(a_topic("after"))
    image = node.loader.image
    await node.stop()
    again = await Node(files).start()
    assert again.loader.image.topics == image.topics and again.loader.image.brokers == image.brokers
    assert again.loader.image.features == image.features
    await again.stop()


async def test_who_does_not_lead_refuses() -> None:
    node = await Node(MemoryFiles()).start()
    await node.join()
    node.controller.leader_changed(2, 9)
    with pytest.raises(KafkaError) as refusal:
        await node.controller.create_topics(a_topic("t"))
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    await node.stop()


def test_an_idle_lone_node_writes_nothing_unless_told() -> None:
    assert idle_interval_ms({}, 500, voter_count=1) == 0
    assert idle_interval_ms({"metadata.max.idle.interval.ms": "500"}, 500, voter_count=1) == 500
    assert idle_interval_ms({}, 500, voter_count=3) == 500


# ---------------------------------------------------------------------- decisions of any size


def a_large_topic(name: str, count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])])


async def with_partitions(*counts: int) -> Node:
    """A topic of each count, all led by broker 1, whose session is over."""
    node = await Node(MemoryFiles()).start()
    await node.join()
    for number, count in enumerate(counts):
        await node.controller.create_topics(a_large_topic(f"t{number}", count))
    node.clock.ms += 9_001
    return node


async def test_a_broker_of_more_partitions_than_a_batch_holds_is_fenced_and_comes_back() -> None:
    node = await with_partitions(7_000, 7_000, 7_000)
    await node.controller._fence_overdue()
    await node.driver.wait_for_commit(node.driver.node.end_offset)
    assert node.loader.image.brokers[1].fenced
    assert all(one.leader == -1 for topic in node.loader.image.topics.values() for one in topic.partitions)
    await node.join(incarnation=10)
    image = node.loader.image
    assert all(one.leader == 1 for topic in image.topics.values() for one in topic.partitions)
    assert image.topics == node.controller.newest_image.topics
    await node.stop()


async def test_other_decisions_come_in_between_the_pieces() -> None:
    """A broker that leaves does not hold up other turns of the loop."""
    node = await with_partitions(6 * PIECE)
    fencing = asyncio.ensure_future(node.controller._fence_overdue())
    asked = asyncio.ensure_future(node.controller.create_topics(a_topic("meanwhile")))
    for _ in range(2):
        await asyncio.sleep(0)
    image = node.controller.newest_image
    assert "meanwhile" in image.topics and not image.brokers[1].fenced, "the fence comes with the last piece"
    await asyncio.gather(fencing, asked)
    assert node.controller.newest_image.brokers[1].fenced
    await node.stop()


async def test_a_broker_that_is_heard_of_in_time_is_not_fenced() -> None:
    node = await with_partitions(2 * PIECE)
    fencing = asyncio.ensure_future(node.controller._fence_overdue())
    await asyncio.sleep(0)
    node.controller.sessions.touch(1, node.clock.ms)
    await fencing
    assert not node.controller.newest_image.brokers[1].fenced
    await node.stop()


def test_batches_are_cut_by_number_and_by_bytes() -> None:
    assert batch_ends([b"x"] * 10_000) == [10_000]
    assert batch_ends([b"x"] * 20_001) == [10_000, 20_000, 20_001]
    large = bytes(MAX_BATCH_BYTES // 2)
    assert batch_ends([large, large, b"x", large]) == [2, 4]
    assert batch_ends([bytes(MAX_BATCH_BYTES + 1), b"x"]) == [1, 2], "the log refuses a record that is too large alone"


async def test_what_must_be_atomic_is_refused_where_a_batch_cannot_hold_it() -> None:
    node = await Node(MemoryFiles()).start()
    await node.join()
    end = node.driver.node.end_offset
    assert (await node.controller.create_topics(a_large_topic("t", 10_001))).topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert node.driver.node.end_offset == end and "t" not in node.controller.newest_image.topics
    await node.stop()


# ---------------------------------------------------------------------- a leader that died inside a transaction


async def test_a_new_leader_aborts_the_transaction_that_the_one_before_left_open() -> None:
    files = MemoryFiles()
    node = await Node(files).start()
    await node.join()
    level = node.controller.newest_image.metadata_version
    half = [BeginTransactionRecord(name="half"), TopicRecord(name="never", topic_id=UUID(int=5))]
    end = node.driver.propose([encode_record(record, level) for record in half])
    await node.driver.wait_for_commit(end)
    await node.stop()
    again = await Node(files).start()
    await again.controller.create_topics(a_topic("after"))
    assert list(again.loader.image.topics) == ["after"], "the topic after the transaction counts, the half transaction does not"
    assert again.loader.image == again.controller.newest_image and not again.loader.has_open_transaction
    await again.stop()


# ---------------------------------------------------------------------- now and then


async def test_leaders_are_looked_after_when_it_is_time() -> None:
    node = await Node(MemoryFiles()).start()
    await node.join()
    await node.controller.create_topics(a_topic("t"))
    topic = node.controller.newest_image.topics["t"]
    broken = PartitionChangeRecord(partition_id=0, topic_id=topic.id, leader=-1)
    node.controller._append([broken])
    for ms, leader in ((299_999, -1), (1, 1)):
        node.clock.ms += ms
        await node.controller._look_after_leaders()
        assert node.controller.newest_image.topics["t"].partitions[0].leader == leader
    await node.stop()


# ---------------------------------------------------------------------- clients that give no time, or ask for nothing


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_client_that_gives_no_time_gets_nothing_done(timeout_ms: int) -> None:
    node = await Node(MemoryFiles()).start()
    await node.join()
    image, end = node.controller.newest_image, node.driver.node.end_offset
    request = a_topic("t")
    request.timeout_ms = timeout_ms
    with pytest.raises(KafkaError) as refusal:
        await node.controller.create_topics(request)
    assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert (node.controller.newest_image, node.driver.node.end_offset) == (image, end)
    await node.stop()


async def test_an_election_of_nothing_is_done_whatever_its_type() -> None:
    node = await Node(MemoryFiles()).start()
    request = ElectLeadersRequest(election_type=2, topic_partitions=[], timeout_ms=0)
    assert (await node.controller.elect_leaders(request)).error_code == 0
    await node.stop()


# ---------------------------------------------------------------------- a snapshot in mid-life


async def test_a_snapshot_in_mid_life_is_told_as_what_changed() -> None:
    """A follower that fell behind gets a snapshot from its leader: topics that are gone, changed and new all have to become known."""
    node = await Node(MemoryFiles()).start()
    await node.join()
    await node.controller.create_topics(a_topic("gone"))
    await node.controller.create_topics(a_topic("stays"))
    before = node.loader.image
    after = replay(before, [RemoveTopicRecord(topic_id=before.topics["gone"].id), TopicRecord(name="new", topic_id=UUID(int=5))])
    told: list[Delta] = []
    node.loader.add_publisher(lambda delta, _: told.append(delta))
    node.loader.load_snapshot(OffsetAndEpoch(before.offset + 10, 7), 0, after.encoded())
    assert (node.loader.image.offset, node.loader.image.epoch) == (before.offset + 9, 7)
    assert node.seen[-1] is node.loader.image and list(node.loader.image.topics) == ["stays", "new"]
    assert list(told[-1].deleted_topics) == [before.topics["gone"].id] and list(told[-1].changed_topics) == [UUID(int=5)]
    await node.stop()
