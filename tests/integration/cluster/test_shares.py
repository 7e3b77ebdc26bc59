"""Share groups whose partitions, coordinator and dead letters are on different brokers."""

import re
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau import ShareConsumer
from moldau.clients.share import Acknowledge
from moldau.testing.cluster import Cluster
from proof.kafka.twins import ours, theirs

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

WITHIN_S = 60.0
PARTITIONS = 6


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as started:
        yield started


def filled(cluster: Cluster) -> None:
    """Two topics on all brokers; each partition of orders has ten records."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    letters = NewTopic("dlq.orders", 1, 3, config={"errors.deadletterqueue.group.enable": "true"})
    for future in admin.create_topics([NewTopic("orders", PARTITIONS, 3), letters]).values():
        future.result(WITHIN_S)
    assert {cluster.leader("orders", index) for index in range(PARTITIONS)} == {1, 2, 3}
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for index in range(PARTITIONS):
        for number in range(10):
            producer.produce("orders", f"{index}-{number}".encode(), partition=index)
    assert producer.flush(WITHIN_S) == 0
    options = "share.auto.offset.reset=earliest,errors.deadletterqueue.topic.name=dlq.orders,errors.deadletterqueue.copy.record.enable=true"
    where = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "groups", "--entity-name", "billing")
    assert ours("kafka-configs", *where, "--alter", "--add-config", options).exit_code == 0


async def reject_all(cluster: Cluster) -> Counter[bytes]:
    """Rejects every delivered record; returns how often each value came."""
    seen: Counter[bytes] = Counter()
    async with ShareConsumer(cluster.bootstrap, "billing", ["orders"]) as consumer:
        until_s = time.monotonic() + WITHIN_S
        while len(seen) < 10 * PARTITIONS:
            assert time.monotonic() < until_s, f"{len(seen)} records came"
            for shared in await consumer.poll():
                seen[bytes(shared.record.value or b"")] += 1
                consumer.acknowledge(shared, Acknowledge.REJECT)
            await consumer.commit()
    return seen


async def test_dead_letters_go_to_the_leader_of_their_topic(cluster: Cluster) -> None:
    filled(cluster)
    seen = await reject_all(cluster)
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "r", "auto.offset.reset": "earliest"})
    reader.subscribe(["dlq.orders"])
    letters: Counter[bytes] = Counter()
    until_s = time.monotonic() + WITHIN_S
    while sum(letters.values()) < sum(seen.values()):
        assert time.monotonic() < until_s, f"{sum(letters.values())} letters came"
        letters.update(message.value() for message in reader.consume(100, 0.5) if message.error() is None)
    reader.close()
    assert letters == seen


@pytest.mark.java
async def test_how_far_a_group_is_behind_is_told_whoever_leads(cluster: Cluster) -> None:
    filled(cluster)
    await reject_all(cluster)
    arguments = ("--bootstrap-server", cluster.bootstrap, "--describe", "--group", "billing")
    for tool in (theirs, ours):
        said = tool("kafka-share-groups", *arguments)
        rows = re.findall(r"^billing +orders +(\d) +\d+ +(\d+)", said.out, re.MULTILINE)
        assert sorted(rows) == [(str(index), "0") for index in range(PARTITIONS)], said
