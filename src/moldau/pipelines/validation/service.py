"""● The order service: a stock client that sends orders and their stock requests, at a rate or as fast as it can.

An order goes to the partition that Java's producer chooses for its customer.  Its stock request goes to the partition for its store,
like the job's own records of the store.  Both have the same timestamp.  The producer is idempotent, so each partition holds its records
once and in the order of sending.
"""

import time
from collections.abc import Callable, Iterable

from confluent_kafka import Producer

from moldau.clients.producer.partitioners import partition_for_key
from moldau.pipelines.topics import create_topics
from moldau.pipelines.validation.faults import Sent
from moldau.pipelines.validation.model import Topics, order_json, stock_request_json

FLUSH_TIMEOUT_S = 120.0
POLL_EVERY = 64
BY_KEY = -1


class OrderService:
    def __init__(self, bootstrap_servers: str, topics: Topics, *, partitions: int) -> None:
        self.topics = topics
        self.partitions = partitions
        self.sent_count = 0
        self.failed: list[str] = []
        create_topics(bootstrap_servers, topics.configs(), partitions=partitions)
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 2,  # failures are raised; a broker that stops before us is no news
                "compression.type": "lz4",
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": 200_000,
            }
        )

    def send(self, sent: Iterable[Sent], *, rate: float = 0, told: Callable[[int], None] = lambda _: None) -> None:
        """Send all records and wait until they are acknowledged.  `rate` is orders a second, 0 as fast as possible."""
        started = time.perf_counter()
        for position, step in enumerate(sent):
            if rate:
                self._wait_until(started + position / rate)
            self._send(position, step)
            if position % POLL_EVERY == 0 or rate:
                self.producer.poll(0)
                told(self.sent_count)
        self._flush()
        told(self.sent_count)

    def _send(self, position: int, step: Sent) -> None:
        now_ms = _now_ms()
        if step.malformed is not None:
            self._produce(self.topics.orders, f"malformed-{position}", step.malformed.value, position % self.partitions, now_ms)
        if step.order is None:
            return
        order = step.order
        self._produce(self.topics.orders, order.order_id, order_json(order), self._partition_of(order.customer_id), now_ms)
        if step.has_request:
            request = stock_request_json(order)
            self._produce(self.topics.stock_requests, order.store_id, request, BY_KEY, now_ms)
        self.sent_count += 1

    def _partition_of(self, key: str) -> int:
        return partition_for_key(key.encode(), self.partitions)

    def _produce(self, topic: str, key: str, value: bytes, partition: int, timestamp_ms: int) -> None:
        while True:
            try:
                self.producer.produce(topic, value, key, partition, on_delivery=self._delivered, timestamp=timestamp_ms)
                return
            except BufferError:
                self.producer.poll(0.05)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))

    def _wait_until(self, at: float) -> None:
        while (left_s := at - time.perf_counter()) > 0:
            self.producer.poll(min(left_s, 0.1))

    def _flush(self) -> None:
        left = self.producer.flush(FLUSH_TIMEOUT_S)
        if left or self.failed:
            raise RuntimeError(f"{left} records were not acknowledged, {len(self.failed)} failed: {self.failed[:3]}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
