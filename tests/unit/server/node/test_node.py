"""The whole node: it serves, stops, and comes back with what was acknowledged."""

import asyncio
from typing import Any

import pytest

from moldau.coordinator.runtime import Shard
from moldau.errors import ErrorCode
from moldau.net.channel import Channel
from moldau.protocol.messages import initialize_share_group_state, read_share_group_state, write_share_group_state
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.replication.partition import Partition
from moldau.server.coordinators.topic import CoordinatorTopic
from moldau.storage.log import Log
from moldau.types import GROUP_TOPIC, ZERO_UUID, TopicPartition, uuid_to_text
from tests.unit.server.node.one_node import PORT, World, create, fetch, produce, wait_a_second


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
    """The member is told even if no controller has taken the group's partition away: none is asked, or none answers."""
    world = World()
    node = world.up(
        controlled__shutdown__enable="false",
        offsets__topic__replication__factor="1",
        group__initial__rebalance__delay__ms="60000",
    )

    async def join() -> int:
        channel = await Channel.connect(world.network, "server", PORT, client_id="test", timeout_s=100)
        await channel.send(FindCoordinatorRequest(key="g"), 3)  # this makes the topic
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
    """Before a broker has registered it counts as dead: decisions of a leader in that epoch would be thrown away."""
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
    """A client that deletes a topic and asks whether it is gone gets a yes, although the request makes the topic again."""
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
