"""◇ The producer's brain: it decides which records share a batch, when a batch leaves, its sequence numbers, and what an answer changes.

    append ──▶ [open batch] ──full, lingered, or nothing of its partition on its way──▶ take ──▶ in flight ──▶ succeeded │ failed
                                                                                            └──▶ retry: back to the front

Guarantees.  Records of one partition keep their order, whatever happens to requests.  Each token learns its result exactly once.  A
partition takes at most as much memory as it leaves free, so a blocked partition leaves room for all others.

With idempotence up to five batches of a partition are on their way; otherwise one.  A batch that is tried again goes alone, and so does the
first one of a producer id: a leader that has nothing of a producer takes any sequence for its first, so it would write the second batch
after it refused the first.  When a batch with a sequence fails for good, the broker refuses the batches behind it as out of order.  Once
the fate of each is known, they get sequences from 0 on in a new epoch.  A batch whose fate is unknown keeps its sequence, because only
under that one can the broker tell that it has it already.

Source: RecordAccumulator, TransactionManager, Sender; KIP-98, 185, 360, 794.  Called by `sender`, which sends the batches that `take`
returns.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from moldau.clients.producer.batch import RECORD_OVERHEAD, Fate, PendingBatch
from moldau.clients.producer.lane import Lane
from moldau.errors import ErrorCode
from moldau.protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, next_sequence
from moldau.protocol.records.builder import BatchOptions
from moldau.protocol.records.column_builder import Columns, Headers
from moldau.types import TopicPartition

T = TypeVar("T", bound="Splittable")


class Splittable(Protocol):
    """A token that stands for one or more records.  A token for several can be split, so that each half stands for itself."""

    count: int

    def halves(self) -> tuple[Self, Self]: ...


MEMORY_OVERHEAD: Final = 256
"""About how many bytes of memory a record with a delivery of its own takes beside its content."""
MAX_EPOCH: Final = 32767
NEVER: Final = 1 << 62

LEAVES_IT_OPEN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which the broker may or may not have the batch."""
LOST_TRACK: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Errors that mean that the broker does not know this producer's sequence.  Without transactions a new epoch begins it anew."""


class Accumulating(NamedTuple):
    """The producer's options that the accumulator needs; times in milliseconds."""

    batch_bytes: int = 128 * 1024
    linger_ms: int = 0
    buffer_bytes: int = 64 * 1024 * 1024
    max_request_bytes: int = 1024 * 1024
    delivery_timeout_ms: int = 120_000
    max_attempts: int = NEVER
    retry_backoff_ms: int = 100
    max_in_flight: int = 5
    is_idempotent: bool = True
    is_transactional: bool = False
    batch: BatchOptions = BatchOptions()


class PartitionQueue(Generic[T]):
    """The batches of one partition: those that wait, in order, and those on their way."""

    __slots__ = (
        "batches",
        "buffered_bytes",
        "in_flight",
        "is_known",
        "must_reset",
        "next_sequence",
        "producer_epoch",
        "producer_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.batches: deque[PendingBatch[T]] = deque()
        self.in_flight: list[PendingBatch[T]] = []
        self.buffered_bytes = 0
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.is_known = False
        """Whether the leader has written a batch of this producer id, so that it refuses one out of order."""
        self.must_reset = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return not self.batches and not self.in_flight

    @property
    def stamped(self) -> Iterable[PendingBatch[T]]:
        return (batch for batch in (*self.in_flight, *self.batches) if batch.is_stamped)


class Ended(NamedTuple, Generic[T]):
    """A batch that has ended: it was written from `base_offset` on, or failed with an error.  Its tokens are to be told."""

    batch: PendingBatch[T]
    code: ErrorCode
    detail: str


class Accumulator(Generic[T]):
    """See the module.  Times are steady milliseconds."""

    def __init__(self, options: Accumulating) -> None:
        self.options: Final = options
        self.queues: dict[TopicPartition, PartitionQueue[T]] = {}
        self.buffered_bytes = 0
        self.batch_count = 0
        """How many batches wait or are on their way."""
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.needs_identity = options.is_idempotent
        """Whether no batch may leave before `identify` is called."""
        self._busy: dict[TopicPartition, PartitionQueue[T]] = {}
        self._lane: Lane[T] | None = None

    # ------------------------------------------------------------ in

    @property
    def free_bytes(self) -> int:
        self.close_lane()
        return self.options.buffer_bytes - self.buffered_bytes

    @property
    def is_empty(self) -> bool:
        return not self.batch_count

    def queue_of(self, topic_partition: TopicPartition) -> PartitionQueue[T]:
        queue = self.queues.get(topic_partition)
        if queue is None:
            queue = self.queues[topic_partition] = PartitionQueue(topic_partition)
        return queue

    def has_room(self, queue: PartitionQueue[T], size: int) -> bool:
        """Whether a partition may take `size` bytes more.

        A partition may take as much as is left free.  A partition without waiting records takes any record for which there is memory at
        all.
        """
        self.close_lane()
        free = self.options.buffer_bytes - self.buffered_bytes
        return size <= free and (not queue.buffered_bytes or queue.buffered_bytes + size <= free)

    def append(
        self,
        queue: PartitionQueue[T],
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        size: int,
        token: T,
        now_ms: int,
    ) -> None:
        """Add one record.  `size`: see `batch.size_of`.  Further records may join the token."""
        batch = self._open_batch(queue, size, now_ms)
        batch.append(key, value, timestamp, headers)
        self._account(queue, batch, size, MEMORY_OVERHEAD, token)
        batch.run = token

    def join(  # hot: 0.3 µs
        self, queue: PartitionQueue[T], key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, size: int
    ) -> T | None:
        """Add one record to the open batch of a partition, and to the token of the record before it.

        Returns that token.  None: there is no open batch, or no room, and nothing has changed.
        """
        batches = queue.batches
        if not batches:
            return None
        if self._lane is not None:
            self.close_lane()
        batch = batches[-1]
        run = batch.run
        filled = batch.size + size
        reserved = size + MEMORY_OVERHEAD
        options = self.options
        if (
            run is None
            or batch.attempts
            or batch.data is not None
            or filled > options.batch_bytes
            or queue.buffered_bytes + reserved > options.buffer_bytes - self.buffered_bytes
        ):
            return None
        if key is None and not headers and batch.keys is None and batch.headers is None:
            batch.values.append(value)
            batch.timestamps.append(timestamp)
        else:
            batch.append(key, value, timestamp, headers)
        batch.size = filled
        batch.reserved_bytes += reserved
        queue.buffered_bytes += reserved
        self.buffered_bytes += reserved
        run.count += 1
        return run

    def append_columns(self, queue: PartitionQueue[T], columns: Columns, size: int, token: T, now_ms: int) -> None:
        """Add records side by side to one batch: at most as many as fit into an empty one.  `size`: of all of them."""
        batch = self._open_batch(queue, size, now_ms)
        batch.extend(columns)
        self._account(queue, batch, size, 0, token)
        batch.run = None

    def open_lane(self, queue: PartitionQueue[T], room: int) -> Lane[T] | None:
        """A lane of `room` bytes at most behind the record that was added last.

        None: the batch is nearly full, or memory is so scarce that each record has to be counted.
        """
        self.close_lane()
        batch = queue.batches[-1] if queue.batches else None
        if batch is None or batch.run is None or batch.attempts or batch.keys is not None or batch.headers is not None:
            return None
        room = min(room, self.options.batch_bytes - batch.size)
        most = room * (RECORD_OVERHEAD + MEMORY_OVERHEAD) // RECORD_OVERHEAD
        if room < RECORD_OVERHEAD or queue.buffered_bytes + most > self.options.buffer_bytes - self.buffered_bytes:
            return None
        self._lane = Lane(batch, batch.run, room)
        return self._lane

    def close_lane(self) -> None:
        """Count what went through the lane."""
        lane, self._lane = self._lane, None
        if lane is None:
            return
        count, size = lane.close()
        queue = self.queues[lane.batch.topic_partition]
        reserved = size + count * MEMORY_OVERHEAD
        lane.batch.size += size
        lane.batch.reserved_bytes += reserved
        queue.buffered_bytes += reserved
        self.buffered_bytes += reserved

    def _open_batch(self, queue: PartitionQueue[T], size: int, now_ms: int) -> PendingBatch[T]:
        self.close_lane()
        batch = queue.batches[-1] if queue.batches else None
        if batch is None or batch.attempts or batch.data is not None or batch.size + size > self.options.batch_bytes:
            batch = PendingBatch(queue.topic_partition, self.options.batch, now_ms)
            queue.batches.append(batch)
            self._busy[queue.topic_partition] = queue
            self.batch_count += 1
        return batch

    def _account(self, queue: PartitionQueue[T], batch: PendingBatch[T], size: int, overhead: int, token: T) -> None:
        batch.tokens.append(token)
        batch.size += size
        reserved = size + overhead
        batch.reserved_bytes += reserved
        queue.buffered_bytes += reserved
        self.buffered_bytes += reserved

    # ------------------------------------------------------------ out

    def identify(self, producer_id: int, producer_epoch: int) -> None:
        """Set the producer id and epoch from now on.  A partition changes over once no batch of it is on its way."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.needs_identity = False
        for queue in self.queues.values():
            queue.must_reset = queue.producer_id != NO_PRODUCER_ID

    @property
    def is_out_of_sequence(self) -> bool:
        """Whether some partition needs a new epoch before anything more can be written to it."""
        return any(queue.must_reset for queue in self.queues.values())

    def take(
        self,
        now_ms: int,
        leader_of: Callable[[TopicPartition], int | None],
        may_send_to: Callable[[int], bool],
        may_write: Callable[[TopicPartition], bool],
        *,
        flush: bool = False,
    ) -> tuple[dict[int, list[PendingBatch[T]]], list[TopicPartition]]:
        """The batches that leave now, for one request per leader; and the partitions whose leader is not known.

        The batches count as in flight from now on.
        """
        self.close_lane()
        requests: dict[int, list[PendingBatch[T]]] = {}
        sizes: dict[int, int] = {}
        leaderless: list[TopicPartition] = []
        if self.needs_identity:
            return requests, leaderless
        for topic_partition, queue in self._busy.items():
            batch = self._next_of(queue, now_ms, flush=flush)
            if batch is None or not may_write(topic_partition):
                continue
            node_id = leader_of(topic_partition)
            if node_id is None:
                leaderless.append(topic_partition)
                continue
            if not may_send_to(node_id):
                continue
            size = sizes.get(node_id, 0)
            if size and size + batch.size > self.options.max_request_bytes:
                continue
            if self._depart(queue, batch):
                requests.setdefault(node_id, []).append(batch)
                sizes[node_id] = size + batch.size
        # A served partition goes to the end of the order, so that a full request starves no partition.
        for batches in requests.values():
            for batch in batches:
                self._busy[batch.topic_partition] = self._busy.pop(batch.topic_partition)
        return requests, leaderless

    def _next_of(self, queue: PartitionQueue[T], now_ms: int, *, flush: bool) -> PendingBatch[T] | None:
        if not queue.batches:
            return None
        head = queue.batches[0]
        if queue.must_reset:
            if queue.in_flight:
                return None
            # A batch of unknown fate goes first: only under its old sequence can the broker tell whether it has it.
            head = next((batch for batch in queue.batches if batch.fate is Fate.UNKNOWN), head)
        if head.attempts:
            return head if not queue.in_flight and now_ms >= head.retry_at_ms else None
        if queue.in_flight:
            if not self.options.is_idempotent or not queue.is_known or len(queue.in_flight) >= self.options.max_in_flight:
                return None
            if any(batch.attempts > 1 for batch in queue.in_flight):
                return None
        if len(queue.batches) > 1 or flush or head.size >= self.options.batch_bytes:
            return head
        if now_ms - head.created_ms < self.options.linger_ms:
            return None
        return head if self.options.linger_ms or not queue.in_flight else None

    def _depart(self, queue: PartitionQueue[T], batch: PendingBatch[T]) -> bool:
        """Stamp a batch and put it in flight.  False: a new identity is needed first."""
        if self.options.is_idempotent:
            is_to_reset = queue.must_reset and batch.fate is not Fate.UNKNOWN
            if (is_to_reset or not batch.is_stamped) and not self._stamp(queue, batch):
                return False
        queue.batches.remove(batch)
        queue.in_flight.append(batch)
        batch.attempts += 1
        return True

    def _stamp(self, queue: PartitionQueue[T], batch: PendingBatch[T]) -> bool:
        if queue.must_reset:
            is_ours = (queue.producer_id, queue.producer_epoch) == (self.producer_id, self.producer_epoch)
            if is_ours and not self._bump_epoch():
                return False
            self._reset(queue)
        elif queue.producer_id == NO_PRODUCER_ID:
            self._reset(queue)
        is_transactional = self.options.is_transactional
        batch.stamp(queue.producer_id, queue.producer_epoch, queue.next_sequence, is_transactional=is_transactional)
        queue.next_sequence = next_sequence(queue.next_sequence, batch.count)
        return True

    def _reset(self, queue: PartitionQueue[T]) -> None:
        queue.is_known = queue.is_known and queue.producer_id == self.producer_id
        queue.producer_id, queue.producer_epoch = self.producer_id, self.producer_epoch
        queue.next_sequence = 0
        queue.must_reset = False
        for waiting in queue.batches:
            waiting.unstamp()

    def _bump_epoch(self) -> bool:
        if self.options.is_transactional:
            return False  # the transaction coordinator raises the epoch
        if self.producer_epoch >= MAX_EPOCH:
            self.needs_identity = True
            return False
        self.producer_epoch += 1
        return True

    def next_event_ms(self, now_ms: int) -> int | None:
        """How many milliseconds until a batch has lingered, may be tried again, or expires."""
        at = NEVER
        for queue in self._busy.values():
            for batch in queue.in_flight:
                if not batch.has_ended:
                    at = min(at, batch.created_ms + self.options.delivery_timeout_ms)
            if not queue.batches:
                continue
            head = queue.batches[0]
            at = min(at, head.created_ms + self.options.delivery_timeout_ms)
            if head.attempts:
                if head.retry_at_ms > now_ms:
                    at = min(at, head.retry_at_ms)
            elif head.created_ms + self.options.linger_ms > now_ms:
                at = min(at, head.created_ms + self.options.linger_ms)
        return None if at == NEVER else max(0, at - now_ms)

    # ------------------------------------------------------------ answers

    def succeeded(self, batch: PendingBatch[T]) -> bool:
        """Note that a batch was written.  Returns whether its records are still to be told."""
        queue = self.queues[batch.topic_partition]
        queue.is_known = queue.is_known or batch.producer_id == queue.producer_id
        return self._end(batch)

    def refused(self, batch: PendingBatch[T], code: ErrorCode, detail: str, now_ms: int) -> list[Ended[T]]:
        """Note that the broker refused a batch in flight, or the connection broke.  Returns the batches that end by it."""
        queue = self.queues[batch.topic_partition]
        if code in LEAVES_IT_OPEN:
            batch.fate = Fate.UNKNOWN
        elif batch.fate is Fate.UNSENT or code in LOST_TRACK or code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            batch.fate = Fate.REJECTED
        # The broker could not recognise the halves of a batch that it may have already.
        is_splittable = batch.count > 1 and not batch.has_ended and batch.fate is not Fate.UNKNOWN
        if code is ErrorCode.MESSAGE_TOO_LARGE and is_splittable:
            self._split(queue, batch, now_ms)
            return []
        if self._may_retry(queue, batch, code) and not self._is_late(batch, now_ms) and not batch.has_ended:
            self._put_back(queue, batch, now_ms, at_once=code in LOST_TRACK)
            return []
        if batch.is_stamped:
            queue.must_reset = True
        if batch.has_ended:
            self._end(batch)
            return []
        self._end(batch)
        return [Ended(batch, code, detail)]

    def _may_retry(self, queue: PartitionQueue[T], batch: PendingBatch[T], code: ErrorCode) -> bool:
        if batch.attempts > self.options.max_attempts:
            return False
        if self.options.is_idempotent and batch.is_stamped:
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                if any(_is_before(other, batch) for other in queue.stamped if other is not batch):
                    return True
                queue.must_reset = True
                return not self.options.is_transactional
            if code in LOST_TRACK:
                queue.must_reset = True
                queue.is_known = False
                return not self.options.is_transactional
        return code.retriable

    def _put_back(self, queue: PartitionQueue[T], batch: PendingBatch[T], now_ms: int, *, at_once: bool = False) -> None:
        """Put a batch back before all batches that were appended later."""
        queue.in_flight.remove(batch)
        batch.retry_at_ms = now_ms if at_once else now_ms + self.options.retry_backoff_ms
        place = 0
        while place < len(queue.batches) and _is_before(queue.batches[place], batch):
            place += 1
        queue.batches.insert(place, batch)

    def _split(self, queue: PartitionQueue[T], batch: PendingBatch[T], now_ms: int) -> None:
        """Split a batch that is too large for the broker into halves under the same sequence numbers."""
        queue.in_flight.remove(batch)
        tokens = batch.tokens if len(batch.tokens) > 1 else list(batch.tokens[0].halves())
        half = len(tokens) // 2
        at = sum(token.count for token in tokens[:half])
        first, second = _part_of(batch, 0, at, tokens[:half]), _part_of(batch, at, batch.count, tokens[half:])
        first.retry_at_ms = second.retry_at_ms = now_ms
        queue.buffered_bytes += first.reserved_bytes + second.reserved_bytes - batch.reserved_bytes
        self.buffered_bytes += first.reserved_bytes + second.reserved_bytes - batch.reserved_bytes
        self.batch_count += 1
        place = 0
        while place < len(queue.batches) and _is_before(queue.batches[place], batch):
            place += 1
        queue.batches.insert(place, second)
        queue.batches.insert(place, first)

    def expire(self, now_ms: int) -> list[Ended[T]]:
        """End the batches whose delivery time is over.  A batch on its way is ended, too, but tracked until its answer comes."""
        self.close_lane()
        ended = []
        for queue in list(self._busy.values()):
            for batch in queue.in_flight:
                if not batch.has_ended and self._is_late(batch, now_ms):
                    batch.has_ended = True
                    ended.append(self._too_late(batch))
            while queue.batches and self._is_late(queue.batches[0], now_ms):
                batch = queue.batches[0]
                if batch.is_stamped:
                    queue.must_reset = True
                queue.batches.popleft()
                self._forget(queue, batch)
                ended.append(self._too_late(batch))
        return ended

    def _too_late(self, batch: PendingBatch[T]) -> Ended[T]:
        written = "it may have been written" if batch.attempts and batch.fate is not Fate.REJECTED else "it was not written"
        detail = f"{batch.topic_partition}: not acknowledged within delivery.timeout.ms={self.options.delivery_timeout_ms}; {written}"
        return Ended(batch, ErrorCode.REQUEST_TIMED_OUT, detail)

    def _is_late(self, batch: PendingBatch[T], now_ms: int) -> bool:
        return now_ms - batch.created_ms >= self.options.delivery_timeout_ms

    def abandon(self, code: ErrorCode, detail: str, *, unsent_only: bool = False) -> list[Ended[T]]:
        """Give up every batch that waits, as when a transaction is aborted.  A batch on its way is tracked until its answer comes."""
        self.close_lane()
        ended = []
        for queue in list(self._busy.values()):
            while queue.batches:
                batch = queue.batches.popleft()
                if batch.is_stamped:
                    queue.must_reset = True
                self._forget(queue, batch)
                ended.append(Ended(batch, code, detail))
            for batch in [] if unsent_only else queue.in_flight:
                if not batch.has_ended:
                    batch.has_ended = True
                    ended.append(Ended(batch, code, detail))
        return ended

    def _end(self, batch: PendingBatch[T]) -> bool:
        queue = self.queues[batch.topic_partition]
        queue.in_flight.remove(batch)
        self._forget(queue, batch)
        had_ended, batch.has_ended = batch.has_ended, True
        return not had_ended

    def _forget(self, queue: PartitionQueue[T], batch: PendingBatch[T]) -> None:
        queue.buffered_bytes -= batch.reserved_bytes
        self.buffered_bytes -= batch.reserved_bytes
        self.batch_count -= 1
        if not queue.batches and not queue.in_flight:
            self._busy.pop(queue.topic_partition, None)


def _is_before(one: PendingBatch[Any], other: PendingBatch[Any]) -> bool:
    """Whether `one` comes before `other` in its partition.

    A stamped batch comes before one without a stamp.  Sequence numbers begin anew at 0 after 2^31 - 1.
    """
    if not one.is_stamped or not other.is_stamped:
        return one.is_stamped
    ahead = (other.base_sequence - one.base_sequence) % (1 << 31)
    return 0 < ahead < 1 << 30


def _part_of(batch: PendingBatch[T], start: int, end: int, tokens: list[T]) -> PendingBatch[T]:
    part: PendingBatch[T] = PendingBatch(batch.topic_partition, batch.options, batch.created_ms)
    part.keys = None if batch.keys is None else batch.keys[start:end]
    part.values = batch.values[start:end]
    part.timestamps = batch.timestamps[start:end]
    part.headers = None if batch.headers is None else batch.headers[start:end]
    part.tokens = tokens
    share = (end - start) / batch.count
    part.size, part.reserved_bytes = int(batch.size * share), int(batch.reserved_bytes * share)
    part.attempts, part.fate = batch.attempts, Fate.REJECTED
    if batch.is_stamped:
        part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
        part.base_sequence = next_sequence(batch.base_sequence, start)
    return part
