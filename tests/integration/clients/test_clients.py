"""One scenario, many real clients: write with every kind of acknowledgement, idempotent, compressed; read it all back by assignment."""

import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.testing.process import BrokerProcess
from proof.kafka import apache as kafka

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("clients")]

COUNT = 500
VALUES = [f"value {number}" for number in range(COUNT)]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
WITHIN_S = 120.0

Write = Callable[[BrokerProcess, str, dict[str, Any]], None]
Read = Callable[[BrokerProcess, str], list[str]]


def confluent_write(broker: BrokerProcess, topic: str, options: dict[str, Any]) -> None:
    from confluent_kafka import Producer

    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5} | options)
    for value in VALUES:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(WITHIN_S) == 0
    assert errors == []


def confluent_read(broker: BrokerProcess, topic: str) -> list[str]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < COUNT and time.monotonic() < deadline:
        for message in consumer.consume(COUNT, 1.0):
            assert message.error() is None
            found.append(message.value().decode())
    consumer.close()
    return found


def kafka_python_write(broker: BrokerProcess, topic: str, options: dict[str, Any]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **options)
    sent = [producer.send(topic, value.encode(), partition=0) for value in VALUES]
    producer.flush(WITHIN_S)
    for future in sent:
        future.get(WITHIN_S)
    producer.close()


def kafka_python_read(broker: BrokerProcess, topic: str) -> list[str]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=60_000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = []
    for message in consumer:
        found.append(message.value.decode())
        if len(found) == COUNT:
            break
    consumer.close()
    return found


def aiokafka_write(broker: BrokerProcess, topic: str, options: dict[str, Any]) -> None:
    import asyncio

    from aiokafka import AIOKafkaProducer

    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **options)
        await producer.start()
        try:
            await asyncio.gather(*[await producer.send(topic, value.encode(), partition=0) for value in VALUES])
        finally:
            await producer.stop()

    asyncio.run(write())


def aiokafka_read(broker: BrokerProcess, topic: str) -> list[str]:
    import asyncio

    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> list[str]:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            async with asyncio.timeout(WITHIN_S):
                return [(await consumer.getone()).value.decode() for _ in range(COUNT)]
        finally:
            await consumer.stop()

    return asyncio.run(read())


def java_write(broker: BrokerProcess, topic: str, options: dict[str, Any]) -> None:
    properties = [text for key, value in options.items() for text in ("--command-property", f"{key}={value}")]
    kafka.console_produce(broker.bootstrap, topic, VALUES, *properties)


def java_read(broker: BrokerProcess, topic: str) -> list[str]:
    return kafka.console_consume(broker.bootstrap, topic, count=COUNT)


def kcat_write(broker: BrokerProcess, topic: str, options: dict[str, Any]) -> None:
    settings = [text for key, value in options.items() for text in ("-X", f"{key}={value}")]
    command = ["kcat", "-P", "-b", broker.bootstrap, "-t", topic, "-p", "0", *settings]
    subprocess.run(command, input="\n".join(VALUES).encode(), check=True, timeout=WITHIN_S)


def kcat_read(broker: BrokerProcess, topic: str) -> list[str]:
    command = ["kcat", "-C", "-b", broker.bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
    return subprocess.run(command, check=True, timeout=WITHIN_S, capture_output=True, text=True).stdout.splitlines()


needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
CLIENTS = [
    pytest.param(confluent_write, confluent_read, id="confluent-kafka"),
    pytest.param(kafka_python_write, kafka_python_read, id="kafka-python"),
    pytest.param(aiokafka_write, aiokafka_read, id="aiokafka"),
    pytest.param(java_write, java_read, id="java", marks=pytest.mark.java),
    pytest.param(kcat_write, kcat_read, id="kcat", marks=needs_kcat),
]
CODEC_OPTION = {kafka_python_write: "compression_type", aiokafka_write: "compression_type"}


@pytest.fixture
def topic(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    made = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    answer = broker.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), version=7)
    assert answer.topics[0].error_code == 0, answer
    return name


@pytest.mark.parametrize(("write", "read"), CLIENTS)
@pytest.mark.parametrize("acks", [1, "all"])
def test_what_is_written_is_read(broker: BrokerProcess, topic: str, write: Write, read: Read, acks: int | str) -> None:
    write(broker, topic, {"acks": acks})
    assert read(broker, topic) == VALUES


@pytest.mark.parametrize(("write", "read"), CLIENTS)
def test_without_acknowledgement(broker: BrokerProcess, topic: str, write: Write, read: Read) -> None:
    idempotence_off = {"enable.idempotence": "false"} if write is java_write else {}
    write(broker, topic, {"acks": 0} | idempotence_off)
    assert read(broker, topic) == VALUES


@pytest.mark.parametrize(
    ("write", "options"),
    [
        pytest.param(confluent_write, {"enable.idempotence": True}, id="confluent-kafka"),
        pytest.param(kafka_python_write, {"enable_idempotence": True}, id="kafka-python"),
        pytest.param(aiokafka_write, {"enable_idempotence": True}, id="aiokafka"),
        pytest.param(java_write, {"enable.idempotence": "true"}, id="java", marks=pytest.mark.java),
    ],
)
def test_idempotent(broker: BrokerProcess, topic: str, write: Write, options: dict[str, Any]) -> None:
    write(broker, topic, options)
    assert confluent_read(broker, topic) == VALUES


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("write", "read"), CLIENTS[:3])
def test_codecs(broker: BrokerProcess, topic: str, write: Write, read: Read, codec: str) -> None:
    if write is kafka_python_write and codec not in ("none", "gzip"):
        pytest.skip("kafka-python has this codec only with another package")
    option = {CODEC_OPTION.get(write, "compression.codec"): None if codec == "none" and write in CODEC_OPTION else codec}
    write(broker, topic, option)
    assert read(broker, topic) == VALUES


@pytest.mark.java
def test_everybody_reads_everybody(broker: BrokerProcess, topic: str) -> None:
    confluent_write(broker, topic, {"compression.codec": "gzip"})
    assert aiokafka_read(broker, topic) == kafka_python_read(broker, topic) == java_read(broker, topic) == VALUES


@pytest.mark.java
def test_perf_tools(broker: BrokerProcess, topic: str) -> None:
    printed = kafka.run_tool(
        kafka.Tool.PRODUCER_PERF,
        *("--topic", topic, "--num-records", "20000", "--record-size", "1024", "--throughput", "-1"),
        *("--bootstrap-server", broker.bootstrap, "--command-property", "acks=1"),
    )
    assert "20000 records sent" in printed
    printed = kafka.run_tool(kafka.Tool.CONSUMER_PERF, "--topic", topic, "--num-records", "20000", "--bootstrap-server", broker.bootstrap)
    row = printed.strip().splitlines()[-1].split(", ")
    assert int(row[4]) == 20000


@pytest.mark.java
def test_kafkas_tools_find_nothing_wrong_with_the_files(broker: BrokerProcess, topic: str) -> None:
    for codec in CODECS:
        confluent_write(broker, topic, {"compression.codec": codec})
    folder = broker.log_dir / f"{topic}-0"
    printed = kafka.dump_log(folder / "00000000000000000000.log")
    assert printed.count("| offset:") == COUNT * len(CODECS)
    assert "isvalid: false" not in printed
    # The indexes of the active segment are written when it is closed or flushed: a clean stop comes first.
    broker.stop()
    broker.start()
    for name in ("00000000000000000000.index", "00000000000000000000.timeindex"):
        assert "passed sanity check" in kafka.dump_log(folder / name, arguments=["--index-sanity-check"])
    metadata = broker.log_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    assert topic in kafka.dump_log(metadata, arguments=["--cluster-metadata-decoder"])
