"""Blocking clients that a signal interrupts anywhere in a call: they go on, and no record is lost.  The signal comes after random times."""

import subprocess
import sys

import pytest

from moldau.testing.embedded import EmbeddedBroker

pytestmark = pytest.mark.xdist_group("both brokers")

WITHIN_S = 120.0
BEGIN = """
import random, signal, sys
from moldau import TopicPartition
from moldau.sync import Consumer, Producer
servers, topic = sys.argv[1:]
choice = random.Random(7)

def interrupt(*_):
    raise KeyboardInterrupt

def interrupted(work, within_s):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, choice.uniform(1e-5, within_s))
            work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return 1
    return 0

signal.signal(signal.SIGALRM, interrupt)
"""
SENDS = """
def send():
    for _ in range(100_000):
        producer.send(topic, b"x")

with Producer(servers) as producer:
    count = sum(interrupted(send, 0.004) for _ in range(80))
    where = producer.send(topic, b"last").result(60)
assert count > 0
with Consumer(servers) as consumer:
    (end,) = consumer.end_offsets([TopicPartition(topic, 0)]).values()
assert where.offset == end - 1
"""
READS = """
def poll():
    for _ in range(5):
        polled.extend(consumer.poll(0.05))

values = {b"%d" % number for number in range(1000)}
with Producer(servers) as producer:
    producer.send_many(topic, sorted(values))
seen, count = set(), 0
while seen != values:
    options = {"auto_offset_reset": "earliest", "max_poll_records": 7, "auto_commit_interval_ms": 20}
    with Consumer(servers, group_id=topic, topics=[topic], **options) as consumer:
        for _ in range(60):
            polled = []
            count += interrupted(poll, 0.01)
            seen.update(value for records in polled for value in records.values)
assert count > 0
"""


def run(script: str, broker: EmbeddedBroker, topic: str) -> None:
    command = [sys.executable, "-c", script, broker.bootstrap_servers, topic]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr


def test_a_producer_sends_on(moldau_broker: EmbeddedBroker, moldau_topic: str) -> None:
    run(BEGIN + SENDS, moldau_broker, moldau_topic)


def test_what_a_poll_took_and_did_not_return_comes_again(moldau_broker: EmbeddedBroker, moldau_topic: str) -> None:
    """Commits cover what was returned only, at every interval and at the end of each consumer."""
    run(BEGIN + READS, moldau_broker, moldau_topic)
