"""◇ A producer's records on their way into batches: grouped by partition, closed when full, due after a short wait.

    append ──▶ [open batch] ──full or lingered──▶ due ──take──▶ in flight ──▶ done
                                                                    └──▶ put_back (to be tried again, before what came later)

Guarantee: one batch of a partition is in flight at a time, so records keep their order through retries without idempotence.
Tokens are the caller's: whoever waits for a record, in the order of the records.  Called by `producer`.
"""

from collections import deque
from typing import Final, Generic, NamedTuple, TypeVar

from moldau.protocol.records.batch import HEADER_SIZE
from moldau.protocol.records.builder import BatchOptions, NewRecord, RecordBatchBuilder
from moldau.protocol.records.compression import Codec
from moldau.types import TopicPartition

T = TypeVar("T")

# What a record takes beside its bytes: its length, attributes, two deltas, two lengths, the count of headers; a header: two lengths.
_RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
_HEADER_OVERHEAD: Final = 10


class Batching(NamedTuple):
    """How batches are made.  `batch_bytes` before compression; one record may be larger and then has a batch of its own."""

    batch_bytes: int = 128 * 1024
    linger_ms: int = 5
    buffer_bytes: int = 64 * 1024 * 1024
    codec: Codec = Codec.NONE
    level: int | None = None


class PendingBatch(Generic[T]):
    """Records of one partition that travel together."""

    __slots__ = ("attempts", "builder", "created_ms", "encoded", "reserved_bytes", "tokens", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, options: BatchOptions, now_ms: int) -> None:
        self.topic_partition = topic_partition
        self.builder = RecordBatchBuilder(options)
        self.created_ms = now_ms
        self.attempts = 0
        self.reserved_bytes = HEADER_SIZE
        self.tokens: list[T] = []
        self.encoded: bytearray | None = None

    def __repr__(self) -> str:
        return f"PendingBatch({self.topic_partition}, {len(self.tokens)} records)"

    def encode(self) -> bytearray:
        """The batch's bytes; the same ones at every attempt."""
        if self.encoded is None:
            self.encoded = self.builder.build()
        return self.encoded


class Accumulator(Generic[T]):
    def __init__(self, batching: Batching) -> None:
        self._batching = batching
        self._options = BatchOptions(codec=batching.codec, level=batching.level)
        self._queues: dict[TopicPartition, deque[PendingBatch[T]]] = {}
        self._in_flight: set[TopicPartition] = set()
        self.buffered_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Nothing waits and nothing is in flight."""
        return not self._in_flight and not any(self._queues.values())

    def has_room_for(self, record: NewRecord) -> bool:
        """An empty accumulator takes any record."""
        return self.buffered_bytes == 0 or self.buffered_bytes + size_of(record) <= self._batching.buffer_bytes

    def append(self, topic_partition: TopicPartition, record: NewRecord, token: T, now_ms: int) -> None:
        queue = self._queues.setdefault(topic_partition, deque())
        size = size_of(record)
        batch = queue[-1] if queue else None
        if batch is None or batch.encoded is not None or batch.reserved_bytes + size > self._batching.batch_bytes:
            batch = PendingBatch(topic_partition, self._options, now_ms)
            queue.append(batch)
            self.buffered_bytes += batch.reserved_bytes
        batch.builder.append(record)
        batch.tokens.append(token)
        batch.reserved_bytes += size
        self.buffered_bytes += size

    def due(self, now_ms: int, *, flush: bool = False) -> list[TopicPartition]:
        """Partitions whose first batch should leave now."""
        return [
            topic_partition
            for topic_partition, queue in self._queues.items()
            if queue and topic_partition not in self._in_flight and (flush or self._is_due(queue, now_ms))
        ]

    def next_due_in_ms(self, now_ms: int) -> int | None:
        """How long until some waiting batch has lingered; None when there is none."""
        waits = [
            max(0, queue[0].created_ms + self._batching.linger_ms - now_ms)
            for topic_partition, queue in self._queues.items()
            if queue and topic_partition not in self._in_flight
        ]
        return min(waits, default=None)

    def take(self, topic_partition: TopicPartition) -> PendingBatch[T]:
        """The partition's first batch, in flight from now on."""
        assert topic_partition not in self._in_flight, f"a batch of {topic_partition} is in flight already"
        self._in_flight.add(topic_partition)
        batch = self._queues[topic_partition].popleft()
        batch.attempts += 1
        batch.encode()
        return batch

    def done(self, batch: PendingBatch[T]) -> None:
        """It was written, or given up."""
        self._in_flight.discard(batch.topic_partition)
        self.buffered_bytes -= batch.reserved_bytes

    def put_back(self, batch: PendingBatch[T]) -> None:
        """To be tried again, before anything that came later."""
        self._in_flight.discard(batch.topic_partition)
        self._queues[batch.topic_partition].appendleft(batch)

    def _is_due(self, queue: deque[PendingBatch[T]], now_ms: int) -> bool:
        first = queue[0]
        waited_ms = now_ms - first.created_ms
        return len(queue) > 1 or first.attempts > 0 or waited_ms >= self._batching.linger_ms or self._is_full(first)

    def _is_full(self, batch: PendingBatch[T]) -> bool:
        return batch.reserved_bytes >= self._batching.batch_bytes


def size_of(record: NewRecord) -> int:
    """At most so many bytes before compression."""
    headers = sum(_HEADER_OVERHEAD + 4 * len(key) + len(value or b"") for key, value in record.headers)
    return _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers
