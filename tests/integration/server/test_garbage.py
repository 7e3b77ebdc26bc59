"""What a request was made of is gone with its answer.

The collector comes by after tens of thousands of new objects: records in a cycle of references would stay until then, 100 MiB a request.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.embedded import EmbeddedBroker

ROUNDS = 5
ATTEMPTS = 3
"""What others in this process let go of meanwhile may be garbage as well: one attempt in which there is none is proof enough."""
WITHIN_S = 30


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(properties={"log.flush.policy": "ack", "group.share.enable": "true"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("events", 1, 1)])["events"].result(WITHIN_S)
        yield broker.bootstrap_servers


@contextmanager
def collected() -> Iterator[list[object]]:
    """Into it what only the collector could free."""
    found: list[object] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def leaves_nothing(step: Callable[[], None]) -> None:
    for _ in range(ROUNDS):  # connections, metadata, coordinators
        step()
    for _ in range(ATTEMPTS):
        with collected() as garbage:
            for _ in range(ROUNDS):
                step()
        kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in garbage)
        ours = {kind: count for kind, count in kinds.items() if kind.startswith("moldau.") or kind == "builtins.memoryview"}
        if not ours:
            return
    raise AssertionError(f"only the collector frees {ours}, of {kinds}")


def test_produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})

    def produce() -> None:
        producer.produce("events", b"x" * 1000)
        assert producer.flush(WITHIN_S) == 0

    leaves_nothing(produce)


def test_a_transaction(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(WITHIN_S)

    def transact() -> None:
        producer.begin_transaction()
        producer.produce("events", b"x" * 1000)
        producer.commit_transaction(WITHIN_S)

    leaves_nothing(transact)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_fetch_and_commit(bootstrap: str, protocol: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    options = {"bootstrap.servers": bootstrap, "group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "enable.auto.commit": False, "fetch.wait.max.ms": 20})
    consumer.subscribe(["events"])

    def consume() -> None:
        producer.produce("events", b"x" * 1000)
        assert producer.flush(WITHIN_S) == 0
        message = consumer.poll(WITHIN_S)
        assert message is not None
        while message is not None:
            assert message.error() is None
            message = consumer.poll(0.1)
        consumer.commit(asynchronous=False)

    leaves_nothing(consume)
    consumer.close()


def test_share_fetch(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "shared"})
    consumer.subscribe(["events"])

    def share() -> None:
        producer.produce("events", b"x" * 1000)
        assert producer.flush(WITHIN_S) == 0
        consumer.poll(0.2)

    leaves_nothing(share)
    consumer.close()
