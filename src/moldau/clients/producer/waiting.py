"""● Records that cannot enter the accumulator yet, because their topic is not known or there is no room.  Each waits max_block_ms at most.

Guarantee: records of one partition keep their order, and a topic or a partition in trouble holds up no other.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.errors import BufferFull, ClientError, ClusterUnreachable, error_of
from moldau.clients.producer.accumulator import MEMORY_OVERHEAD, Accumulator
from moldau.clients.producer.delivery import Delivery, Run, Token, delivery_of
from moldau.clients.producer.options import ProducerOptions
from moldau.clients.producer.placement import Placement
from moldau.clients.topics import Topics
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.types import TopicPartition


class Waiting(NamedTuple):
    """One record, with its topic and partition."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    size: int
    delivery: Delivery
    run: Run
    until_ms: int
    asked: int
    """How many answers about topics had come before the record: only a later error concerns it."""


class WaitingRoom:
    """The records that wait.

    `wake`: called when records may have got their place; `on_expired`: called when records have waited too long; `on_failed`: called for
    each record that fails, because a transaction cannot be committed without it.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        accumulator: Accumulator[Token],
        placement: Placement,
        topics: Topics,
        clock: Clock,
        *,
        wake: Callable[[], None],
        on_expired: Callable[[], None],
        on_failed: Callable[[KafkaError], object],
    ) -> None:
        self.lines: dict[object, deque[Waiting]] = {}
        """Lines by topic while its partitions are not known, by TopicPartition while there is no room."""
        self.bytes = 0
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._options = options
        self._accumulator = accumulator
        self._placement = placement
        self._topics = topics
        self._clock = clock
        self._wake = wake
        self._on_expired = on_expired
        self._on_failed = on_failed
        self._timer: asyncio.TimerHandle | None = None

    def park(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        size: int,
        timestamp: int,
        run: Run,
    ) -> Delivery:
        """Let a record wait for its topic or for room, or fail.  `run`: of this record alone.  Errors: BufferFull."""
        options = self._options
        delivery = delivery_of(run, 0, timestamp)
        if size > options.max_request_size or size + MEMORY_OVERHEAD > options.buffer_memory:
            limit = "max.request.size" if size > options.max_request_size else "buffer.memory"
            allowed = min(options.max_request_size, options.buffer_memory)
            error = ClientError(ErrorCode.MESSAGE_TOO_LARGE, f"a record for {topic} has {size} bytes, {limit} allows {allowed}")
            self._tell(run, TopicPartition(topic, -1), error)
            return delivery
        waits = size + MEMORY_OVERHEAD
        if self.bytes + waits > options.buffer_memory:
            raise BufferFull(
                f"buffer.memory={options.buffer_memory} is full, and as much again waits for room: "
                "await a delivery, drain(), or use send_many, which waits by itself"
            )
        self._topics.use(topic)
        until_ms = self._clock.monotonic_ms() + options.max_block_ms
        waiting = Waiting(topic, partition, key, value, headers, size, delivery, run, until_ms, self._topics.answer_count)
        self.lines.setdefault(topic, deque()).append(waiting)
        self.bytes += waits
        if topic not in self._placement.queues:
            self._topics.refresh_soon()
        self.admit()
        self._set_timer()
        return delivery

    def admit(self) -> None:
        """Move the records that now have a place into the accumulator.  The records of a topic, or of a partition, keep their order."""
        if not self.lines:
            return
        for key in list(self.lines):
            line = self.lines.get(key)
            while line:
                if not self._admit(key, line[0]):
                    break
                line.popleft()
            if not line:
                self.lines.pop(key, None)
        self._wake()

    def _admit(self, place: object, one: Waiting) -> bool:
        """Whether the record has left the head of its line: it entered the accumulator or its partition's line, or it failed."""
        if one.delivery.done():
            self._fail(one, ClientError(ErrorCode.NETWORK_EXCEPTION, f"the delivery of a record for {one.topic} was cancelled"))
            return True
        error = self._placement.error_of(one.topic)
        if error is not None and self._topics.answer_count > one.asked:
            self._fail(one, error)
            return True
        queues = self._placement.queues.get(one.topic)
        if queues is None:
            return False
        index = one.partition
        if index is None:
            try:
                index = self._placement.partition_of(one.topic, one.key, one.value, one.size, queues)
            except ClientError as refusal:
                self._fail(one, refusal)
                return True
        if not 0 <= index < len(queues):
            detail = f"topic {one.topic} has no partition {index}: there are {len(queues)}"
            self._fail(one, ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail))
            return True
        queue = queues[index]
        line = self.lines.get(queue.topic_partition) if place is not queue.topic_partition else None
        if not line and self._accumulator.has_room(queue, one.size + MEMORY_OVERHEAD):
            self.bytes -= one.size + MEMORY_OVERHEAD
            self._accumulator.append(
                queue, one.key, one.value, one.delivery.timestamp, one.headers, one.size, one.run, self._clock.monotonic_ms()
            )
            return True
        if place is queue.topic_partition or place == queue.topic_partition:
            return False
        if one.partition is None and self._placement.is_free(one.key):
            self._placement.leave(one.topic, queues)
        self.lines.setdefault(queue.topic_partition, deque()).append(one._replace(partition=index))
        return True

    def _set_timer(self) -> None:
        if self._timer is None and self.lines:
            soonest = min(line[0].until_ms for line in self.lines.values() if line)
            delay_ms = max(1, soonest - self._clock.monotonic_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        for place, line in list(self.lines.items()):
            while line and line[0].until_ms <= now_ms:
                one = line.popleft()
                self._fail(one, self._too_long(one, isinstance(place, str)))
            if not line:
                self.lines.pop(place, None)
        self._set_timer()
        self._on_expired()

    def _too_long(self, one: Waiting, is_topic_unknown: bool) -> KafkaError:
        within = f"within max.block.ms={self._options.max_block_ms}"
        if not is_topic_unknown:
            return BufferFull(f"there was no room for a record of {one.topic}-{one.partition} {within}")
        return self.why_unknown(one.topic, within)

    def why_unknown(self, topic: str, within: str) -> KafkaError:
        failure = self._topics.failure
        if isinstance(failure, OSError | Unreachable):
            return ClusterUnreachable(f"topic {topic} did not become known {within}: {failure}")
        if isinstance(failure, KafkaError):
            return failure
        if not self._topics.answer_count:
            return ClusterUnreachable(f"topic {topic} did not become known {within}: no answer from {self._cluster.bootstrap}")
        code = self._cluster.view.error_of(topic) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error_of(code, f"topic {topic}: {code.text}")

    def fail(self, error: KafkaError, *, of_unknown_topics_only: bool = False) -> None:
        for place in [place for place in self.lines if isinstance(place, str) or not of_unknown_topics_only]:
            for one in self.lines.pop(place):
                self._fail(one, error)

    def _fail(self, one: Waiting, error: KafkaError) -> None:
        self.bytes -= one.size + MEMORY_OVERHEAD
        self._tell(one.run, TopicPartition(one.topic, -1 if one.partition is None else one.partition), error)

    def _tell(self, run: Run, topic_partition: TopicPartition, error: KafkaError) -> None:
        self._on_failed(error)
        run.written(topic_partition, -1, None, error)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
