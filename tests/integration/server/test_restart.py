"""Clients stay while their broker is stopped and started again: it acknowledges all that it has taken, and no client is left behind."""

import threading

import pytest
from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.process import BrokerProcess
from proof.storage.acknowledged import read_back

pytestmark = pytest.mark.slow

RESTARTS = 5
PRODUCERS = 8
WITHIN_S = 60
PARTITIONS = 2


class Stream(threading.Thread):
    """An idempotent producer: records one after the other, until told to end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name=topic, daemon=True)
        self.topic = topic
        self.sent: list[int] = []
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self.left = -1
        self._is_over = threading.Event()
        options = {"enable.idempotence": True, "linger.ms": 2, "reconnect.backoff.max.ms": 500}
        self._producer = Producer({"bootstrap.servers": bootstrap, **options})

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                number = len(self.sent)
                self._producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
                self.sent.append(number)
                self._producer.poll(0.002)
            self.left = self._producer.flush(WITHIN_S)
        except KafkaException as error:
            self.failures.append(str(error))

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged.append(int(message.value() or b"-1"))

    def end(self) -> None:
        self._is_over.set()
        self.join(2 * WITHIN_S)
        assert not self.is_alive()


def test_producers_outlive_restarts() -> None:
    """A producer that is not told of a record's success sends it again.  If later records stand there already, it gives up for good."""
    with BrokerProcess() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [f"t{number}" for number in range(PRODUCERS)]
        for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
            done.result(WITHIN_S)
        streams = [Stream(broker.bootstrap, topic) for topic in topics]
        for stream in streams:
            stream.start()
        for restart in range(RESTARTS):
            target = [len(stream.acknowledged) + 200 for stream in streams]
            while any(len(stream.acknowledged) < least for stream, least in zip(streams, target, strict=True)):
                assert all(stream.is_alive() for stream in streams), (restart, [stream.failures[:1] for stream in streams])
            broker.stop()
            broker.start()
        for stream in streams:
            stream.end()
            assert not stream.failures and stream.left == 0
            assert sorted(stream.acknowledged) == stream.sent
            stored: list[list[int]] = [[] for _ in range(PARTITIONS)]
            for message in read_back(broker.bootstrap, stream.topic, PARTITIONS):
                stored[message.partition() or 0].append(int(message.value() or b"-1"))
            assert stored == [stream.sent[at::PARTITIONS] for at in range(PARTITIONS)]
