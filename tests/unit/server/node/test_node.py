"""The whole node, unchanged, on a simulated loop: files and network in memory, time that jumps."""

import asyncio
import errno
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import pytest

from moldau.coordinator.runtime import Shard
from moldau.errors import ErrorCode
from moldau.metadata.formatting.storage import FormatRequest, format_storage
from moldau.net.channel import Channel
from moldau.protocol.messages import initialize_share_group_state, read_share_group_state, write_share_group_state
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.raft.voters import Address
from moldau.replication.partition import Partition
from moldau.server.coordinators.topic import CoordinatorTopic
from moldau.server.node.config import NodeConfig
from moldau.server.node.folders import StartRefused
from moldau.server.node.node import Node
from moldau.server.node.outside import Outside
from moldau.server.node.publisher import Publisher
from moldau.storage.folders.checkpoints import MetaProperties
from moldau.storage.log import Log
from moldau.testing.clock import EPOCH_MS, SimClock
from moldau.testing.files import Fault, MemoryFiles
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork
from moldau.types import GROUP_TOPIC, ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
PORT, CONTROLLER_PORT = 9092, 9093


def node_config(**changed: str) -> NodeConfig:
    return NodeConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"server:{CONTROLLER_PORT}",
            "listeners": f"PLAINTEXT://:{PORT},CONTROLLER://:{CONTROLLER_PORT}",
            "advertised.listeners": f"PLAINTEXT://server:{PORT}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "/data",
        }
        | {key.replace("__", "."): value for key, value in changed.items()}
    )


class World:
    """One server and one client."""

    def __init__(self, *, formatted: bool = True, folders: tuple[str, ...] = ("/data",)) -> None:
        self.folders = folders
        self.loop = SimLoop()
        self.network = SimNetwork(self.loop, seed=1)
        self.files = MemoryFiles(seed=1, slow_ms=1)
        self.client = self.machine("client")
        self.server = self.machine("server")
        self.chance = random.Random(2)
        if formatted:
            self.format()

    def machine(self, host: str) -> Machine:
        machine = Machine(host)
        self.network.add(machine)
        return machine

    def format(self, *, cluster_id: str = CLUSTER_ID, node_id: int = 1) -> None:
        request = FormatRequest(
            cluster_id=cluster_id,
            node_id=node_id,
            log_dirs=list(self.folders),
            metadata_log_dir=self.folders[0],
            is_controller=True,
            has_static_voters=False,
            controller_address=Address("CONTROLLER", "server", CONTROLLER_PORT),
            standalone=True,
        )
        ids = random.Random(3)
        format_storage(
            self.files,
            request,
            now_ms=EPOCH_MS,
            new_id=lambda: UUID(int=ids.getrandbits(128), version=4),
            new_salt=lambda: ids.randbytes(16),
        )

    def run(self, machine: Machine, work: Coroutine[Any, Any, Any]) -> Any:
        result = self.loop.run_until_complete(self.loop.start(machine, work))
        assert not self.loop.failures, self.loop.failures
        return result

    def up(self, **changed: str) -> Node:
        async def start() -> Node:
            outside = Outside(files=self.files, network=self.network, clock=SimClock(self.loop), random=self.chance)
            return await Node.start(node_config(**changed), outside)

        node: Node = self.run(self.server, start())
        return node

    def crash(self) -> None:
        """Power gone: what was not synced may be lost."""
        self.loop.kill(self.server)
        self.network.crash(self.server, silently=False)
        self.files = self.files.crashed(self.chance)
        self.server = self.machine("server")

    def talk(self, dialogue: Callable[[Channel], Coroutine[Any, Any, Any]]) -> Any:
        async def work() -> Any:
            channel = await Channel.connect(self.network, "server", PORT, client_id="test", timeout_s=10)
            try:
                return await dialogue(channel)
            finally:
                channel.close()

        return self.run(self.client, work())


async def wait_a_second(channel: Channel) -> None:
    await asyncio.sleep(1)


async def create(channel: Channel, topic: str, partitions: int = 1) -> None:
    made = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    response = await channel.send(CreateTopicsRequest(topics=[made], timeout_ms=5000))
    assert response.topics[0].error_code == ErrorCode.NONE


async def produce(channel: Channel, topic: str, *values: bytes, acks: int = -1) -> int:
    data = memoryview(build_batch([NewRecord(EPOCH_MS, None, value) for value in values]))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])],
    )
    slot = (await channel.send(request, 9)).responses[0].partition_responses[0]
    assert slot.error_code == ErrorCode.NONE, slot
    return slot.base_offset


async def fetch(channel: Channel, topic: str, offset: int = 0, *, max_wait_ms: int = 0) -> list[bytes]:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, session_epoch=-1, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    found = (await channel.send(request, 12)).responses[0].partitions[0]
    assert found.error_code == ErrorCode.NONE, found
    data = memoryview(bytes(found.records or b""))  # type: ignore[arg-type]
    return [
        bytes(record.value or b"") for position, header in batches(data) for record in records_of(data[position : position + header.size])
    ]


def test_serves_and_stops() -> None:
    world = World()
    node = world.up()

    async def dialogue(channel: Channel) -> None:
        assert (await channel.send(MetadataRequest(topics=[]))).brokers[0].host == "server"
        await create(channel, "orders")
        assert await produce(channel, "orders", b"one", b"two") == 0
        assert await produce(channel, "orders", b"three", acks=1) == 2
        assert await fetch(channel, "orders") == [b"one", b"two", b"three"]
        ids = [(await channel.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))).producer_id for _ in "ab"]
        assert ids == [0, 1]

    world.talk(dialogue)
    world.run(world.server, node.stop())
    assert world.files.exists("/data/.kafka_cleanshutdown")


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_broker_says_that_it_goes_unless_controlled_shutdown_is_off(is_enabled: bool) -> None:
    world = World()
    node = world.up(controlled__shutdown__enable=str(is_enabled).lower())
    world.talk(lambda channel: create(channel, "orders"))
    world.run(world.server, node.stop())
    assert node.broker._loader.image.brokers[1].in_controlled_shutdown is is_enabled
    assert world.files.exists("/data/.kafka_cleanshutdown")


def test_comes_back_with_everything_after_a_clean_stop() -> None:
    world = World()
    node = world.up()
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one", acks=1))
    world.run(world.server, node.stop())
    world.network.crash(world.server, silently=False)
    world.server = world.machine("server")
    world.up()
    assert not world.files.exists("/data/.kafka_cleanshutdown")
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]
    assert world.talk(lambda channel: produce(channel, "orders", b"two")) == 1


def test_a_member_that_waits_for_its_group_is_told_when_the_broker_stops() -> None:
    """Also where no controller has taken the group's partition away before: none is asked, or none answers."""
    world = World()
    node = world.up(
        controlled__shutdown__enable="false",
        offsets__topic__replication__factor="1",
        group__initial__rebalance__delay__ms="60000",
    )

    async def join() -> int:
        channel = await Channel.connect(world.network, "server", PORT, client_id="test", timeout_s=100)
        await channel.send(FindCoordinatorRequest(key="g"), 3)  # makes the topic
        await asyncio.sleep(2)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        asked = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=100_000,
            member_id="",
            protocol_type="consumer",
            protocols=protocols,
        )
        return (await channel.send(asked, 3)).error_code

    joining = world.loop.start(world.client, join())
    world.run(world.client, asyncio.sleep(5))
    assert not joining.done()
    began_s = world.loop.time()
    world.run(world.server, node.stop())
    assert world.loop.time() - began_s < 1
    assert world.loop.run_until_complete(joining) == ErrorCode.NOT_COORDINATOR


def test_a_new_leader_epoch_is_noted_with_its_first_batch_and_not_by_the_start() -> None:
    world = World()
    node = world.up()
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    world.run(world.server, node.stop())
    world.network.crash(world.server, silently=False)
    world.server = world.machine("server")
    path = "/data/orders-0/leader-epoch-checkpoint"
    before = world.files.read(path)
    epochs = world.up().broker.logs.logs[TopicPartition("orders", 0)].epochs
    world.run(world.server, asyncio.sleep(0.1))
    assert world.files.read(path) == before
    world.talk(lambda channel: produce(channel, "orders", b"two"))
    assert world.files.read(path) == before.replace(b"\n1\n", b"\n2\n") + b"%d 1\n" % epochs.latest_epoch


@pytest.mark.parametrize("seed", range(5))
def test_what_was_acknowledged_survives_a_power_cut(seed: int) -> None:
    world = World()
    world.chance.seed(seed)
    world.up()
    world.talk(lambda channel: create(channel, "orders"))

    async def produce_many(channel: Channel) -> None:
        for number in range(20):
            await produce(channel, "orders", b"%d" % number)

    world.talk(produce_many)
    world.crash()
    started_s = world.loop.time()
    world.up()
    assert world.loop.time() - started_s < 2  # nobody waits for the end of a session that died with its process
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"%d" % number for number in range(20)]


SMALL_TRANSACTION_LOG = {
    "transaction__state__log__replication__factor": "1",
    "transaction__state__log__min__isr": "1",
    "transaction__state__log__num__partitions": "1",
}


async def init_producer(channel: Channel) -> tuple[int, int]:
    """The id and epoch of the transactional producer "copier", once its coordinator is there."""
    for _ in range(50):
        said = await channel.send(InitProducerIdRequest(transactional_id="copier", transaction_timeout_ms=60_000), 5)
        if said.error_code == ErrorCode.NONE:
            return said.producer_id, said.producer_epoch
        await channel.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["copier"]))
        await asyncio.sleep(0.1)
    raise AssertionError(said)


@pytest.mark.parametrize("at_the_start", ["true", "false"])
def test_verification_of_transactions_can_be_switched_off_and_on_again(at_the_start: str) -> None:
    world, option = World(), "transaction.partition.verification.enable"
    world.up(transaction__partition__verification__enable=at_the_start)

    async def produce_without_adding(channel: Channel, producer_id: int) -> int:
        batch = build_batch(
            [NewRecord(EPOCH_MS, None, b"one")], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        data = PartitionProduceData(index=0, records=memoryview(batch))
        topics = [TopicProduceData(name="orders", partition_data=[data])]
        request = ProduceRequest(transactional_id="copier", acks=1, timeout_ms=5000, topic_data=topics)
        return (await channel.send(request, 9)).responses[0].partition_responses[0].error_code

    async def change(channel: Channel, operation: int, value: str | None) -> None:
        changed = AlterableConfig(name=option, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[changed])
        answer = await channel.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert answer.responses[0].error_code == ErrorCode.NONE

    async def dialogue(channel: Channel) -> list[int]:
        await create(channel, "orders")
        said = [await produce_without_adding(channel, 5)]
        for producer_id, value in ((6, "false"), (7, "true")):
            await change(channel, 0, value)
            said.append(await produce_without_adding(channel, producer_id))
        await change(channel, 1, None)
        return [*said, await produce_without_adding(channel, 8)]

    refused = ErrorCode.NOT_ENOUGH_REPLICAS  # for clients of this version: there is no coordinator that could be asked
    at_first = refused if at_the_start == "true" else ErrorCode.NONE
    assert world.talk(dialogue) == [at_first, ErrorCode.NONE, refused, at_first]


def test_the_broker_adds_partitions_also_where_verification_is_switched_off() -> None:
    """Clients of version 2 leave the adding to the broker: without it their transaction would never have begun."""
    world = World()
    world.up(transaction__partition__verification__enable="false", **SMALL_TRANSACTION_LOG)

    async def transaction(channel: Channel) -> list[int]:
        await create(channel, "orders")
        producer_id, epoch = await init_producer(channel)
        batch = build_batch(
            [NewRecord(EPOCH_MS, None, b"one")], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
        )
        topics = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])]
        request = ProduceRequest(transactional_id="copier", acks=-1, timeout_ms=5000, topic_data=topics)
        produced = (await channel.send(request, 12)).responses[0].partition_responses[0].error_code
        end = EndTxnRequest(transactional_id="copier", producer_id=producer_id, producer_epoch=epoch, committed=True)
        return [produced, (await channel.send(end, 5)).error_code]

    assert world.talk(transaction) == [ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize("adds", [True, False], ids=["broker-adds", "client-adds"])
@pytest.mark.parametrize("seed", range(5))
def test_batches_that_a_producer_has_on_the_way_are_appended_in_their_order(seed: int, adds: bool) -> None:
    """Each request names other partitions, so some have to be verified and others not."""
    world = World()
    world.up(**SMALL_TRANSACTION_LOG)
    chance = random.Random(seed)

    async def transaction(channel: Channel) -> list[ErrorCode]:
        await create(channel, "orders", 6)
        producer_id, epoch = await init_producer(channel)
        if not adds:
            topic = AddPartitionsToTxnTopic(name="orders", partitions=list(range(6)))
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="copier",
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[topic],
            )
            added = await channel.send(add, 3)
            assert {each.partition_error_code for each in added.results_by_topic_v3_and_below[0].results_by_partition} == {ErrorCode.NONE}
        sequences = dict.fromkeys(range(6), 0)
        on_the_way = []
        for _ in range(8):
            parts = []
            for index in chance.sample(range(6), chance.randint(1, 4)):
                records = [NewRecord(EPOCH_MS, None, b"value")] * chance.randint(1, 3)
                batch = build_batch(
                    records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequences[index], is_transactional=True
                )
                sequences[index] += len(records)
                parts.append(PartitionProduceData(index=index, records=memoryview(batch)))
            topics = [TopicProduceData(name="orders", partition_data=parts)]
            request = ProduceRequest(transactional_id="copier", acks=-1, timeout_ms=5000, topic_data=topics)
            on_the_way.append(channel.send(request, 12 if adds else 11))
            if chance.random() < 0.2:
                await asyncio.sleep(0.001)
        answers = await asyncio.gather(*on_the_way)
        return [ErrorCode.of(slot.error_code) for said in answers for topic in said.responses for slot in topic.partition_responses]

    assert set(world.talk(transaction)) == {ErrorCode.NONE}


def test_a_parked_fetch_is_answered_when_the_node_stops() -> None:
    world = World()
    node = world.up()
    world.talk(lambda channel: create(channel, "orders"))

    async def wait_and_stop(channel: Channel) -> float:
        waiting = world.loop.create_task(fetch(channel, "orders", max_wait_ms=8_000))
        await asyncio.sleep(1)
        stopping = world.loop.start(world.server, node.stop())
        assert await waiting == []
        answered_s = world.loop.time()
        await stopping
        return answered_s

    started_s = world.loop.time()
    assert world.talk(wait_and_stop) - started_s < 2


def test_the_first_delta_hosts_what_the_log_holds() -> None:
    world = World()
    node = world.up()
    world.talk(lambda channel: create(channel, "orders", 3))
    assert sorted(node.broker.replicas.hosted) == [("orders", 0), ("orders", 1), ("orders", 2)]
    world.crash()
    assert sorted(world.up().broker.replicas.hosted) == [("orders", 0), ("orders", 1), ("orders", 2)]


def test_what_a_broker_led_when_it_died_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it has registered it leads as one that is dead: what was decided in that epoch would be thrown away."""
    world = World()
    world.up(offsets__topic__replication__factor="1", offsets__topic__num__partitions="3")
    world.talk(lambda channel: channel.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"]), 4))
    world.talk(wait_a_second)
    world.crash()
    loaded: list[TopicPartition] = []
    load = CoordinatorTopic._load

    async def counted(self: CoordinatorTopic[Any], index: int, shard: Shard[Any], partition: Partition) -> None:
        loaded.append(partition.topic_partition)
        await load(self, index, shard, partition)

    monkeypatch.setattr(CoordinatorTopic, "_load", counted)
    world.up(offsets__topic__replication__factor="1", offsets__topic__num__partitions="3")
    world.talk(wait_a_second)
    assert sorted(loaded) == [TopicPartition(GROUP_TOPIC, index) for index in range(3)]


def test_a_topic_deleted_and_made_again_begins_anew() -> None:
    world = World()
    node = world.up()

    async def dialogue(channel: Channel) -> None:
        await create(channel, "orders")
        await produce(channel, "orders", b"old")
        first = node.broker.replicas.hosted["orders", 0].topic_id
        deleted = await channel.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)], timeout_ms=5000), 6)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert not node.broker.replicas.hosted
        assert any(name.endswith("-delete") for name in world.files.listdir("/data"))
        await create(channel, "orders")
        assert node.broker.replicas.hosted["orders", 0].topic_id != first
        assert await fetch(channel, "orders") == []
        assert await produce(channel, "orders", b"new") == 0

    world.talk(dialogue)


def test_a_topic_that_a_question_makes_is_unknown_until_the_next_question() -> None:
    """Who deletes a topic and asks whether it is gone is told so, although the question makes it again."""
    world = World()
    world.up()

    async def ask(channel: Channel, *, may_create: bool = True) -> tuple[int, int]:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=may_create)
        topic = (await channel.send(wanted)).topics[0]
        return topic.error_code, len(topic.partitions)

    async def dialogue(channel: Channel) -> None:
        assert await ask(channel, may_create=False) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        for _ in range(2):
            assert await ask(channel) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
            assert await ask(channel) == (ErrorCode.NONE, 1)
            await channel.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)], timeout_ms=5000), 6)

    world.talk(dialogue)


def test_a_broker_that_was_unregistered_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    node = world.up()
    world.talk(lambda channel: channel.send(UnregisterBrokerRequest(broker_id=1)))
    world.run(world.server, asyncio.sleep(60))
    said = [record.message for record in caplog.records if record.name == "moldau.server.node.lifecycle"]
    assert said == ["the controller refuses this broker: STALE_BROKER_EPOCH: No broker registration found for broker id 1"]
    world.run(world.server, node.stop())


def test_options_of_a_topic_reach_its_logs() -> None:
    world = World()
    node = world.up()

    async def dialogue(channel: Channel) -> None:
        await create(channel, "orders")
        changed = AlterableConfig(name="retention.ms", config_operation=0, value="1234")
        resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=[changed])
        answer = await channel.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert answer.responses[0].error_code == ErrorCode.NONE
        assert node.broker.replicas.hosted["orders", 0].log.config.retention_ms == 1234

    world.talk(dialogue)


def test_rates_that_only_a_running_broker_has_are_listed_once_they_are_set() -> None:
    world = World()
    world.up()
    rate, of_moves = "leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"
    rates = {rate, "follower.replication.throttled.rate", of_moves}
    of_broker, of_all, is_set, is_deleted = 2, 3, 0, 1

    async def described(channel: Channel, name: str) -> dict[str, list[tuple[str | None, int]]]:
        resource = DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=None)
        response = await channel.send(DescribeConfigsRequest(resources=[resource], include_synonyms=True))
        return {each.name: [(one.value, one.source) for one in each.synonyms] for each in response.results[0].configs if each.name in rates}

    async def change(channel: Channel, name: str, key: str, operation: int, value: str | None) -> None:
        changed = AlterableConfig(name=key, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=[changed])
        answer = await channel.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert answer.responses[0].error_code == ErrorCode.NONE

    async def dialogue(channel: Channel) -> None:
        assert await described(channel, "1") == {}
        await change(channel, "", rate, is_set, "1000")
        await change(channel, "1", rate, is_set, "2000")
        await change(channel, "1", of_moves, is_set, "3000")
        assert await described(channel, "1") == {rate: [("2000", of_broker), ("1000", of_all)], of_moves: [("3000", of_broker)]}
        assert await described(channel, "") == {rate: [("1000", of_all)]}
        await change(channel, "", of_moves, is_set, "4000")
        assert (await described(channel, "1"))[of_moves] == [("3000", of_broker), ("4000", of_all)]
        await change(channel, "1", of_moves, is_deleted, None)
        await change(channel, "", of_moves, is_deleted, None)
        assert of_moves not in await described(channel, "1")

    world.talk(dialogue)


def test_levels_of_loggers_are_set_beside_stored_options() -> None:
    world = World()
    world.up()
    of_topic, of_logger, is_set, logger = 2, 8, 0, logging.getLogger("moldau.test_node.quiet")

    def resource(kind: int, name: str, key: str, value: str) -> AlterConfigsResource:
        changed = AlterableConfig(name=key, config_operation=is_set, value=value)
        return AlterConfigsResource(resource_type=kind, resource_name=name, configs=[changed])

    async def dialogue(channel: Channel) -> None:
        await create(channel, "orders")
        asked = [
            resource(of_logger, "2", logger.name, "ERROR"),
            resource(of_topic, "orders", "retention.ms", "1000"),
            resource(of_logger, "1", logger.name, "ERROR"),
        ]
        answer = await channel.send(IncrementalAlterConfigsRequest(resources=asked, validate_only=False))
        told = [(one.error_code, one.resource_type, one.resource_name) for one in answer.responses]
        assert told == [(ErrorCode.INVALID_REQUEST, of_logger, "2"), (0, of_topic, "orders"), (0, of_logger, "1")]
        described = DescribeConfigsResource(resource_type=of_logger, resource_name="1", configuration_keys=[logger.name, "root"])
        levels = (await channel.send(DescribeConfigsRequest(resources=[described]))).results[0].configs
        assert {one.name: one.value for one in levels}[logger.name] == "ERROR" and len(levels) == 2

    try:
        world.talk(dialogue)
    finally:
        logger.setLevel(logging.NOTSET)


def test_options_of_the_broker_reach_what_goes_by_them() -> None:
    world = World()
    world.up(producer__id__expiration__check__interval__ms="1000")

    async def change(channel: Channel, key: str, value: str) -> None:
        changed = AlterableConfig(name=key, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[changed])
        answer = await channel.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert answer.responses[0].error_code == ErrorCode.NONE

    async def producers(channel: Channel) -> int:
        topic = TopicRequest(name="orders", partition_indexes=[0])
        return len((await channel.send(DescribeProducersRequest(topics=[topic]))).topics[0].partitions[0].active_producers)

    async def dialogue(channel: Channel) -> None:
        await create(channel, "orders")
        batch = build_batch([NewRecord(EPOCH_MS, None, b"one")], producer_id=5, producer_epoch=0, base_sequence=0)
        topics = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])]
        await channel.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 9)
        await asyncio.sleep(5)
        assert await producers(channel) == 1
        await change(channel, "producer.id.expiration.ms", "2000")
        await asyncio.sleep(5)
        assert await producers(channel) == 0
        await change(channel, "max.connections", "1")
        with pytest.raises(OSError):
            await producers(await Channel.connect(world.network, "server", PORT, client_id="second", timeout_s=10))

    world.talk(dialogue)


def test_options_of_a_group_reach_its_members() -> None:
    """Those of one group within the broker's limits as they are now, and those of all groups that can be set at run time."""
    world = World()
    node = world.up(group__consumer__max__heartbeat__interval__ms="12000")
    environment = node.broker.requests.coordinators.group_environment

    async def alter(channel: Channel, kind: int, name: str, key: str, value: str | None) -> None:
        changed = AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[changed])
        answer = await channel.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert answer.responses[0].error_code == ErrorCode.NONE, answer

    async def dialogue(channel: Channel) -> None:
        await alter(channel, 32, "readers", "consumer.heartbeat.interval.ms", "11000")
        await alter(channel, 32, "readers", "share.isolation.level", "read_committed")
        assert environment.of_group("readers", "consumer.heartbeat.interval.ms", 5000) == 11_000
        assert environment.of_group("readers", "share.isolation.level", "read_uncommitted") == "read_committed"
        assert environment.of_group("others", "consumer.heartbeat.interval.ms", 5000) == 5000
        await alter(channel, 32, "readers", "consumer.heartbeat.interval.ms", None)
        assert environment.of_group("readers", "consumer.heartbeat.interval.ms", 5000) == 5000
        await alter(channel, 4, "", "group.consumer.assignment.interval.ms", "77")
        assert environment.config.consumer_assignment_interval_ms == 77

    async def last(channel: Channel) -> None:
        await alter(channel, 32, "readers", "consumer.heartbeat.interval.ms", "12000")

    world.talk(dialogue)
    world.talk(last)
    world.crash()
    again = world.up(group__consumer__max__heartbeat__interval__ms="9000").broker.requests.coordinators.group_environment
    assert again.of_group("readers", "consumer.heartbeat.interval.ms", 5000) == 9000, "the limit was narrowed meanwhile"
    assert again.config.consumer_assignment_interval_ms == 77


def test_a_start_that_cannot_follow_the_metadata_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def fail(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(Publisher, "publish", fail)
    assert refused(world) == "the metadata cannot be followed: planted"
    assert world.loop.time() < 10, "and is not tried for as long as a controller may be away"
    monkeypatch.undo()
    world.up()


def refused(world: World, **changed: str) -> str:
    with pytest.raises(StartRefused) as caught:
        world.up(**changed)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_metadata_log_has_a_folder_of_its_own() -> None:
    world = World(folders=("/metadata", "/data"))
    apart = {"log__dirs": "/data", "metadata__log__dir": "/metadata"}
    node = world.up(**apart)
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    assert world.files.is_dir("/metadata/__cluster_metadata-0") and not world.files.exists("/data/__cluster_metadata-0")
    world.run(world.server, node.stop())
    world.network.crash(world.server, silently=False)
    world.server = world.machine("server")
    world.up(**apart)
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]


def test_a_folder_that_was_not_formatted_says_how() -> None:
    world = World(formatted=False)
    world.files.mkdir("/data")
    assert "storage format" in refused(world)
    assert world.files.listdir("/data") == []


def test_a_folder_that_is_not_there_is_not_made() -> None:
    world = World(formatted=False)
    assert "storage format" in refused(world)
    assert not world.files.is_dir("/data")


def test_a_folder_of_another_node_says_so() -> None:
    world = World(formatted=False)
    world.format(node_id=7)
    before = world.files.listdir("/data")
    assert "node.id=7" in refused(world)
    assert world.files.listdir("/data") == before


def test_a_refused_start_is_no_stop() -> None:
    """What is noted of the last stop decides whether the controller trusts the replicas here, in the folders without logs too."""
    world = World(folders=("/data", "/more"))
    folders = "/data,/more"
    node = world.up(log__dirs=folders)
    world.run(world.server, node.stop())
    noted = {path: world.files.read(path) for path in ("/data/.kafka_cleanshutdown", "/more/.kafka_cleanshutdown")}
    world.network.crash(world.server, silently=False)
    world.server = world.machine("server")
    _with_taken_port(world, log__dirs=folders)
    assert {path: world.files.read(path) for path in noted} == noted


def test_a_first_start_that_is_refused_notes_nothing() -> None:
    world = World()
    before = set(world.files.listdir("/data"))
    _with_taken_port(world)
    assert set(world.files.listdir("/data")) <= {*before, ".lock"}


def test_folders_of_two_clusters_say_so() -> None:
    world = World()
    world.files.mkdir("/more")
    world.files.write_atomically("/more/meta.properties", MetaProperties("somebodyElse", 1, UUID(int=1 << 100)).text())
    text = refused(world, log__dirs="/data,/more")
    assert "somebodyElse" in text and CLUSTER_ID in text


def test_a_second_start_on_the_same_folders_leaves_the_first_alone() -> None:
    world = World()
    world.up()
    world.talk(lambda channel: create(channel, "orders"))
    before = world.server
    world.server = world.machine("other")
    assert "/data is in use" in refused(world)
    world.server = before
    assert world.talk(lambda channel: produce(channel, "orders", b"still here")) == 0


def test_a_busy_port_says_which() -> None:
    world = World()
    assert f"listeners=CONTROLLER://:{PORT + 1}" in _with_taken_port(world)


def _with_taken_port(world: World, **changed: str) -> str:
    async def take() -> None:
        await world.network.listen("", CONTROLLER_PORT, lambda transport: None)

    world.run(world.server, take())
    return refused(world, **changed)


def test_the_state_of_a_share_partition_outlives_a_crash() -> None:
    world = World()
    options = {
        "share__coordinator__state__topic__replication__factor": "1",
        "share__coordinator__state__topic__min__isr": "1",
        "share__coordinator__state__topic__prune__interval__ms": "1000",
        "share__coordinator__cold__partition__snapshot__interval__ms": "1000",
    }
    node = world.up(**options)
    batch = write_share_group_state.StateBatch(first_offset=7, last_offset=9, delivery_state=2, delivery_count=1)

    async def begin(channel: Channel) -> None:
        await create(channel, "orders")
        topic_id = node.shared.loader.image.topics["orders"].id
        key = f"readers:{uuid_to_text(topic_id)}:0"
        wrong = await channel.send(FindCoordinatorRequest(key_type=2, coordinator_keys=["readers:0"]))
        assert wrong.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
        while (found := await channel.send(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]))).coordinators[0].error_code:
            assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await asyncio.sleep(0.1)
        assert found.coordinators[0].host == "server"
        asked = initialize_share_group_state.PartitionData(partition=0, state_epoch=1, start_offset=5)
        topics = [initialize_share_group_state.InitializeStateData(topic_id=topic_id, partitions=[asked])]
        begun = await channel.send(initialize_share_group_state.InitializeShareGroupStateRequest(group_id="readers", topics=topics))
        assert begun.results[0].partitions[0].error_code == ErrorCode.NONE
        for leader_epoch, expected in ((3, ErrorCode.NONE), (2, ErrorCode.FENCED_LEADER_EPOCH)):
            asked_to_read = [read_share_group_state.PartitionData(partition=0, leader_epoch=leader_epoch)]
            data = [read_share_group_state.ReadStateData(topic_id=topic_id, partitions=asked_to_read)]
            answer = await channel.send(read_share_group_state.ReadShareGroupStateRequest(group_id="readers", topics=data))
            assert answer.results[0].partitions[0].error_code == expected
        change = write_share_group_state.PartitionData(
            partition=0, state_epoch=1, leader_epoch=3, start_offset=6, delivery_complete_count=3, state_batches=[batch]
        )
        changes = [write_share_group_state.WriteStateData(topic_id=topic_id, partitions=[change])]
        written = await channel.send(write_share_group_state.WriteShareGroupStateRequest(group_id="readers", topics=changes))
        assert written.results[0].partitions[0].error_code == ErrorCode.NONE

    def state_log() -> Log:
        return next(
            log for log in node.broker.logs.logs.values() if str(log.topic_partition).startswith("__share") and log.log_end_offset > 0
        )

    world.talk(begin)
    world.crash()
    node = world.up(**options)
    world.run(world.server, asyncio.sleep(5))
    assert state_log().log_start_offset == 3, "a snapshot replaced the three records before it"

    async def look(channel: Channel) -> None:
        topic_id = node.shared.loader.image.topics["orders"].id
        persister = node.broker.requests.coordinators.share_persister
        asked = [read_share_group_state.PartitionData(partition=index, leader_epoch=-1) for index in (0, 1)]
        data = [read_share_group_state.ReadStateData(topic_id=topic_id, partitions=asked)]
        answer = await persister.ask(read_share_group_state.ReadShareGroupStateRequest(group_id="readers", topics=data))
        found, unknown = answer.results[0].partitions
        assert unknown.error_code == ErrorCode.INVALID_REQUEST
        assert (found.state_epoch, found.start_offset, found.error_code) == (1, 6, ErrorCode.NONE)
        assert [(one.first_offset, one.last_offset) for one in found.state_batches] == [(7, 9)]
        await channel.send(DeleteTopicsRequest(topics=[], topic_names=["orders"], timeout_ms=5000), 5)

    world.talk(look)
    assert not any(shard.machine.states for shard in node.broker.requests.coordinators.shares.active_shards()), (
        "the states of a deleted topic go with it"
    )
    world.run(world.server, node.stop())


TWO_FOLDERS = {"log__dirs": "/data,/more"}


async def partitions_in(channel: Channel, folder: str) -> dict[int, bool]:
    """Of the topic orders: the partitions in a folder, and whether they are on their way to it."""
    for result in (await channel.send(DescribeLogDirsRequest(topics=None))).results:
        if result.log_dir == folder:
            assert result.error_code == ErrorCode.NONE, folder
            return {one.partition_index: one.is_future_key for topic in result.topics for one in topic.partitions}
    raise AssertionError(folder)


async def alter(channel: Channel, folder: str, topic: str = "orders", partition: int = 0) -> int:
    wanted = AlterReplicaLogDir(path=folder, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])])
    (answered,) = (await channel.send(AlterReplicaLogDirsRequest(dirs=[wanted]))).results
    return answered.partitions[0].error_code


def test_partitions_are_spread_over_folders_and_the_controller_knows_where() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS)

    async def dialogue(channel: Channel) -> None:
        await create(channel, "orders", 4)
        here, there = await partitions_in(channel, "/data"), await partitions_in(channel, "/more")
        assert len(here) == len(there) == 2 and here.keys() | there.keys() == {0, 1, 2, 3}
        await asyncio.sleep(1)
        ids = {directory.path: directory.directory_id for directory in node.broker.logs.directories}
        said = [partition.directories[0] for partition in node.shared.loader.image.topics["orders"].partitions]
        assert said == [ids["/data" if number in here else "/more"] for number in range(4)]

    world.talk(dialogue)


def test_a_replica_moves_to_another_folder_while_it_serves() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS)

    async def dialogue(channel: Channel) -> str:
        await create(channel, "orders")
        source = node.broker.logs.directory_of(TopicPartition("orders", 0)).path
        target = "/more" if source == "/data" else "/data"
        for number in range(30):
            await produce(channel, "orders", b"%d" % number)
        assert await alter(channel, "/elsewhere") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await alter(channel, target, "unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(channel, target, "x" * 249) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await alter(channel, source) == ErrorCode.NONE
        assert await alter(channel, target) == ErrorCode.NONE
        for number in range(30, 60):
            await produce(channel, "orders", b"%d" % number)
        await asyncio.sleep(2)
        assert await partitions_in(channel, target) == {0: False} and await partitions_in(channel, source) == {}
        for number in range(60, 70):
            await produce(channel, "orders", b"%d" % number)
        assert await fetch(channel, "orders") == [b"%d" % number for number in range(70)]
        await asyncio.sleep(1)
        moved_to = node.broker.logs.directory_of(TopicPartition("orders", 0))
        assert node.shared.loader.image.topics["orders"].partitions[0].directories == (moved_to.directory_id,)
        return target

    target = world.talk(dialogue)
    world.crash()
    world.up(**TWO_FOLDERS)

    async def afterwards(channel: Channel) -> None:
        assert await partitions_in(channel, target) == {0: False}
        assert await fetch(channel, "orders") == [b"%d" % number for number in range(70)]

    world.talk(afterwards)


def test_a_move_that_a_crash_broke_off_begins_again() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS, replica__alter__log__dirs__io__max__bytes__per__second="1")

    async def dialogue(channel: Channel) -> str:
        await create(channel, "orders")
        source = node.broker.logs.directory_of(TopicPartition("orders", 0)).path
        await produce(channel, "orders", b"one")
        target = "/more" if source == "/data" else "/data"
        assert await alter(channel, target) == ErrorCode.NONE
        await asyncio.sleep(1)
        assert await partitions_in(channel, source) == {0: False} and await partitions_in(channel, target) == {0: True}
        return source

    source = world.talk(dialogue)
    world.crash()
    world.up(**TWO_FOLDERS)

    async def afterwards(channel: Channel) -> None:
        await asyncio.sleep(2)
        assert await partitions_in(channel, source) == {}
        assert await fetch(channel, "orders") == [b"one"]

    world.talk(afterwards)


def test_a_folder_whose_disk_fails_goes_offline_and_the_others_serve_on() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS)

    async def before(channel: Channel) -> tuple[str, str]:
        await create(channel, "first")
        await create(channel, "second")
        await produce(channel, "first", b"one")
        await produce(channel, "second", b"two")
        await asyncio.sleep(1)
        by_folder = {node.broker.logs.directory_of(where).path: where.topic for where in node.broker.logs.logs}
        return by_folder["/data"], by_folder["/more"]

    well, ill = world.talk(before)

    def fail(call: str, path: str) -> Fault | None:
        return Fault(errno.EIO) if path.startswith("/more") else None

    async def during(channel: Channel) -> None:
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(
                    name=ill,
                    partition_data=[PartitionProduceData(index=0, records=memoryview(build_batch([NewRecord(EPOCH_MS, None, b"x")])))],
                )
            ],
        )
        assert (await channel.send(request, 9)).responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await produce(channel, well, b"more") == 1
        told = {one.log_dir: one.error_code for one in (await channel.send(DescribeLogDirsRequest(topics=None))).results}
        assert told == {"/data": ErrorCode.NONE, "/more": ErrorCode.KAFKA_STORAGE_ERROR}
        assert await alter(channel, "/more", well) == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(5)
        assert node.shared.loader.image.topics[ill].partitions[0].leader == -1, "the controller was told"

    world.files.hook = fail
    world.talk(during)
    world.crash()
    world.files.hook = fail
    world.up(**TWO_FOLDERS)

    async def still(channel: Channel) -> None:
        assert await fetch(channel, well) == [b"one" if well == "first" else b"two", b"more"]
        assert await partitions_in(channel, "/data") == {0: False}, "no empty log stands in for the one that is offline"

    world.talk(still)
    world.crash()
    world.up(**TWO_FOLDERS)
    assert world.talk(lambda channel: fetch(channel, ill)) == [b"two" if well == "first" else b"one"]


def test_a_full_disk_refuses_what_it_has_no_room_for_and_goes_on_when_it_has(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's broker ends.  Checkpoints, leader epochs, new logs and metadata wait; records are refused; what was acknowledged stays."""
    world = World()
    options = {"offsets__topic__replication__factor": "1", "log__retention__check__interval__ms": "1000"}
    node = world.up(**options)

    async def code_of(channel: Channel, topic: str) -> int:
        data = memoryview(build_batch([NewRecord(EPOCH_MS, None, b"x")]))
        wanted = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])]
        response = await channel.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=wanted), 9)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    async def commit(channel: Channel) -> int:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
        code: int = (
            (await channel.send(OffsetCommitRequest(group_id="g", member_id="", topics=topics), 8)).topics[0].partitions[0].error_code
        )
        return code

    async def until_committed(channel: Channel) -> None:
        for _ in range(100):
            if (await channel.send(FindCoordinatorRequest(key="g"), 3)).error_code == 0 and await commit(channel) == ErrorCode.NONE:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("no coordinator takes commits")

    async def before(channel: Channel) -> None:
        await create(channel, "orders")
        await produce(channel, "orders", b"one")
        await until_committed(channel)

    async def during(channel: Channel) -> None:
        assert await code_of(channel, "orders") == ErrorCode.KAFKA_STORAGE_ERROR
        assert await commit(channel) != ErrorCode.NONE
        other = await Channel.connect(world.network, "server", PORT, client_id="test", timeout_s=1000)
        waiting = asyncio.get_running_loop().create_task(create(other, "later"))
        await asyncio.sleep(70)  # all that is done from time to time
        assert await code_of(channel, "orders") == ErrorCode.KAFKA_STORAGE_ERROR
        assert not waiting.done() and not node.failed.done()
        world.files.hook = None
        await waiting
        other.close()
        await asyncio.sleep(2)
        assert await produce(channel, "later", b"first") == 0
        assert await produce(channel, "orders", b"two") == 1
        await until_committed(channel)

    world.talk(before)
    world.files.hook = lambda call, path: Fault(errno.ENOSPC, written=1) if call == "pwrite" else None
    world.talk(during)
    assert "No space left" in caplog.text and "Make room" in caplog.text
    world.crash()
    world.up()
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one", b"two"]
    assert world.talk(lambda channel: fetch(channel, "later")) == [b"first"]


def test_logs_that_the_cluster_does_not_know_are_kept_under_another_name() -> None:
    world = World()
    world.up()
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    world.crash()
    world.files.mkdir("/data/gone-3")
    world.files.write_atomically("/data/gone-3/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA_w\n")
    world.files.mkdir("/data/orders-7")
    world.files.sync_dir("/data")
    node = world.up()
    assert list(node.broker.logs.logs) == [TopicPartition("orders", 0)]
    assert [name.partition(".")[0] for name in world.files.listdir("/data") if name.endswith("-stray")] == ["gone-3", "orders-7"]
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]


def same_id(one: bytes, other: bytes) -> bool:
    try:
        return uuid_from_text(one.decode().split()[-1]) == uuid_from_text(other.decode().split()[-1])
    except ValueError:
        return False


@pytest.mark.parametrize("bit", range(0, 22 * 8, 5))
def test_a_damaged_topic_id_never_puts_an_empty_log_in_the_place_of_a_full_one(bit: int) -> None:
    world = World()
    world.up()
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    world.crash()
    path = "/data/orders-0/partition.metadata"
    before = world.files.read(path)
    content = bytearray(before)
    content[len(b"version: 0\ntopic_id: ") + bit // 8] ^= 1 << bit % 8
    world.files.write_atomically(path, content)
    if same_id(before, bytes(content)):
        world.up()  # the last character has bits that say nothing
        assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]
    else:
        with pytest.raises(StartRefused, match=r"partition\.metadata"):
            world.up()


def test_a_log_without_a_topic_id_is_that_of_its_name() -> None:
    world = World()
    world.up()
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    world.crash()
    world.files.unlink("/data/orders-0/partition.metadata")
    world.up()
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]
