"""Apache Kafka takes over a folder, and we take it back: each finds what the coordinators wrote, every id on its own partition."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.process import BrokerProcess
from moldau.types import java_string_hash
from proof.kafka.apache import ApacheKafka

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("groups")]

WITHIN_S = 60
NAMES = [f"{kind}-{number}" for kind in ("orders", "zzz-payments", "Ünïcödé 🌊") for number in range(4)]
NOT_YET = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)
"""librdkafka leaves these errors to the caller.  They come while the topic of offsets or the broker is new."""


class Pair:
    """Our broker and Apache Kafka, with the same folder and the same ports."""

    def __init__(self, directory: Path) -> None:
        self.ours, self.kafka = BrokerProcess(directory=directory), ApacheKafka(directory=directory)
        self.kafka.port, self.kafka.controller_port = self.ours.port, self.ours.controller_port
        self.options = {"bootstrap.servers": f"127.0.0.1:{self.ours.port}"}

    def commit(self, offset: int) -> None:
        admin = AdminClient(self.options)
        for name in NAMES:
            request = [ConsumerGroupTopicPartitions(name, [TopicPartition("t", 0, offset)])]

            def is_done(request: list[ConsumerGroupTopicPartitions] = request) -> bool:
                (answer,) = admin.alter_consumer_group_offsets(request).values()
                (place,) = answer.result(WITHIN_S).topic_partitions
                assert place.error is None or place.error.code() in NOT_YET, place.error
                return place.error is None

            self._wait(is_done)

    def committed(self) -> set[int]:
        self._await_coordinators()
        found = set()
        for name in NAMES:
            consumer = Consumer({**self.options, "group.id": name})
            found.update(place.offset for place in consumer.committed([TopicPartition("t", 0)], WITHIN_S))
            consumer.close()
        return found

    def _await_coordinators(self) -> None:
        """Waits until all groups are listed: a broker that has just started is still loading them."""
        admin = AdminClient(self.options)

        def are_listed() -> bool:
            found = admin.list_consumer_groups(request_timeout=WITHIN_S).result()
            return {group.group_id for group in found.valid} == set(NAMES)

        self._wait(are_listed)

    def _wait(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not is_done():
            assert time.monotonic() < deadline

    def leave_open(self) -> list[Producer]:
        """Begins a transaction of each name that nobody ends.  The caller holds on to the producers."""
        producers = []
        for name in NAMES:
            producer = Producer({**self.options, "transactional.id": name})
            producer.init_transactions(WITHIN_S)
            producer.begin_transaction()
            producer.produce("t", b"open")
            producer.flush(WITHIN_S)
            producers.append(producer)
        return producers

    def go_on(self) -> None:
        """Commits a record with the next producer of each name.  The transaction that its predecessor left open is aborted first."""
        for name in NAMES:
            producer = Producer({**self.options, "transactional.id": name})
            producer.init_transactions(WITHIN_S)
            producer.begin_transaction()
            producer.produce("t", b"whole")
            producer.commit_transaction(WITHIN_S)

    def committed_values(self) -> list[bytes]:
        """All values that readers of committed records see once the last open transaction has ended."""
        options = {"group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": "read_committed"}
        consumer = Consumer({**self.options, **options})
        consumer.assign([TopicPartition("t", 0, 0)])
        (_, end) = consumer.get_watermark_offsets(TopicPartition("t", 0), WITHIN_S)
        values = []
        while True:
            message = consumer.poll(WITHIN_S)
            assert message is not None, "nothing came"
            if not message.error():
                values.append(message.value())
            elif consumer.position([TopicPartition("t", 0)])[0].offset >= end:
                consumer.close()
                return values


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.ours.stop()
    made.kafka.stop()


def test_groups_and_transactions_go_on_in_either_broker(pair: Pair) -> None:
    assert {java_string_hash(name) < 0 for name in NAMES} == {True, False}, "hashes of names are on both sides of zero"
    pair.ours.start()
    admin = AdminClient(pair.options)
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(WITHIN_S)
    pair.commit(3)
    left = pair.leave_open()
    pair.ours.stop()
    del left

    pair.kafka.start()
    assert pair.committed() == {3}
    pair.go_on()
    assert pair.committed_values() == [b"whole"] * len(NAMES)
    pair.commit(5)
    left = pair.leave_open()
    pair.kafka.stop()
    del left

    pair.ours.start()
    assert pair.committed() == {5}
    pair.go_on()
    assert pair.committed_values() == [b"whole"] * len(NAMES) * 2
