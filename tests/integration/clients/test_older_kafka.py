"""Two brokers of Apache Kafka 2.1, the oldest release that our clients serve: what they have works, and what they lack is named."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau import Admin, Consumer, NewTopic, Producer, ShareConsumer, TopicPartition
from moldau.clients.admin.configs import ConfigChange
from moldau.clients.admin.partitions import ElectionType
from moldau.clients.admin.values import EARLIEST, LATEST, ResourceType
from moldau.errors import ErrorCode, KafkaError
from proof.kafka.older import OlderKafka, ZooKeeper

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("older kafka")]

OLDEST = "2.1.0"
WITHIN_S = 60.0
LACKS: dict[str, Callable[[Admin, str], Awaitable[object]]] = {
    "IncrementalAlterConfigsRequest": lambda admin, topic: admin.configs.alter(
        {(ResourceType.TOPIC, topic): [ConfigChange("retention.ms", "1000")]}
    ),
    "ListConfigResourcesRequest": lambda admin, topic: admin.configs.list_resources(),
    "AlterPartitionReassignmentsRequest": lambda admin, topic: admin.partitions.reassign({TopicPartition(topic, 0): [1]}),
    "ListPartitionReassignmentsRequest": lambda admin, topic: admin.partitions.list_reassignments(None),
    "ElectLeadersRequest": lambda admin, topic: admin.partitions.elect_leaders(ElectionType.PREFERRED, None),
    "DescribeProducersRequest": lambda admin, topic: admin.partitions.describe_producers([TopicPartition(topic, 0)]),
    "OffsetDeleteRequest": lambda admin, topic: admin.groups.delete_offsets("g", [TopicPartition(topic, 0)]),
    "ListGroupsRequest": lambda admin, topic: admin.groups.list_groups(states=["Stable"]),
    "LeaveGroupRequest": lambda admin, topic: admin.groups.remove_members("g", ["instance"]),
    "ListTransactionsRequest": lambda admin, topic: admin.transactions.list_transactions(),
    "DescribeTransactionsRequest": lambda admin, topic: admin.transactions.describe("t"),
    "ShareGroupDescribeRequest": lambda admin, topic: admin.share_groups.describe("s"),
    "StreamsGroupDescribeRequest": lambda admin, topic: admin.streams_groups.describe("s"),
    "DescribeQuorumRequest": lambda admin, topic: admin.quorum.describe(),
    "UpdateFeaturesRequest": lambda admin, topic: admin.features.update({"metadata.version": 1}),
    "DescribeClientQuotasRequest": lambda admin, topic: admin.quotas.describe(),
    "DescribeUserScramCredentialsRequest": lambda admin, topic: admin.users.describe(),
    "CreateTopicsRequest": lambda admin, topic: admin.topics.create([NewTopic("counts of the broker")]),
    "MetadataRequest": lambda admin, topic: admin.topics.describe_by_id([uuid.uuid4()]),
    "DeleteTopicsRequest": lambda admin, topic: admin.topics.delete(ids=[uuid.uuid4()]),
    "DescribeClusterRequest": lambda admin, topic: admin.describe_cluster(authorized_operations=True),
}


@pytest.fixture(scope="module")
def bootstraps() -> Iterator[list[str]]:
    with ZooKeeper(OLDEST) as zookeeper:
        brokers = [OlderKafka(OLDEST, node_id=number, zookeeper=zookeeper) for number in (1, 2)]
        with brokers[0], brokers[1]:
            yield [broker.bootstrap for broker in brokers]


async def a_topic(bootstrap: str) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    async with Admin(bootstrap) as admin:
        assert not isinstance((await admin.topics.create([NewTopic(name, 2, 1)]))[name], KafkaError)
    return name


async def test_either_broker_leads_to_the_controller(bootstraps: list[str]) -> None:
    for bootstrap in bootstraps:
        name = await a_topic(bootstrap)
        async with Admin(bootstrap) as admin:
            await admin.topics.create_partitions(name, 3)
            async with asyncio.timeout(WITHIN_S):
                while True:  # a broker hears of a change when the controller tells it
                    described = (await admin.topics.describe([name]))[name]
                    if not isinstance(described, KafkaError) and len(described.partitions) == 3:
                        break
            assert sorted(one.partition_index for one in described.partitions) == [0, 1, 2]
            cluster = await admin.describe_cluster()
            assert {broker.broker_id for broker in cluster.brokers} == {1, 2}
            assert cluster.controller_id in {1, 2}
            assert await admin.topics.delete([name]) == {name: None}


async def test_groups_offsets_and_records_as_an_administrator_sees_them(bootstraps: list[str]) -> None:
    topic = await a_topic(bootstraps[0])
    place = TopicPartition(topic, 0)
    async with Producer(bootstraps[0]) as producer:
        await (await producer.send_many(topic, [b"%d" % number for number in range(10)], partition=0))
    async with Admin(bootstraps[1]) as admin:
        found = await admin.partitions.list_offsets({place: LATEST, TopicPartition(topic, 1): EARLIEST})
        assert [one if isinstance(one, KafkaError) else one.offset for one in found.values()] == [10, 0]
        assert await admin.groups.alter_offsets(topic, {place: 4}) == {place: None}
        assert (await admin.groups.offsets(topic))[place].offset == 4
        assert (await admin.groups.describe(topic)).state == "Empty"
        assert topic in {group.group_id for group in await admin.groups.list_groups()}
        async with Consumer(bootstraps[1], group_id=topic, topics=[topic]) as consumer, asyncio.timeout(WITHIN_S):
            values: list[Any] = []
            while len(values) < 6:
                values += [value for records in await consumer.poll() for value in records.values]
            assert values == [b"%d" % number for number in range(4, 10)]
            (member,) = (await admin.groups.describe(topic)).members
            assert set(member.assignment) == {place, TopicPartition(topic, 1)}
        assert await admin.partitions.delete_records({place: 3}) == {place: 3}
        configs = (await admin.configs.describe([(ResourceType.TOPIC, topic)]))[ResourceType.TOPIC, topic]
        assert not isinstance(configs, KafkaError)
        assert {one.name: one.value for one in configs}["cleanup.policy"] == "delete"
        await admin.groups.delete(topic)


@pytest.mark.parametrize("api", LACKS)
async def test_a_missing_api_is_named(bootstraps: list[str], api: str) -> None:
    topic = await a_topic(bootstraps[0])
    async with Admin(bootstraps[0]) as admin:
        with pytest.raises(KafkaError, match=api) as caught:
            await LACKS[api](admin, topic)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("options", "api"),
    [
        ({"group_protocol": "consumer"}, "ConsumerGroupHeartbeatRequest"),
        ({"group_instance_id": "one"}, "JoinGroupRequest"),
    ],
)
async def test_a_consumer_names_what_its_group_cannot_have(bootstraps: list[str], options: dict[str, Any], api: str) -> None:
    topic = await a_topic(bootstraps[0])
    async with Consumer(bootstraps[0], group_id=topic, topics=[topic], **options) as consumer, asyncio.timeout(WITHIN_S):
        with pytest.raises(KafkaError, match=api) as caught:
            await consumer.poll()
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_there_are_no_share_groups(bootstraps: list[str]) -> None:
    topic = await a_topic(bootstraps[0])
    async with asyncio.timeout(WITHIN_S), ShareConsumer(bootstraps[0], topic, [topic]) as consumer:
        with pytest.raises(KafkaError, match="ShareGroupHeartbeatRequest") as caught:
            await consumer.poll()
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
