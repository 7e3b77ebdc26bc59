"""● Records that a broker must not lose when it is killed or its power fails.

A load through librdkafka notes the acknowledged records, and a reader reads everything back.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition

IN_FLIGHT: Final = 2000
WITHIN_S: Final = 60.0


class AcknowledgedLoad:
    """An idempotent producer in a thread of its own.  It sends without a pause and notes acknowledged records by partition and offset."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, settings: Mapping[str, str | int]) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._number = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
                **settings,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> int:
        """Stop sending.  Returns the number of records that are still on their way."""
        self._stop.set()
        self._thread.join()
        return self._producer.flush(WITHIN_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._turn()

    def _turn(self) -> None:
        """Send the next record, unless the queue is full."""
        if not self._is_full:
            self._produce_next()
        self._producer.poll(0.01 if self._is_full else 0)

    @property
    def _is_full(self) -> bool:
        return len(self._producer) >= IN_FLIGHT

    def _produce_next(self) -> None:
        number = self._number
        self._producer.produce(self._topic, b"value %d" % number, partition=number % self._partitions, on_delivery=self._delivered)
        self._number += 1

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and isinstance(value, bytes)
        self.acknowledged[partition, offset] = value


def read_back(bootstrap: str, topic: str, partitions: int) -> Iterator[Message]:
    """All records of a topic.  Errors: AssertionError for partitions that were not read to their end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True})
    ends = {partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), WITHIN_S)[1] for partition in range(partitions)}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    waiting = {partition for partition, end in ends.items() if end > 0}
    heard_s = time.monotonic()
    while waiting and time.monotonic() < heard_s + WITHIN_S:
        for message in consumer.consume(5000, 0.5):
            heard_s = time.monotonic()
            if message.error() is None:
                yield message
                if message.offset() >= ends[message.partition()] - 1:  # type: ignore[operator, index]
                    waiting.discard(message.partition())
            else:
                waiting.discard(message.partition())
    consumer.close()
    if waiting:
        raise AssertionError(f"partitions {waiting} of {topic} were not read to their end")
