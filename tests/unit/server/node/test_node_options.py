"""Options that change while a node runs reach every part that reads them."""

import asyncio
import logging

import pytest

from moldau.errors import ErrorCode
from moldau.net.channel import Channel
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.clock import EPOCH_MS
from tests.unit.server.node.one_node import PORT, World, create


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
    """A group's own options count within the broker's present limits; options of all groups can be set at run time."""
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
    assert again.of_group("readers", "consumer.heartbeat.interval.ms", 5000) == 9000, "the limit has become narrower meanwhile"
    assert again.config.consumer_assignment_interval_ms == 77
