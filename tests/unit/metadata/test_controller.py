"""The controller over a real driver on files in memory: decided, committed, told; deposed; started again."""

from random import Random
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.controller import Controller, ControllerConfig, idle_interval_ms
from moldau.metadata.features import METADATA_VERSION
from moldau.metadata.image import MetadataImage
from moldau.metadata.loader import Loader
from moldau.metadata.records import FeatureLevelRecord
from moldau.metadata.topics import TopicRules
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.raft.config import QuorumConfig
from moldau.raft.driver import RaftDriver
from moldau.raft.voters import Address, Voter, VoterSet
from moldau.testing.files import MemoryFiles

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
    node.driver._task.cancel()  # type: ignore[union-attr]
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
