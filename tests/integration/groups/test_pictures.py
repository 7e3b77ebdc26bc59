"""Groups as their pictures show them, with stock clients over TCP."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer

import moldau
from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("groups")]

Produce = Callable[..., list[bytes]]
PROTOCOLS = ["classic", "consumer"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_four_partitions_to_one_two_four_and_five_members(crowd, topic: str, produce: Produce, protocol: str) -> None:
    for counts in ([4], [2, 2], [2, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1, 0]):
        crowd.join("g-" + topic, topic, **{"group.protocol": protocol})
        crowd.settles(*counts)
    for counts in ([1, 1, 1, 1], [2, 1, 1]):
        busy = next(one for one in crowd.consumers if one.assignment())
        crowd.leave(busy)
        crowd.settles(*counts)
    values = produce(topic, 40)
    crowd.wait_for(lambda: len(crowd.seen) >= 40, "reading")
    assert crowd.values() == values


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_groups_see_everything_each(crowd, topic: str, produce: Produce, protocol: str) -> None:
    for group in ("one-", "two-"):
        crowd.join(group + topic, topic, **{"group.protocol": protocol})
        crowd.join(group + topic, topic, **{"group.protocol": protocol})

    def is_settled() -> bool:
        found = crowd.partitions()
        return [len(each) for each in found] == [2] * 4 and sorted(found[0] + found[1]) == sorted(found[2] + found[3]) == [0, 1, 2, 3]

    crowd.wait_for(is_settled, "an assignment of two to each")  # records that come in a hand-over may come twice
    values = produce(topic, 40)
    crowd.wait_for(lambda: len(crowd.seen) >= 80, "reading twice")
    assert crowd.values() == sorted(values * 2)


def test_clients_of_four_kinds_share_one_classic_group(broker: BrokerProcess, crowd, topic: str, produce: Produce) -> None:
    """librdkafka, kafka-python, aiokafka and ours: a partition each, and every record once."""
    values = produce(topic, 40)
    group_id = "g-" + topic
    is_over = False
    seen: list[bytes] = []

    def with_kafka_python() -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group_id,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
        )
        while not is_over:
            for records in consumer.poll(timeout_ms=50).values():
                seen.extend(record.value for record in records)
        consumer.close()

    async def with_aiokafka() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group_id,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
        )
        await consumer.start()
        while not is_over:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                seen.extend(record.value for record in records)
        await consumer.stop()

    async def with_ours() -> None:
        options: dict[str, Any] = {"group_id": group_id, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
        options["partition_assignment_strategy"] = ["roundrobin"]  # the only strategy that aiokafka offers
        async with moldau.Consumer(broker.bootstrap, topics=[topic], **options) as consumer:
            while not is_over:
                for records in await consumer.poll(0.05):
                    seen.extend(value or b"" for value in records.values)
                ours.append(len(consumer.assignment))

    ours: list[int] = []
    crowd.join(group_id, topic)
    with ThreadPoolExecutor() as threads:
        running = [
            threads.submit(with_kafka_python),
            threads.submit(asyncio.run, with_aiokafka()),
            threads.submit(asyncio.run, with_ours()),
        ]
        try:
            crowd.wait_for(lambda: crowd.partitions() and len(crowd.partitions()[0]) == 1 and ours[-1:] == [1], "a partition for each")
            more = produce(topic, 40, start=40)
            crowd.wait_for(lambda: {value for *_, value in crowd.seen} | set(seen) >= {*values, *more}, "reading")
            shared = [value for value in [*seen, *(value for *_, value in crowd.seen)] if value in more]
            assert sorted(shared) == more, "each record of a settled group goes to one member"
        finally:
            is_over = True
            # A member that leaves while it rejoins waits for the others to rejoin.  librdkafka's member only does so when it is polled.
            crowd.wait_for(lambda: all(one.done() for one in running), "leaving")
            for one in running:
                one.result()


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(crowd, topic: str) -> None:
    rebalances: list[str] = []
    stays = crowd.join("g-" + topic, topic, **{"group.instance.id": "stays", "session.timeout.ms": 60_000})
    stays.subscribe([topic], on_revoke=lambda *_: rebalances.append("revoked"))
    restarts = crowd.join("g-" + topic, topic, **{"group.instance.id": "restarts", "session.timeout.ms": 60_000})
    crowd.settles(2, 2)
    before, rebalances[:] = crowd.partitions(), []
    crowd.leave(restarts)
    crowd.join("g-" + topic, topic, **{"group.instance.id": "restarts", "session.timeout.ms": 60_000})
    crowd.settles(2, 2)
    assert crowd.partitions() == before
    assert rebalances == []


def test_cooperative_members_keep_what_they_keep(crowd, topic: str) -> None:
    revoked: list[int] = []
    first = crowd.join("g-" + topic, topic, **{"partition.assignment.strategy": "cooperative-sticky"})
    first.subscribe([topic], on_revoke=lambda _, partitions: revoked.extend(one.partition for one in partitions))
    crowd.settles(4)
    crowd.join("g-" + topic, topic, **{"partition.assignment.strategy": "cooperative-sticky"})
    crowd.settles(2, 2)
    assert len(revoked) == 2, "two partitions moved, two were never given up"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_commit_and_seek(broker: BrokerProcess, crowd, topic: str, produce: Produce, protocol: str) -> None:
    produce(topic, 40)
    settings = {"group.protocol": protocol, "enable.auto.commit": False}
    consumer = crowd.join("g-" + topic, topic, **settings)
    crowd.wait_for(lambda: len(crowd.seen) == 40, "reading")
    consumer.commit(offsets=[TopicPartition(topic, 0, 4, "half way")], asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)
    assert (committed.offset, committed.metadata) == (4, "half way")
    consumer.seek(TopicPartition(topic, 1, 8))
    crowd.wait_for(lambda: len(crowd.seen) == 42, "reading again")
    assert [offset for _, partition, offset, _ in crowd.seen[40:] if partition == 1] == [8, 9]
    crowd.leave(consumer)
    crowd.seen.clear()
    crowd.join("g-" + topic, topic, **settings)
    crowd.wait_for(lambda: len(crowd.seen) == 36, "reading from what was committed")


def test_an_expression_finds_topics(broker: BrokerProcess, crowd, topic: str, produce: Produce) -> None:
    values = produce(topic, 8)
    consumer = crowd.join("g-" + topic, f"^{topic[:-3]}.*", **{"group.protocol": "consumer"})
    crowd.wait_for(lambda: len(crowd.seen) == 8, "reading")
    assert crowd.values() == values
    assert isinstance(consumer, Consumer)
