"""Each fault of `moldau.testing` under the Python clients that users have."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from moldau.errors import ErrorCode
from moldau.protocol.header import encode_request
from moldau.protocol.messages.produce import ProduceRequest
from moldau.testing.embedded import EmbeddedBroker
from moldau.testing.faults import Faults
from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow
Send = Callable[[str, str, bytes, str], None]
"""Sends a value: addresses, topic, value, acks."""
Read = Callable[[str, str, str], bytes]
"""Reads the first value of a topic in a group: addresses, topic, group."""


def confluent_sends(servers: str, topic: str, value: bytes, acks: str = "all") -> None:
    failures: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": acks, "enable.idempotence": acks == "all"})
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failures


def confluent_reads(servers: str, topic: str, group: str) -> bytes:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        until = time.monotonic() + 60
        while time.monotonic() < until:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                return bytes(message.value())
        raise AssertionError("no record came")
    finally:
        consumer.close()


def aiokafka_sends(servers: str, topic: str, value: bytes, acks: str = "all") -> None:
    async def send() -> None:
        given: Any = acks if acks == "all" else int(acks)
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks=given, enable_idempotence=acks == "all")
        try:
            await producer.start()
            await producer.send_and_wait(topic, value)
        finally:
            await producer.stop()

    asyncio.run(send())


def aiokafka_reads(servers: str, topic: str, group: str) -> bytes:
    async def read() -> bytes:
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
        try:
            await consumer.start()
            return bytes((await asyncio.wait_for(consumer.getone(), 60)).value)
        finally:
            await consumer.stop()

    return asyncio.run(read())


def kafka_python_sends(servers: str, topic: str, value: bytes, acks: str = "all") -> None:
    given: Any = acks if acks == "all" else int(acks)
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks=given, enable_idempotence=acks == "all")
    try:
        producer.send(topic, value).get(60)
    finally:
        producer.close()


def kafka_python_reads(servers: str, topic: str, group: str) -> bytes:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


clients = pytest.mark.parametrize(
    ("send", "read"),
    [(confluent_sends, confluent_reads), (aiokafka_sends, aiokafka_reads), (kafka_python_sends, kafka_python_reads)],
    ids=["confluent-kafka", "aiokafka", "kafka-python"],
)


@clients
def test_a_record_arrives_once_past_every_fault_of_its_request(
    moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults, send: Send, read: Read
) -> None:
    before = moldau_faults.count("Produce")
    moldau_faults.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
    moldau_faults.drop("Produce")
    moldau_faults.delay("Produce", 0.1)
    send(moldau_broker.bootstrap_servers, moldau_topic, b"tea", "all")
    assert moldau_faults.count("Produce") == before + 4
    moldau_faults.drop("Produce", after=True)
    send(moldau_broker.bootstrap_servers, moldau_topic, b"cake", "all")
    assert moldau_faults.count("Produce") == before + 6
    moldau_broker.expect(moldau_topic, [b"tea", b"cake"])


@clients
def test_a_record_is_read_past_faults_of_the_group_and_of_fetches(
    moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults, send: Send, read: Read
) -> None:
    moldau_broker.produce(moldau_topic, [b"tea"])
    moldau_faults.fail("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    moldau_faults.fail("JoinGroup", ErrorCode.NOT_COORDINATOR)
    moldau_faults.fail("SyncGroup", ErrorCode.REBALANCE_IN_PROGRESS)
    moldau_faults.fail("OffsetFetch", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    moldau_faults.fail("ListOffsets", ErrorCode.LEADER_NOT_AVAILABLE)
    moldau_faults.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    moldau_faults.drop("Fetch")
    moldau_faults.delay("Fetch", 0.1)
    assert read(moldau_broker.bootstrap_servers, moldau_topic, f"group-{moldau_topic}") == b"tea"


@clients
def test_metadata_that_fails_or_breaks_is_asked_for_again(
    moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults, send: Send, read: Read
) -> None:
    moldau_faults.drop("ApiVersions")
    moldau_faults.drop("Metadata")
    moldau_faults.fail("Metadata", ErrorCode.LEADER_NOT_AVAILABLE)
    for _ in range(2 if send is aiokafka_sends else 0):  # it gives up when its first connection breaks
        with pytest.raises(aiokafka.errors.KafkaConnectionError):
            send(moldau_broker.bootstrap_servers, moldau_topic, b"tea", "all")
    send(moldau_broker.bootstrap_servers, moldau_topic, b"tea", "all")
    moldau_broker.expect(moldau_topic, [b"tea"])


@clients
def test_a_record_without_an_acknowledgement_has_no_answer_to_a_fault(
    moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults, send: Send, read: Read
) -> None:
    moldau_faults.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS)
    moldau_faults.delay("Produce", 0.1)
    send(moldau_broker.bootstrap_servers, moldau_topic, b"lost", "0")
    moldau_broker.expect(moldau_topic, [])
    send(moldau_broker.bootstrap_servers, moldau_topic, b"late", "0")
    moldau_broker.expect(moldau_topic, [b"late"])


def test_the_connection_of_a_refused_record_without_an_acknowledgement_breaks(moldau_broker: EmbeddedBroker, moldau_faults: Faults) -> None:
    moldau_faults.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS)
    request = ProduceRequest(transactional_id=None, acks=0, timeout_ms=1000, topic_data=[])
    with socket.create_connection(("127.0.0.1", moldau_broker.port), 60) as connection:
        connection.sendall(b"".join(map(bytes, encode_request(request, version=9, correlation_id=1, client_id="x"))))
        assert connection.recv(100) == b""


@clients
def test_a_record_has_the_moved_time_of_the_broker(
    moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults, send: Send, read: Read
) -> None:
    moldau_broker.create_topic(f"{moldau_topic}-stamped", configs={"message.timestamp.type": "LogAppendTime"})
    moldau_faults.move_time(hours=-48)
    send(moldau_broker.bootstrap_servers, f"{moldau_topic}-stamped", b"x", "all")
    (stamped,) = moldau_broker.consume(f"{moldau_topic}-stamped", 1)
    assert 47 < time.time() / 3600 - stamped.timestamp / 3_600_000 < 49


@clients
def test_a_broker_that_was_killed_serves_again(moldau_process: BrokerProcess, send: Send, read: Read) -> None:
    topic = f"killed-{read.__name__}"
    moldau_process.create_topic(topic)
    send(moldau_process.bootstrap_servers, topic, b"tea", "all")
    moldau_process.kill()
    moldau_process.start()
    assert read(moldau_process.bootstrap_servers, topic, topic) == b"tea"
    send(moldau_process.bootstrap_servers, topic, b"cake", "all")
    moldau_process.expect(topic, [b"tea", b"cake"])
