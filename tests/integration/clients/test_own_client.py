"""Our own client against our broker and against Apache Kafka, new and old: the same scenarios, the same outcome.

MOLDAU_OLDER_KAFKA names the older releases, such as `2.1.0 2.8.2 3.9.1`; by default it is the oldest that the client serves.
"""

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from moldau import Consumer, Producer, TopicPartition
from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import NewTopic
from moldau.clients.cluster import Cluster
from moldau.clients.consumer import RebalanceListener
from moldau.errors import KafkaError
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka
from proof.kafka.older import OlderKafka

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("own client")]

WITHIN_S = 120.0
CHOSEN = os.environ.get("MOLDAU_OLDER_KAFKA", "2.1.0").split()
PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition_assignment_strategy": "range"},
    "roundrobin": {"partition_assignment_strategy": "roundrobin"},
    "sticky": {"partition_assignment_strategy": "sticky"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
QUICK = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}


@pytest.fixture(scope="module", params=["moldau", *(pytest.param(name, marks=pytest.mark.java) for name in ("apache", *CHOSEN))])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    brokers: dict[str, Callable[[], NodeProcess]] = {"moldau": BrokerProcess, "apache": ApacheKafka}
    with brokers.get(request.param, partial(OlderKafka, request.param))() as broker:
        yield broker.bootstrap


async def a_topic(bootstrap: str, partitions: int = 1) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    async with Cluster.connect(bootstrap) as cluster:
        assert not isinstance((await Admin(cluster).topics.create([NewTopic(name, partitions, 1)]))[name], KafkaError)
    return name


async def read_all(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(WITHIN_S):
        while len(found) < count:
            for records in await consumer.poll():
                found += records
    return found


async def test_hello_world(bootstrap: str) -> None:
    async with Producer(bootstrap) as producer:
        where = await producer.send("hello", b"world", key=b"k", headers=[("h", b"1")])
    async with Consumer(bootstrap, group_id="hello", topics=["hello"], auto_offset_reset="earliest") as consumer:
        async with asyncio.timeout(WITHIN_S):
            record = await anext(aiter(consumer))
    assert (record.value, record.key, record.headers, record.offset) == (b"world", b"k", (("h", b"1"),), where.offset)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_columns_come_back_as_they_went(bootstrap: str, codec: str) -> None:
    topic = await a_topic(bootstrap)
    values = [b"value %d" % number * (number % 5) for number in range(3000)]
    keys = [b"key %d" % number for number in range(3000)]
    async with Producer(bootstrap, compression_type=codec, batch_size=20_000) as producer:
        await (await producer.send_many(topic, values, keys=keys))
    async with Consumer(bootstrap) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        found_keys: list[Any] = []
        found_values: list[Any] = []
        async with asyncio.timeout(WITHIN_S):
            while len(found_values) < 3000:
                for records in await consumer.poll():
                    found_keys += records.keys
                    found_values += records.values
        assert (found_keys, found_values) == (keys, values)
        assert await consumer.position(TopicPartition(topic, 0)) == 3000
        assert consumer.lag(TopicPartition(topic, 0)) == 0
        assert await consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 3000}


async def test_seeking_pausing_and_committing(bootstrap: str) -> None:
    topic = await a_topic(bootstrap, 2)
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with Producer(bootstrap) as producer:
        for number in range(20):
            await producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=1_700_000_000_000 + number)
    async with Consumer(bootstrap, group_id=topic, enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        await consumer.assign([one, other])
        assert len(await read_all(consumer, 20)) == 20
        consumer.seek(one, 7)
        assert [record.value for record in await read_all(consumer, 3)] == [b"14", b"16", b"18"]
        consumer.seek_to_time(1_700_000_000_015, [other])
        assert [record.value for record in await read_all(consumer, 3)] == [b"15", b"17", b"19"]
        consumer.pause([one])
        consumer.seek_to_beginning()
        assert {record.partition for record in await read_all(consumer, 10)} == {1}
        consumer.resume([one])
        assert {record.partition for record in await read_all(consumer, 10)} == {0}
        assert (await consumer.committed([one]))[one] is None
        await consumer.commit({one: 4})
        await consumer.commit()
        committed = await consumer.committed([one, other])
        assert {partition: found.offset for partition, found in committed.items() if found} == {one: 10, other: 10}
        assert await consumer.offsets_for_times({one: 1_700_000_000_003, other: 1_800_000_000_000}) == {one: 2, other: None}


class Notes(RebalanceListener):
    def __init__(self) -> None:
        self.owned: set[TopicPartition] = set()

    async def on_assigned(self, partitions: Any) -> None:
        await asyncio.sleep(0)
        self.owned |= set(partitions)

    async def on_revoked(self, partitions: Any) -> None:
        await asyncio.sleep(0)
        self.owned -= set(partitions)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_group_shares_and_takes_over(request: pytest.FixtureRequest, bootstrap: str, protocol: str) -> None:
    if protocol == "consumer" and request.node.callspec.params["bootstrap"] in CHOSEN:
        pytest.skip("a release before 4.0 serves the classic protocol only; test_older_kafka.py holds the error")
    topic = await a_topic(bootstrap, 6)
    options = {"group_id": topic, "auto_offset_reset": "earliest", **PROTOCOLS[protocol]}
    if protocol != "consumer":
        options |= QUICK
    seen: dict[bytes, int] = {}

    async def read(consumer: Consumer) -> None:
        while True:
            for records in await consumer.poll(0.2):
                for value in records.values:
                    seen[value] = seen.get(value, 0) + 1

    async def until(condition: Any) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not condition():  # noqa: ASYNC110  consumers tell of no such events
                await asyncio.sleep(0.05)

    async with Producer(bootstrap) as producer:
        await (await producer.send_many(topic, [b"%d" % number for number in range(300)], keys=[b"%d" % number for number in range(300)]))
        first_notes, second_notes = Notes(), Notes()
        first = Consumer(bootstrap, topics=[topic], listener=first_notes, **options)
        reading = asyncio.create_task(read(first))
        await until(lambda: len(seen) == 300)
        second = Consumer(bootstrap, topics=[topic], listener=second_notes, **options)
        reading_too = asyncio.create_task(read(second))
        await until(lambda: len(first_notes.owned) == 3 and len(second_notes.owned) == 3)
        assert not first_notes.owned & second_notes.owned
        assert set(first.assignment) == first_notes.owned
        reading.cancel()
        await asyncio.wait([reading])
        await first.close()
        await until(lambda: len(second_notes.owned) == 6)
        await (await producer.send_many(topic, [b"%d" % number for number in range(300, 600)], keys=[b"%d" % n for n in range(300)]))
        await until(lambda: len(seen) == 600)
        reading_too.cancel()
        await asyncio.wait([reading_too])
        await second.close()
    assert set(seen.values()) == {1}, "no record comes twice after a clean hand-over"
    async with Consumer(bootstrap, group_id=topic) as reader:
        found = await reader.committed([TopicPartition(topic, index) for index in range(6)])
    assert sum(committed.offset for committed in found.values() if committed) == 600


async def test_a_pattern_picks_up_new_topics(bootstrap: str) -> None:
    first = await a_topic(bootstrap)
    prefix = first + "x"
    async with (
        Producer(bootstrap) as producer,
        Consumer(
            bootstrap, group_id=first, pattern=prefix + ".*", auto_offset_reset="earliest", metadata_max_age_ms=500, **QUICK
        ) as consumer,
    ):
        assert await consumer.poll(0.5) == []
        async with Cluster.connect(bootstrap) as cluster:
            await Admin(cluster).topics.create([NewTopic(prefix + "1", 1, 1)])
        await producer.send(prefix + "1", b"here")
        assert [record.topic for record in await read_all(consumer, 1)] == [prefix + "1"]


@pytest.mark.parametrize("protocol", ["range", "consumer"])
async def test_a_topic_may_be_made_after_it_was_subscribed(request: pytest.FixtureRequest, bootstrap: str, protocol: str) -> None:
    if protocol == "consumer" and request.node.callspec.params["bootstrap"] in CHOSEN:
        pytest.skip("a release before 4.0 serves the classic protocol only; test_older_kafka.py holds the error")
    name = f"t-{uuid.uuid4().hex[:12]}"
    options = {"group_id": name, "auto_offset_reset": "earliest", **PROTOCOLS[protocol], **(QUICK if protocol == "range" else {})}
    async with Consumer(bootstrap, topics=[name], allow_auto_create_topics=False, **options) as consumer, Admin(bootstrap) as admin:
        async with asyncio.timeout(WITHIN_S):
            while name not in {one.group_id for one in await admin.groups.list_groups()}:
                assert await consumer.poll(0.5) == []
        assert await consumer.poll(0.5) == []
        await admin.topics.create([NewTopic(name, 1, 1)])
        async with Producer(bootstrap) as producer:
            await producer.send(name, b"here")
        assert [record.value for record in await read_all(consumer, 1)] == [b"here"]


async def test_transactions_are_all_or_nothing(bootstrap: str) -> None:
    topic = await a_topic(bootstrap, 3)
    source = TopicPartition(topic, 0)

    class OnPurpose(Exception):
        pass

    async def fail(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send(topic, b"aborted", partition=1)
            await producer.send_offsets({source: 99}, topic)
            raise OnPurpose

    async with Producer(bootstrap, transactional_id=topic) as producer:
        for number in range(3):
            async with producer.transaction():
                for partition in (1, 2):
                    producer.send(topic, b"%d" % number, partition=partition)
                await producer.send_offsets({source: number + 1}, topic)
        with pytest.raises(OnPurpose):
            await fail(producer)
        async with producer.transaction():
            producer.send(topic, b"last", partition=1)
    async with Consumer(bootstrap, group_id=topic, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        committed = await consumer.committed([source])
        await consumer.assign([TopicPartition(topic, 1), TopicPartition(topic, 2)])
        values = sorted(record.value for record in await read_all(consumer, 7))
    assert values == sorted([b"0", b"0", b"1", b"1", b"2", b"2", b"last"])
    assert committed[source] is not None
    assert committed[source].offset == 3


async def test_the_newer_of_two_transactional_producers_wins(bootstrap: str) -> None:
    from moldau.clients.errors import FatalError

    topic = await a_topic(bootstrap)
    async with Producer(bootstrap, transactional_id=topic) as older:
        await older.begin_transaction()
        await older.send(topic, b"older")
        async with Producer(bootstrap, transactional_id=topic) as newer, newer.transaction():
            await newer.send(topic, b"newer")
        with pytest.raises(FatalError):
            await older.commit_transaction()
    async with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        assert [record.value for record in await read_all(consumer, 1)] == [b"newer"]
