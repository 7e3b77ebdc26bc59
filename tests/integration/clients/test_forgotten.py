"""Programs that a beginner writes: they forget to close, give the wrong type, or name a broker that is not there."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.clients.options import OptionError
from moldau.clients.producer import Producer as AsyncProducer
from moldau.sync import Consumer, Producer
from moldau.testing.child import free_ports
from moldau.testing.embedded import EmbeddedBroker

WITHIN_S = 60
pytestmark = pytest.mark.timeout(120)
AT_THE_END = 'producer = Producer("{}")\nproducer.send("{}", b"tea")'
COLLECTED = 'def send():\n    producer = Producer("{}")\n    producer.send("{}", b"tea")\nsend()'


@pytest.mark.parametrize("program", [AT_THE_END, COLLECTED])
def test_a_producer_that_is_not_closed_sends_its_records(moldau_broker: EmbeddedBroker, moldau_topic: str, program: str) -> None:
    text = "from moldau.sync import Producer\n" + program.format(moldau_broker.bootstrap_servers, moldau_topic)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=WITHIN_S, check=True)
    assert done.stderr == ""
    moldau_broker.expect(moldau_topic, [b"tea"])


@pytest.mark.parametrize(("end", "said"), [("", "its last records are lost"), ("await producer.flush()", "")])
def test_a_producer_of_asyncio_that_is_not_closed_says_what_is_lost(
    moldau_broker: EmbeddedBroker, moldau_topic: str, end: str, said: str
) -> None:
    text = f"""
import asyncio
from moldau import Producer

async def main():
    producer = Producer("{moldau_broker.bootstrap_servers}")
    producer.send("{moldau_topic}", b"tea")
    {end}

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=WITHIN_S, check=True)
    assert said in done.stderr and bool(said) == bool(done.stderr), done.stderr


def test_a_consumer_that_is_not_closed_leaves_its_group(moldau_broker: EmbeddedBroker, moldau_topic: str) -> None:
    moldau_broker.produce(moldau_topic, [b"tea"])

    def member() -> Consumer:
        given = {"group_id": moldau_topic, "auto_offset_reset": "earliest", "session_timeout_ms": 600_000}
        return Consumer(moldau_broker.bootstrap_servers, topics=[moldau_topic], **given)

    consumer = member()
    assert next(iter(consumer)).value == b"tea"
    del consumer
    with member() as consumer:
        moldau_broker.produce(moldau_topic, [b"cake"])
        assert next(iter(consumer)).topic == moldau_topic


def test_a_value_of_the_wrong_type_is_logged_once(
    moldau_broker: EmbeddedBroker, moldau_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(moldau_broker.bootstrap_servers) as producer:
        for _ in range(3):
            producer.send(moldau_topic, {"table": 7})
        producer.send(moldau_topic, b"tea")
    moldau_broker.expect(moldau_topic, [b"tea"])
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"a record for {moldau_topic} was not sent, and this is said once: "
        "a record's value cannot be dict: give bytes or str, or a value_serializer"
    ]


def test_a_broker_that_is_not_there_is_named_at_once_and_once(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    with Consumer(f"127.0.0.1:{port}", group_id="g", topics=["orders"]) as consumer:
        assert consumer.poll(1.0) == []
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"the cluster cannot be reached, and is tried again: 127.0.0.1:{port}: connection refused"
    ]


def test_a_producer_of_asyncio_outside_asyncio_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"works inside asyncio; .* moldau\.sync\.Producer"):
        AsyncProducer("localhost:9092").send("orders", b"tea")


def test_options_come_from_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# of a Java program\nbootstrap.servers=kafka:9092\nlinger.ms=7\n", encoding="utf-8")
    producer = AsyncProducer(options=file, acks=1)
    assert (producer.cluster.bootstrap, producer.options.linger_ms, producer.options.acks) == ("kafka:9092", 7, 1)


def test_options_in_the_place_of_addresses_are_refused() -> None:
    with pytest.raises(OptionError, match="give options="):
        Producer({"bootstrap.servers": "localhost:9092"})  # type: ignore[arg-type]


def test_a_forked_process_leaves_its_parents_clients_alone(moldau_broker: EmbeddedBroker, moldau_topic: str) -> None:
    text = f"""
import os, sys
from moldau.sync import Producer

producer = Producer("{moldau_broker.bootstrap_servers}")
producer.send("{moldau_topic}", b"tea")
if os.fork() == 0:
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    # Python 3.12 warns of every fork of a process with threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True)
    assert (done.stdout, done.stderr) == ("7\n", "")
    moldau_broker.expect(moldau_topic, [b"tea"])
