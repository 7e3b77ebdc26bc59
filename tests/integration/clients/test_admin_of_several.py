"""Admin calls about several groups, transactions and topics at once, and the options of single calls, on our broker and on Apache Kafka."""

import asyncio
import uuid

import pytest

from moldau import Admin, Consumer, NewTopic, Producer, ShareConsumer, TopicPartition
from moldau.clients.admin.acls import AclOperation, operations_of
from moldau.clients.admin.groups import GroupDescription, GroupOffset
from moldau.clients.errors import ClientError
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.embedded import EmbeddedBroker

pytestmark = pytest.mark.xdist_group("both brokers")

OF_GROUPS = {
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
}
"""Source: AclEntry.supportedOperations."""


def code_of(found: object) -> ErrorCode:
    assert isinstance(found, KafkaError)
    return found.code


@pytest.fixture
def name() -> str:
    return f"n-{uuid.uuid4().hex[:12]}"


async def test_several_groups(bootstrap: str, name: str) -> None:
    one, two, missing = f"{name}-1", f"{name}-2", f"{name}-3"
    place = TopicPartition(name, 0)
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(name, 1)])
        assert await admin.groups.alter_offsets(one, {place: 5}) == {place: None}
        assert await admin.groups.alter_offsets(two, {place: GroupOffset(7, 0, "so far")}) == {place: None}
        described = await admin.groups.describe_each([one, missing, two, one])
        assert list(described) == [one, missing, two]
        assert code_of(described[missing]) is ErrorCode.GROUP_ID_NOT_FOUND
        empty = described[one]
        assert isinstance(empty, GroupDescription)
        assert empty.members == []
        offsets = await admin.groups.offsets_of_each([one, two], require_stable=True)
        assert offsets == {one: {place: GroupOffset(5, -1, "")}, two: {place: GroupOffset(7, 0, "so far")}}
        deleted = await admin.groups.delete_each([one, missing, two])
        assert deleted[one] is deleted[two] is None
        assert code_of(deleted[missing]) is ErrorCode.GROUP_ID_NOT_FOUND
        async with Consumer(bootstrap, group_id=one) as consumer:
            assert await consumer.committed([place]) == {place: None}


async def test_share_and_streams_groups_that_are_missing(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        for found in (
            await admin.share_groups.describe_each([name]),
            await admin.share_groups.delete_each([name]),
            await admin.streams_groups.describe_each([name]),
        ):
            assert code_of(found[name]) is ErrorCode.GROUP_ID_NOT_FOUND
        assert (await admin.share_groups.offsets_of_each([name])).keys() == {name}


async def test_fenced_producers(bootstrap: str, name: str) -> None:
    async with (
        Admin(bootstrap) as admin,
        Producer(bootstrap, transactional_id=name) as producer,
    ):
        await producer.begin_transaction()
        await producer.send(name, b"a")
        open_ = await admin.transactions.list_transactions(states=["Ongoing"])
        assert name in {one.listed.transactional_id for one in open_}
        described = (await admin.transactions.describe_each([name, f"{name}-no"]))[name]
        assert not isinstance(described, KafkaError)
        fenced = (await admin.transactions.fence([name]))[name]
        assert not isinstance(fenced, KafkaError)
        assert fenced.producer_id == described.producer_id
        assert fenced.producer_epoch > described.producer_epoch
        with pytest.raises(ClientError):
            await producer.commit_transaction()


async def test_topics_by_id_and_partitions_on_trial(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(name, 2)])
        async with asyncio.timeout(60):  # Apache Kafka's broker lists a topic a moment after the answer, when it has replayed the record
            while not (listed := [one for one in await admin.topics.list() if one.name == name]):  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.02)
        (topic,) = listed
        unknown = uuid.uuid4()
        found = await admin.topics.describe_by_id([topic.topic_id, unknown])
        described = found[topic.topic_id]
        assert not isinstance(described, KafkaError)
        assert (described.name, len(described.partitions)) == (name, 2)
        assert code_of(found[unknown]) is ErrorCode.UNKNOWN_TOPIC_ID
        await admin.topics.create_partitions(name, 3, validate_only=True)
        with pytest.raises(KafkaError):
            await admin.topics.create_partitions(name, 1, validate_only=True)
        assert len((await admin.topics.describe_by_id([topic.topic_id]))[topic.topic_id].partitions) == 2  # type: ignore[union-attr]


async def test_what_the_caller_may_do(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        asked = operations_of((await admin.describe_cluster(authorized_operations=True)).cluster_authorized_operations)
        assert asked is not None
        assert {AclOperation.ALTER, AclOperation.DESCRIBE} <= asked
        assert operations_of((await admin.describe_cluster()).cluster_authorized_operations) is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_what_the_caller_may_do_with_a_group(bootstrap: str, name: str, protocol: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(name, 1)])
        async with Consumer(bootstrap, group_id=name, topics=[name], group_protocol=protocol) as consumer:
            while not consumer.assignment:
                await consumer.poll(0.1)
            described = await admin.groups.describe(name, authorized_operations=True)
            assert described.group_type.lower() == protocol
            assert described.authorized_operations == OF_GROUPS
            assert (await admin.groups.describe(name)).authorized_operations is None


async def test_brokers_of_moldau_issue_no_tokens(moldau_broker: EmbeddedBroker) -> None:
    """Those of Apache Kafka do: `test_tokens`."""
    async with Admin(moldau_broker.bootstrap_servers) as admin:
        for ask in (admin.tokens.create, admin.tokens.describe):
            with pytest.raises(KafkaError) as caught:
                await ask()
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_what_the_caller_may_do_with_a_share_group(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(name, 1)])
        async with ShareConsumer(bootstrap, name, [name]) as consumer:
            while not consumer.assignment:
                await consumer.poll(wait_s=0.1)
            described = (await admin.share_groups.describe_each([name], authorized_operations=True))[name]
            assert not isinstance(described, KafkaError)
            assert described.authorized_operations == OF_GROUPS
            assert (await admin.share_groups.describe(name)).authorized_operations is None
