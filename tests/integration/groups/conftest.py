"""A broker for the groups of one module, and stock consumers that are polled in turn by one thread."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.process import BrokerProcess

FAST_GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
}
WITHIN_S = 120.0


class Crowd:
    """Confluent consumers.  `seen` has every record by consumer: (consumer, partition, offset, value)."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.consumers: list[Consumer] = []
        self.seen: list[tuple[int, int, int, bytes]] = []

    def join(self, group_id: str, topic: str, **config: Any) -> Consumer:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        if settings.get("group.protocol") != "consumer":
            settings = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 300, **settings}
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        self.consumers.append(consumer)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def poll(self) -> None:
        for consumer in self.consumers:
            for message in consumer.consume(num_messages=500, timeout=0.02):
                if message.error() is None:
                    self.seen.append((id(consumer), message.partition(), message.offset(), message.value()))

    def wait_for(self, condition: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not happen within {within_s:.0f} s: {self.partitions()}"
            self.poll()

    def partitions(self) -> list[list[int]]:
        """The partitions of each consumer, in the order of joining."""
        return [sorted(one.partition for one in consumer.assignment()) for consumer in self.consumers]

    def settles(self, *counts: int) -> None:
        """Polls until the members have these numbers of partitions, in any order, with no partition twice and none missing."""

        def is_settled() -> bool:
            owned = [partition for partitions in self.partitions() for partition in partitions]
            return sorted(map(len, self.partitions())) == sorted(counts) and sorted(owned) == list(range(sum(counts)))

        self.wait_for(is_settled, f"an assignment of {counts}")

    def values(self) -> list[bytes]:
        return sorted(value for _, _, _, value in self.seen)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=FAST_GROUPS) as broker:
        yield broker


@pytest.fixture
def crowd(broker: BrokerProcess) -> Iterator[Crowd]:
    crowd = Crowd(broker.bootstrap)
    yield crowd
    for consumer in crowd.consumers:
        consumer.close()


@pytest.fixture
def topic(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    """A topic of four partitions, named after the test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 4, 1)])[name].result(30)
    return name


@pytest.fixture
def produce(broker: BrokerProcess) -> Callable[..., list[bytes]]:
    """Writes records in turn to the four partitions; returns their values."""

    def produce(topic: str, count: int, start: int = 0) -> list[bytes]:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        values = [b"%06d" % number for number in range(start, start + count)]
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 4)
        assert producer.flush(30) == 0
        return values

    return produce
