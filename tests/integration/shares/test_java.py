"""Kafka's own share consumers read our queues: its console consumer in all its ways, two verifiable ones side by side."""

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.testing.process import BrokerProcess
from proof.kafka.apache import java_command
from proof.shares.member import ShareMember
from tests.integration.shares.test_queue import poll_all

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("shares")]

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
WITHIN_S = 180

Produce = Callable[..., list[bytes]]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(broker: BrokerProcess) -> Iterator[Start]:
    """Starts Kafka's programs; none of them outlives the test."""
    running: list[subprocess.Popen[str]] = []

    def start(tool: str, *arguments: str) -> "subprocess.Popen[str]":
        command = java_command(tool, "--bootstrap-server", broker.bootstrap, *arguments)
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        return running[-1]

    yield start
    for one in running:
        one.kill()
        one.wait()


@pytest.mark.parametrize(("way", "comes_again"), [("accept", 0), ("--release", 20), ("--reject", 0)])
def test_the_console_consumer(
    start: Start, group: str, topic: str, produce: Produce, join: Callable[..., ShareMember], way: str, comes_again: int
) -> None:
    values = produce(20)
    options = [way] if way.startswith("--") else []
    java = start(CONSOLE, "--topic", topic, "--group", group, "--max-messages", "20", *options)
    lines = java.communicate(timeout=WITHIN_S)[0].split()
    assert sorted(line.encode() for line in lines) == values
    member = join()
    again = poll_all(member, comes_again) + member.poll(wait_ms=300)
    assert [record.delivery_count for record in again] == [2] * comes_again


def test_two_verifiable_consumers(start: Start, group: str, topic: str, produce: Produce) -> None:
    values = produce(1_000)
    arguments = ["--topic", topic, "--group-id", group, "--acknowledgement-mode", "sync", "--verbose", "--max-messages", "500"]
    running = [start(VERIFIABLE, *arguments) for _ in range(2)]
    events = [json.loads(line) for one in running for line in one.communicate(timeout=WITHIN_S)[0].splitlines() if line.startswith("{")]
    read = [event["value"] for event in events if event["name"] == "record_data"]
    acknowledged = sum(event["count"] for event in events if event["name"] == "offsets_acknowledged" and event["success"])
    assert sorted(value.encode() for value in read) == values, "each record once"
    assert acknowledged == len(values)


def test_verifiable_consumers_go_on_when_the_broker_is_killed(
    broker: BrokerProcess, start: Start, group: str, topic: str, produce: Produce
) -> None:
    """No record is missing in the end."""
    arguments = ["--topic", topic, "--group-id", group, "--acknowledgement-mode", "sync", "--verbose", "--max-messages", "-1"]
    running = [start(VERIFIABLE, *arguments) for _ in range(2)]
    events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for one in running:
        threading.Thread(target=pump, args=(one, events), daemon=True).start()
    values: list[bytes] = []
    read: list[bytes] = []
    deadline = time.monotonic() + WITHIN_S
    for number in range(3):
        values += produce(300, start=300 * number)
        wanted = set(values[: 300 * number + 100])
        while not set(read) >= (wanted if number < 2 else set(values)):
            assert time.monotonic() < deadline, f"{len(set(values) - set(read))} of {len(values)} were not read"
            event = events.get(timeout=WITHIN_S)
            if event["name"] == "record_data":
                read.append(event["value"].encode())
        if number < 2:
            broker.kill()
            broker.start()
    assert set(read) == set(values)


def pump(process: "subprocess.Popen[str]", events: "queue.SimpleQueue[dict[str, Any]]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            events.put(json.loads(line))
