"""Brokers for tests, with a client that is not ours."""

import asyncio
import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.testing.child import BrokerFailed
from moldau.testing.embedded import EmbeddedBroker
from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

WITHIN_S = 120


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(WITHIN_S) == 0 and not failures, failures


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, WITHIN_S)
        assert all(message.error() is None for message in messages), [message.error() for message in messages]
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_the_fixture_hands_out_a_broker_that_a_client_uses(moldau_broker: EmbeddedBroker) -> None:
    produce(moldau_broker.bootstrap_servers, "fixture", [b"a", b"b"])
    assert consume(moldau_broker.bootstrap_servers, "fixture", 2) == [b"a", b"b"]


async def test_an_embedded_broker_within_a_loop_keeps_its_folder(tmp_path: Path) -> None:
    async with EmbeddedBroker(directory=tmp_path) as broker:
        await asyncio.to_thread(produce, broker.bootstrap_servers, "kept", [b"1"])
    async with EmbeddedBroker(directory=tmp_path) as broker:
        await asyncio.to_thread(produce, broker.bootstrap_servers, "kept", [b"2"])
        assert await asyncio.to_thread(consume, broker.bootstrap_servers, "kept", 2) == [b"1", b"2"]


def test_an_embedded_broker_that_cannot_start_says_why() -> None:
    with pytest.raises(ValueError, match=r"log\.retention\.hours"):
        EmbeddedBroker(properties={"log.retention.hours": "soon"}).start()


def test_a_process_keeps_what_was_acknowledged_over_kill_and_stop() -> None:
    with BrokerProcess() as broker:
        produce(broker.bootstrap, "kept", [b"1"])
        broker.kill()
        broker.start()
        produce(broker.bootstrap, "kept", [b"2"])
        assert broker.stop() == 0
        broker.start()
        assert consume(broker.bootstrap, "kept", 2) == [b"1", b"2"]
        assert broker.resident_bytes > 1_000_000 and broker.cpu_seconds > 0


def test_a_process_that_ends_early_says_what_it_said(tmp_path: Path) -> None:
    broker = BrokerProcess(directory=tmp_path)
    broker.prepare()
    broker.launch()
    assert broker.process is not None
    broker.process.send_signal(signal.SIGKILL)
    with pytest.raises(BrokerFailed, match="ended with -9"):
        broker.wait_until_ready()
