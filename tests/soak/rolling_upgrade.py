"""A group is upgraded from the classic to the consumer protocol, member by member, while records flow: how long does a partition pause?

    python tests/soak/rolling_upgrade.py --peer moldau            # or kafka, in the same way; about a minute
    python tests/soak/rolling_upgrade.py --peer moldau --strategy cooperative-sticky

Three librdkafka consumers with its own defaults, twelve partitions, a record every 40 ms in each.  One member after the other closes and
comes back with `group.protocol=consumer`.  A pause is the time between two records of a partition that were new to the group when they
came; a duplicate is a record that was not.  Ends with 1 when something is missing.
"""

import argparse
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka

TOPIC, GROUP = "flow", "upgraded"
PARTITIONS, MEMBERS = 12, 3
EVERY_S = 0.04
SETTLE_S = 12.0
WITHIN_S = 60.0


class Member(threading.Thread):
    """One consumer, polled by a thread of its own until it is told to close."""

    def __init__(self, flow: "Flow", **config: str) -> None:
        super().__init__()
        self.flow = flow
        self.is_over = threading.Event()
        self.consumer = Consumer(
            {"bootstrap.servers": flow.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest", **config},  # type: ignore[arg-type]
        )
        self.consumer.subscribe([TOPIC])
        self.start()

    def run(self) -> None:
        while not self.is_over.is_set():
            for message in self.consumer.consume(500, 0.02):
                if message.error() is None:
                    self.flow.seen(message.partition(), message.offset())  # type: ignore[arg-type]
        self.consumer.close()

    def close(self) -> None:
        self.is_over.set()
        self.join()


class Flow(threading.Thread):
    """Writes all the time, and keeps what the group has read."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.bootstrap = bootstrap
        self.is_over = threading.Event()
        self.written = [0] * PARTITIONS
        self.duplicates = 0
        self.pauses: list[float] = [0.0] * PARTITIONS
        self._read: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._last = [0.0] * PARTITIONS
        self._lock = threading.Lock()
        self.start()

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 0})
        while not self.is_over.wait(EVERY_S):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"%d" % self.written[partition], partition=partition)
                self.written[partition] += 1
            producer.poll(0)
        assert producer.flush(WITHIN_S) == 0

    def seen(self, partition: int, offset: int) -> None:
        now = time.monotonic()
        with self._lock:
            if offset in self._read[partition]:
                self.duplicates += 1
                return
            self._read[partition].add(offset)
            if self._last[partition]:
                self.pauses[partition] = max(self.pauses[partition], now - self._last[partition])
            self._last[partition] = now

    def forget_pauses(self) -> None:
        with self._lock:
            self.pauses = [0.0] * PARTITIONS

    def missing(self) -> int:
        with self._lock:
            return sum(count - len(read) for count, read in zip(self.written, self._read, strict=True))


def upgrade(bootstrap: str, strategy: str) -> int:
    """How many records are missing in the end."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(WITHIN_S)
    flow = Flow(bootstrap)
    members = [Member(flow, **{"partition.assignment.strategy": strategy}) for _ in range(MEMBERS)]
    time.sleep(SETTLE_S)
    flow.forget_pauses()
    for number in range(MEMBERS):
        members[number].close()
        members[number] = Member(flow, **{"group.protocol": "consumer"})
        time.sleep(SETTLE_S)
        print(f"  {number + 1} upgraded: longest pause {max(flow.pauses):.1f} s, {flow.duplicates} duplicates so far", flush=True)
        flow.forget_pauses()
    time.sleep(SETTLE_S)
    print(f"  steady: longest pause {max(flow.pauses):.2f} s")
    flow.is_over.set()
    flow.join()
    until = time.monotonic() + WITHIN_S
    while flow.missing() and time.monotonic() < until:
        time.sleep(0.1)
    for member in members:
        member.close()
    print(f"  {sum(flow.written)} records, {flow.missing()} missing, {flow.duplicates} duplicates")
    return flow.missing()


def main() -> int:
    parser = argparse.ArgumentParser(description="Pauses and duplicates while a group is upgraded.")
    parser.add_argument("--peer", choices=("moldau", "kafka"), default="moldau")
    parser.add_argument("--strategy", default="range", help="of the classic members: range, cooperative-sticky")
    options = parser.parse_args()
    properties = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "4"}
    make: Any = BrokerProcess if options.peer == "moldau" else ApacheKafka
    with make(properties=properties) as broker:
        print(f"{options.peer}, {options.strategy}:", flush=True)
        return 1 if upgrade(broker.bootstrap, options.strategy) else 0


if __name__ == "__main__":
    sys.exit(main())
