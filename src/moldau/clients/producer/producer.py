"""● The producer that users call.

    async with Producer("localhost:9092") as producer:
        where = await producer.send("orders", b"value", key=b"key")         # delivered: where.offset
        producer.send("orders", b"value")                                   # on its way; flush, or the end of the block, waits for it
        await producer.send_many("orders", values)                          # whole lists, many times as fast

    async with Producer("localhost:9092", transactional_id="billing") as producer:
        async with producer.transaction():                                  # all of it, or nothing
            producer.send("invoices", b"…")
            await producer.send_offsets({TopicPartition("orders", 0): 17}, group)

Guarantees.  Records of one partition keep the order in which they were sent, and with idempotence, the default, none is written twice by
this producer's own retries.  Every delivery ends, with its place or an error, within delivery_timeout_ms.  A topic, partition or broker
that is in trouble holds up no other.  Memory: what waits is never more than buffer_memory, and as much again that waits for room.
"""

import asyncio
import logging
import random
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.connecting import cluster_of
from moldau.clients.errors import BufferFull, ClientError, ClusterUnreachable, FatalError, error_of
from moldau.clients.options import OptionError, parse_options
from moldau.clients.producer.accumulator import MEMORY_OVERHEAD, Accumulating, Accumulator, PartitionQueue
from moldau.clients.producer.batch import RECORD_OVERHEAD, size_of
from moldau.clients.producer.delivery import Deliveries, Delivery, OnDelivery, RecordMetadata, Token
from moldau.clients.producer.options import ProducerOptions
from moldau.clients.producer.partitioners import StickyPartitioner, partition_for_key, partitioner_of
from moldau.clients.producer.sender import Sender
from moldau.clients.producer.transactions import State
from moldau.clients.producer.transactor import GroupMetadata, Offset, Transactor, Untransacted
from moldau.clients.topics import Topics
from moldau.clock import Clock, SystemClock
from moldau.errors import ErrorCode, KafkaError
from moldau.net.sasl import Credentials
from moldau.net.transport import Network
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.protocol.records.builder import BatchOptions
from moldau.protocol.records.column_builder import Columns
from moldau.types import NO_LEADER, TopicPartition

LOG: Final = logging.getLogger(__name__)

Headers = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]
UNAVAILABLE: Final = float("inf")


Piece = tuple[range | list[int], PartitionQueue[Token], Columns, int]
"""Numbers of records, where they go, themselves, and their bytes."""


class Waiting(NamedTuple):
    """A record that is not in the accumulator yet: its topic is not known, or there is no room."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    size: int
    delivery: Delivery
    until_ms: int
    asked: int
    """So many answers about topics had come before: an error among them is not about this record."""


class Producer:
    """See the module.  `servers`: `host:port,host:port`, or a `Cluster` that is shared with others and stays open.

    `given`: options by keyword, in snake_case; `options`: a mapping in Kafka's spelling, or `ProducerOptions`.  Errors: OptionError.
    """

    def __init__(
        self,
        servers: str | Sequence[str] | Cluster | None = None,
        options: Mapping[str, Any] | ProducerOptions | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        sasl: Credentials | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        **given: Any,
    ) -> None:
        if isinstance(options, ProducerOptions):
            self.options = options
        else:
            self.options = parse_options(ProducerOptions, {**(options or {}), **given})
        self._owns_cluster = not isinstance(servers, Cluster)
        self.cluster: Final = (
            servers
            if isinstance(servers, Cluster)
            else cluster_of(servers, self.options, ssl_context=ssl_context, sasl=sasl, network=network)
        )
        try:
            self._partitioner = partitioner_of(self.options.partitioner, random.random)
        except ValueError as error:
            raise OptionError(str(error)) from None
        self._clock = clock or SystemClock()
        self._accumulator: Accumulator[Token] = Accumulator(_accumulating(self.options))
        self._sticky = StickyPartitioner(self.options.batch_size, is_adaptive=self.options.partitioner_adaptive_partitioning_enable)
        self._ignores_keys = self.options.partitioner_ignore_keys or self.options.partitioner == "uniform_sticky"
        self._queues: dict[str, list[PartitionQueue[Token]]] = {}
        """Of each topic that may be written to, by partition."""
        self._waiting: dict[object, deque[Waiting]] = {}
        """By topic while its partitions are not known, by TopicPartition while there is no room."""
        self._waiting_bytes = 0
        self._waiting_timer: asyncio.TimerHandle | None = None
        self._progress: asyncio.Event | None = None
        self._sender: Sender | None = None
        self._transactor: Transactor | None = None
        self._failure: KafkaError | None = None
        self._is_closed = False

    # ------------------------------------------------------------ life

    async def start(self) -> Self:
        """Done by `async with` and by the first `send`; with a transactional id it fences whoever had it before.  Errors: ClientError."""
        self._started()
        if self._transactor is not None and self._transactor.transaction.state is State.UNINITIALIZED:
            await self._transactor.initialize()
        return self

    def _started(self) -> Sender:
        if self._is_closed:
            raise FatalError(ErrorCode.INVALID_REQUEST, "the producer is closed")
        if self._sender is None:
            self._loop = asyncio.get_running_loop()
            self._progress = asyncio.Event()
            self._topics = Topics(
                self.cluster,
                max_age_ms=self.options.metadata_max_age_ms,
                backoff_ms=self.options.retry_backoff_ms,
                on_change=self._on_metadata,
                creates_topics=True,
            )
            permits: Untransacted | Transactor = Untransacted()
            if self.options.transactional_id is not None:
                permits = self._transactor = Transactor(self.cluster, self.options, self._accumulator, lambda: self._started().wake())
            self._sender = Sender(
                self.cluster, self.options, self._accumulator, self._topics, self._clock, permits, on_progress=self._on_progress
            )
            if self._transactor is None:
                self._sender.identify = self._identify
        return self._sender

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Delivers what was sent, and ends.  After `timeout_ms` (None: delivery_timeout_ms) what is left is given up, each told so."""
        if self._is_closed:
            return
        if self._sender is not None:
            try:
                async with asyncio.timeout((self.options.delivery_timeout_ms if timeout_ms is None else timeout_ms) / 1000):
                    await self.flush()
            except TimeoutError:
                LOG.warning("the producer is closed before all was delivered")
        await self._stop()

    async def _stop(self) -> None:
        self._is_closed = True
        sender = self._sender
        if sender is not None:
            if self._waiting_timer is not None:
                self._waiting_timer.cancel()
            await self._topics.close()
            await sender.close()
            detail = "the producer was closed before the record was delivered"
            sender.tell(self._accumulator.abandon(ErrorCode.NETWORK_EXCEPTION, detail))
            self._fail_waiting(ClientError(ErrorCode.NETWORK_EXCEPTION, detail))
        if self._owns_cluster:
            self.cluster.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self._stop()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and issubclass(kind, asyncio.CancelledError | GeneratorExit):
            await self._stop()
        else:
            await self.close()

    # ------------------------------------------------------------ sending

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """On its way; await what it returns to know that it has arrived.  `value` None: a tombstone.

        Errors at once: BufferFull when nothing is awaited and too much waits already; FatalError, AbortableError of the producer; whatever
        a serializer raises.  All others come with the delivery.
        """
        sender = self._sender or self._started()
        if self._failure is not None or self._is_closed or self._transactor is not None:
            self._check_sendable()
        options = self.options
        if options.interceptors:
            topic, value, key, headers, partition, timestamp_ms = _intercepted(
                options.interceptors, topic, value, key, headers, partition, timestamp_ms
            )
        key_bytes = _serialized("key", key, options.key_serializer)
        value_bytes = _serialized("value", value, options.value_serializer)
        listed = _header_list(headers) if headers else ()
        now_ms = self._clock.now_ms()
        delivery = Delivery(self._loop, now_ms if timestamp_ms is None else timestamp_ms, on_delivery)
        if options.interceptors:
            delivery.add_done_callback(self._tell_interceptors)
        size = (
            size_of(key_bytes, value_bytes, listed)
            if listed
            else RECORD_OVERHEAD + (len(key_bytes) if key_bytes is not None else 0) + (len(value_bytes) if value_bytes is not None else 0)
        )
        queues = self._queues.get(topic)
        if queues is not None and not self._waiting and size <= options.max_request_size:
            index = self._partition_of(topic, key_bytes, value_bytes, size, queues) if partition is None else partition
            if 0 <= index < len(queues):
                queue = queues[index]
                if self._accumulator.has_room(queue, size + MEMORY_OVERHEAD):
                    self._accumulator.append(
                        queue, key_bytes, value_bytes, delivery.timestamp, listed, size, delivery, self._clock.monotonic_ms()
                    )
                    sender.wake()
                    return delivery
        self._park(topic, partition, key_bytes, value_bytes, listed, size, delivery)
        return delivery

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        headers: Sequence[Headers] | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> Deliveries:
        """Lists side by side.  Waits for room, not for delivery: await what it returns for that.  Partitions keep the order of records.

        Errors: ValueError for lists of different lengths; ClientError when the topic cannot be used, or there is no room within
        max_block_ms: then nothing more is sent, and what was sent before goes on.
        """
        sender = self._sender or self._started()
        self._check_sendable()
        for name, column in (("keys", keys), ("headers", headers), ("timestamps_ms", timestamps_ms)):
            if column is not None and len(column) != len(values):
                raise ValueError(f"{name} has {len(column)} entries, values has {len(values)}")
        deliveries = Deliveries(self._loop)
        queues = await self._queues_of(topic)
        if partition is not None and not 0 <= partition < len(queues):
            raise ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} has no partition {partition}: there are {len(queues)}")
        options = self.options
        if options.interceptors or options.key_serializer is not None or options.value_serializer is not None:
            keys, values = self._serialized_columns(topic, keys, values)
        columns = _columns(keys, values, headers, timestamps_ms, self._clock.now_ms())
        try:
            for numbers, queue, part, size in self._parts(topic, queues, columns, partition):
                await self._wait_for_room(queue, size)
                self._accumulator.append_columns(queue, part, size, deliveries.part(numbers), self._clock.monotonic_ms())
                sender.wake()
        finally:
            deliveries.complete()
        return deliveries

    async def drain(self) -> None:
        """Until nothing waits for room any more: between calls of `send` that nobody awaits."""
        while self._waiting:
            await self._next_progress()

    async def flush(self) -> None:
        """Until every record sent so far was delivered, or was told why not."""
        sender = self._sender
        if sender is None:
            return
        sender.flushing += 1
        try:
            while not self._accumulator.is_empty or self._waiting:
                sender.wake()
                if not await self._has_progress_or_failed():
                    break
        finally:
            sender.flushing -= 1

    async def _has_progress_or_failed(self) -> bool:
        """False: the transaction cannot go on, so nothing will leave any more."""
        transactor = self._transactor
        if transactor is not None and transactor.transaction.state in (State.ABORTABLE, State.FATAL, State.READY):
            detail = str(transactor.transaction.error or "no transaction is open")
            error = transactor.transaction.error or FatalError(ErrorCode.INVALID_TXN_STATE, detail)
            self._fail_waiting(error)
            assert self._sender is not None
            self._sender.tell(self._accumulator.abandon(error.code, error.detail, unsent_only=True))
            if self._accumulator.is_empty:
                return False
        await self._next_progress()
        return True

    def partitions_for(self, topic: str) -> list[int]:
        """Those known now; empty for a topic that nobody sent to yet."""
        return self.cluster.view.partitions_of(topic)

    # ------------------------------------------------------------ transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begins one, and commits it; what raises aborts it, and is raised on.  Errors: ClientError."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException as error:
            transaction = self._with_transactions().transaction
            if transaction.state is not State.FATAL and not isinstance(error, GeneratorExit):
                await asyncio.shield(self.abort_transaction())
            raise

    async def begin_transaction(self) -> None:
        await self.start()
        await self._with_transactions().begin()

    async def commit_transaction(self) -> None:
        """Errors: AbortableError: abort it; FatalError; RetriableError: it is not known how it ended, call it again."""
        await self._with_transactions().commit(self.flush)

    async def abort_transaction(self) -> None:
        await self._with_transactions().abort(self._settle)

    async def send_offsets(self, offsets: Mapping[TopicPartition, int | Offset], group: "GroupMetadata | str | HasGroup") -> None:
        """What the group is to read next, as part of the transaction.  `group`: a consumer, or its group metadata.  Errors: ClientError."""
        given = {one: offset if isinstance(offset, Offset) else Offset(offset) for one, offset in offsets.items()}
        metadata = GroupMetadata(group) if isinstance(group, str) else group if isinstance(group, GroupMetadata) else group.group_metadata()
        await self._with_transactions().send_offsets(given, metadata)

    def _with_transactions(self) -> Transactor:
        self._started()
        if self._transactor is None:
            raise FatalError(ErrorCode.INVALID_TXN_STATE, "this producer has no transactions: give it a transactional_id")
        return self._transactor

    async def _settle(self) -> None:
        """Before an abort: what has not left is given up, and what has left is waited for."""
        assert self._sender is not None
        detail = "the transaction is aborted"
        while True:
            self._fail_waiting(ClientError(ErrorCode.TRANSACTION_ABORTABLE, detail))
            self._sender.tell(self._accumulator.abandon(ErrorCode.TRANSACTION_ABORTABLE, detail, unsent_only=True))
            if self._accumulator.is_empty:
                return
            await self._next_progress()

    # ------------------------------------------------------------ metrics

    def metrics(self) -> dict[str, float]:
        """Totals since the start, by the names of KIP-714."""
        sender = self._sender
        return {
            "producer.record.send.total": sender.record_count if sender else 0,
            "producer.record.error.total": sender.error_count if sender else 0,
            "producer.record.retry.total": sender.retry_count if sender else 0,
            "producer.request.total": sender.request_count if sender else 0,
            "producer.outgoing.byte.total": sender.byte_count if sender else 0,
            "producer.buffer.total.bytes": self.options.buffer_memory,
            "producer.buffer.available.bytes": self.options.buffer_memory - self._accumulator.buffered_bytes,
            "producer.bufferpool.waiting.bytes": self._waiting_bytes,
        }

    # ------------------------------------------------------------ before the accumulator

    def _check_sendable(self) -> None:
        if self._is_closed:
            raise FatalError(ErrorCode.INVALID_REQUEST, "the producer is closed")
        if self._failure is not None:
            raise self._failure
        if self._transactor is not None:
            self._transactor.transaction.check_sendable()

    def _partition_of(self, topic: str, key: bytes | None, value: bytes | None, size: int, queues: Sequence[PartitionQueue[Token]]) -> int:
        if self._partitioner is not None:
            return self._partitioner(topic, key, value, len(queues))
        if key is not None and not self._ignores_keys:
            return partition_for_key(key, len(queues))
        return self._sticky.partition(topic, size, len(queues), self._load_of(topic, queues))

    def _load_of(self, topic: str, queues: Sequence[PartitionQueue[Token]]) -> Callable[[int], float]:
        leaders = self.cluster.view.leaders

        def load(partition: int) -> float:
            if leaders.get(queues[partition].topic_partition, NO_LEADER) == NO_LEADER:
                return UNAVAILABLE
            return queues[partition].buffered_bytes

        return load

    def _park(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        size: int,
        delivery: Delivery,
    ) -> None:
        """The slow way: wait for the topic or for room, or fail."""
        options = self.options
        if size > options.max_request_size or size + MEMORY_OVERHEAD > options.buffer_memory:
            limit = "max.request.size" if size > options.max_request_size else "buffer.memory"
            allowed = min(options.max_request_size, options.buffer_memory)
            error = ClientError(ErrorCode.MESSAGE_TOO_LARGE, f"a record for {topic} has {size} bytes, {limit} allows {allowed}")
            delivery.written(TopicPartition(topic, -1), -1, None, error)
            return
        waits = size + MEMORY_OVERHEAD
        if self._waiting_bytes + waits > options.buffer_memory:
            raise BufferFull(
                f"buffer.memory={options.buffer_memory} is full, and as much again waits for room: "
                "await a delivery, drain(), or use send_many, which waits by itself"
            )
        until_ms = self._clock.monotonic_ms() + options.max_block_ms
        waiting = Waiting(topic, partition, key, value, headers, size, delivery, until_ms, self._topics.answer_count)
        self._waiting.setdefault(topic, deque()).append(waiting)
        self._waiting_bytes += waits
        self._topics.use(topic)
        if topic not in self._queues:
            self._topics.refresh_soon()
        self._admit_waiting()
        self._set_waiting_timer()

    def _admit_waiting(self) -> None:
        """Into the accumulator with what has a place there now; of each topic in order, or in partitions of their own."""
        if not self._waiting:
            return
        for key in list(self._waiting):
            line = self._waiting.get(key)
            while line:
                if not self._admit(key, line[0]):
                    break
                line.popleft()
            if not line:
                self._waiting.pop(key, None)
        if self._sender is not None:
            self._sender.wake()

    def _admit(self, place: object, one: Waiting) -> bool:
        """Whether it has left the head of its line: it is in the accumulator, in the line of its partition, or has failed."""
        if one.delivery.done():
            self._waiting_bytes -= one.size + MEMORY_OVERHEAD
            return True
        error = self._error_of(one.topic)
        if error is not None and self._topics.answer_count > one.asked:
            self._waiting_bytes -= one.size + MEMORY_OVERHEAD
            one.delivery.written(TopicPartition(one.topic, -1), -1, None, error)
            return True
        queues = self._queues.get(one.topic)
        if queues is None:
            return False
        index = one.partition
        if index is None:
            index = self._partition_of(one.topic, one.key, one.value, one.size, queues)
        if not 0 <= index < len(queues):
            self._waiting_bytes -= one.size + MEMORY_OVERHEAD
            detail = f"topic {one.topic} has no partition {index}: there are {len(queues)}"
            one.delivery.written(TopicPartition(one.topic, index), -1, None, ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail))
            return True
        queue = queues[index]
        line = self._waiting.get(queue.topic_partition) if place is not queue.topic_partition else None
        if not line and self._accumulator.has_room(queue, one.size + MEMORY_OVERHEAD):
            self._waiting_bytes -= one.size + MEMORY_OVERHEAD
            self._accumulator.append(
                queue, one.key, one.value, one.delivery.timestamp, one.headers, one.size, one.delivery, self._clock.monotonic_ms()
            )
            return True
        if place is queue.topic_partition or place == queue.topic_partition:
            return False
        if one.partition is None and (one.key is None or self._ignores_keys) and self._partitioner is None:
            self._sticky.leave(one.topic, len(queues), self._load_of(one.topic, queues))
        self._waiting.setdefault(queue.topic_partition, deque()).append(one._replace(partition=index))
        return True

    def _error_of(self, topic: str) -> KafkaError | None:
        """Why nothing can be written to a topic, and will not by waiting."""
        code = self.cluster.view.error_of(topic)
        if code is None or code is ErrorCode.NONE or code.retriable:
            return None
        return error_of(code, f"topic {topic}: {code.text}")

    def _set_waiting_timer(self) -> None:
        if self._waiting_timer is None and self._waiting:
            soonest = min(line[0].until_ms for line in self._waiting.values() if line)
            delay_ms = max(1, soonest - self._clock.monotonic_ms())
            self._waiting_timer = self._loop.call_later(delay_ms / 1000, self._expire_waiting)

    def _expire_waiting(self) -> None:
        self._waiting_timer = None
        now_ms = self._clock.monotonic_ms()
        for place, line in list(self._waiting.items()):
            while line and line[0].until_ms <= now_ms:
                one = line.popleft()
                self._waiting_bytes -= one.size + MEMORY_OVERHEAD
                one.delivery.written(TopicPartition(one.topic, -1), -1, None, self._too_long(one, isinstance(place, str)))
            if not line:
                self._waiting.pop(place, None)
        self._set_waiting_timer()
        self._on_progress()

    def _too_long(self, one: Waiting, is_topic_unknown: bool) -> KafkaError:
        within = f"within max.block.ms={self.options.max_block_ms}"
        if not is_topic_unknown:
            return BufferFull(f"there was no room for a record of {one.topic}-{one.partition} {within}")
        return self._why_unknown(one.topic, within)

    def _why_unknown(self, topic: str, within: str) -> KafkaError:
        failure = self._topics.failure
        if isinstance(failure, OSError | Unreachable):
            return ClusterUnreachable(f"the partitions of {topic} could not be learnt {within}: {failure}")
        if isinstance(failure, KafkaError):
            return failure
        if not self._topics.answer_count:
            return ClusterUnreachable(f"the partitions of {topic} could not be learnt {within}: no answer from {self.cluster.bootstrap}")
        code = self.cluster.view.error_of(topic) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error_of(code, f"topic {topic}: {code.text}")

    def _fail_waiting(self, error: KafkaError) -> None:
        lines, self._waiting = self._waiting, {}
        self._waiting_bytes = 0
        for line in lines.values():
            for one in line:
                one.delivery.written(TopicPartition(one.topic, -1), -1, None, error)

    # send_many

    async def _queues_of(self, topic: str) -> list[PartitionQueue[Token]]:
        """Errors: ClientError."""
        self._topics.use(topic)
        asked = self._topics.answer_count
        if topic not in self._queues:
            self._topics.refresh_soon()
        try:
            async with asyncio.timeout(self.options.max_block_ms / 1000):
                while True:
                    error = self._error_of(topic)
                    if error is not None and self._topics.answer_count > asked:
                        raise error
                    queues = self._queues.get(topic)
                    if queues is not None and topic not in self._waiting:
                        return queues
                    if queues is None:
                        self._topics.refresh_soon()
                    await self._next_progress()
        except TimeoutError:
            raise self._why_unknown(topic, f"within max.block.ms={self.options.max_block_ms}") from None

    async def _wait_for_room(self, queue: PartitionQueue[Token], size: int) -> None:
        if self._accumulator.has_room(queue, size) and queue.topic_partition not in self._waiting:
            return
        try:
            async with asyncio.timeout(self.options.max_block_ms / 1000):
                while not self._accumulator.has_room(queue, size) or queue.topic_partition in self._waiting:
                    await self._next_progress()
        except TimeoutError:
            within = f"within max.block.ms={self.options.max_block_ms}"
            raise BufferFull(f"there was no room for {size} bytes of {queue.topic_partition} {within}") from None
        self._check_sendable()

    def _parts(self, topic: str, queues: Sequence[PartitionQueue[Token]], columns: Columns, partition: int | None) -> Iterator[Piece]:
        """(numbers, queue, columns, bytes) of pieces that fit into a batch each."""
        keys = columns.keys
        if partition is not None:
            yield from _pieces(range(len(columns.values)), columns, queues[partition], self.options)
            return
        if self._partitioner is None and (keys is None or self._ignores_keys):
            # A batch at a time to the partition with the least on its way.
            for numbers, _, part, size in _pieces(range(len(columns.values)), columns, queues[0], self.options):
                self._sticky.leave(topic, len(queues), self._load_of(topic, queues))
                index = self._sticky.partition(topic, size, len(queues), self._load_of(topic, queues))
                yield numbers, queues[index], part, size
            return
        chosen: dict[int, list[int]] = {}
        for number, value in enumerate(columns.values):
            key = None if keys is None else keys[number]
            size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
            chosen.setdefault(self._partition_of(topic, key, value, size, queues), []).append(number)
        for index, numbers_of in chosen.items():
            yield from _pieces(numbers_of, columns, queues[index], self.options)

    def _serialized_columns(self, topic: str, keys: Sequence[Any] | None, values: Sequence[Any]) -> tuple[list[Any] | None, list[Any]]:
        options = self.options
        if options.interceptors:
            raise OptionError("send_many passes interceptors by: use send with them")
        encoded = [_serialized("value", value, options.value_serializer) for value in values]
        return None if keys is None else [_serialized("key", key, options.key_serializer) for key in keys], encoded

    # ------------------------------------------------------------ what happens

    def _on_metadata(self) -> None:
        view = self.cluster.view
        for topic in self._topics.used:
            count = len(view.partitions_of(topic)) if view.error_of(topic) is ErrorCode.NONE else 0
            queues = self._queues.get(topic, [])
            if count > len(queues):
                self._queues[topic] = [self._accumulator.queue_of(TopicPartition(topic, index)) for index in range(count)]
        self._on_progress()
        self._admit_waiting()
        if any(isinstance(place, str) and place not in self._queues for place in self._waiting):
            self._topics.refresh_soon()
        if self._sender is not None:
            self._sender.wake()

    def _on_progress(self) -> None:
        self._admit_waiting()
        if self._progress is not None:
            self._progress.set()

    async def _next_progress(self) -> None:
        assert self._progress is not None
        self._progress.clear()
        await self._progress.wait()

    async def _identify(self) -> None:
        """A producer id for idempotence; any broker gives one.  What cannot be had for good ends the producer."""
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=self.options.transaction_timeout_ms,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
        )
        while True:
            try:
                response = await self.cluster.send(request)
            except (OSError, Unreachable) as error:
                LOG.info("no producer id yet: %s", error)
            except KafkaError as error:
                self._fail(error_of(error.code, error.detail))
                return
            else:
                code = ErrorCode.of(response.error_code)
                if code is ErrorCode.NONE:
                    self._accumulator.identify(response.producer_id, response.producer_epoch)
                    return
                if not code.retriable:
                    self._fail(error_of(code, f"no producer id: {code.text}"))
                    return
            await asyncio.sleep(self.options.retry_backoff_ms / 1000)

    def _fail(self, error: KafkaError) -> None:
        self._failure = error
        self._fail_waiting(error)
        assert self._sender is not None
        self._sender.tell(self._accumulator.abandon(error.code, error.detail))

    def _tell_interceptors(self, delivery: "asyncio.Future[RecordMetadata]") -> None:
        error = None if delivery.cancelled() else delivery.exception()
        where = None if delivery.cancelled() or error is not None else delivery.result()
        for interceptor in self.options.interceptors:
            on_acknowledgement = getattr(interceptor, "on_acknowledgement", None)
            if on_acknowledgement is not None:
                try:
                    on_acknowledgement(where, error)
                except Exception:
                    LOG.exception("an interceptor failed")


class HasGroup(Protocol):
    """A consumer, to `send_offsets`."""

    def group_metadata(self) -> GroupMetadata: ...


def _accumulating(options: ProducerOptions) -> Accumulating:
    return Accumulating(
        batch_bytes=min(options.batch_size, options.max_request_size),
        linger_ms=options.linger_ms,
        buffer_bytes=options.buffer_memory,
        max_request_bytes=options.max_request_size,
        delivery_timeout_ms=options.delivery_timeout_ms,
        max_attempts=options.retries,
        retry_backoff_ms=options.retry_backoff_ms,
        max_in_flight=options.max_in_flight_requests_per_connection,
        is_idempotent=options.is_idempotent,
        is_transactional=options.transactional_id is not None,
        batch=BatchOptions(codec=options.codec, level=options.compression_level),
    )


def _serialized(what: str, value: Any, serializer: Callable[[Any], bytes | None] | None) -> bytes | None:
    """Errors: TypeError."""
    if serializer is not None:
        value = serializer(value)
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)  # a copy: the caller may change it
    if isinstance(value, str) and serializer is None:
        return value.encode()
    way_out = f"give bytes or str, or a {what}_serializer"
    raise TypeError(f"a record's {what} cannot be {type(value).__name__}: {way_out}")


def _header_list(headers: Headers) -> list[tuple[str, bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, content.encode() if isinstance(content, str) else content) for name, content in pairs]


def _intercepted(
    interceptors: Sequence[Any], topic: str, value: Any, key: Any, headers: Headers, partition: int | None, timestamp_ms: int | None
) -> tuple[str, Any, Any, Headers, int | None, int | None]:
    """Each may return another record; one that raises is told of in the log, and passed by."""
    record = OutgoingRecord(topic, value, key, headers, partition, timestamp_ms)
    for interceptor in interceptors:
        on_send = getattr(interceptor, "on_send", None)
        if on_send is not None:
            try:
                record = on_send(record) or record
            except Exception:
                LOG.exception("an interceptor failed")
    return record


class OutgoingRecord(NamedTuple):
    """What an interceptor's `on_send` gets, and may return another one for."""

    topic: str
    value: Any
    key: Any
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


def _columns(
    keys: Sequence[Any] | None, values: Sequence[Any], headers: Sequence[Headers] | None, timestamps: Sequence[int] | None, now_ms: int
) -> Columns:
    """Errors: TypeError."""
    return Columns(
        None if keys is None else _bytes_column("key", keys),
        _bytes_column("value", values),
        [now_ms] * len(values) if timestamps is None else list(timestamps),
        None if headers is None else [_header_list(one) for one in headers],
    )


def _bytes_column(what: str, column: Sequence[Any]) -> list[bytes | None]:
    if set(map(type, column)) <= {bytes, type(None)}:
        return column if isinstance(column, list) else list(column)
    return [_serialized(what, one, None) for one in column]


def _pieces(numbers: range | list[int], columns: Columns, queue: PartitionQueue[Token], options: ProducerOptions) -> Iterator[Piece]:
    """As many records at a time as a batch takes.  Errors: ClientError for a record that none takes."""
    keys, values, timestamps, headers = columns
    limit = min(options.batch_size, options.max_request_size)
    is_whole = isinstance(numbers, range)
    sizes = [RECORD_OVERHEAD + len(values[number] or b"") for number in numbers]
    if keys is not None:
        sizes = [size + len(keys[number] or b"") for size, number in zip(sizes, numbers, strict=True)]
    if headers is not None:
        sizes = [size + size_of(None, None, headers[number]) for size, number in zip(sizes, numbers, strict=True)]
    start = 0
    while start < len(numbers):
        end, total = start, 0
        while end < len(numbers) and (end == start or total + sizes[end] <= limit):
            total += sizes[end]
            end += 1
        if total > options.max_request_size:
            raise ClientError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"record {numbers[start]} has {total} bytes, max.request.size allows {options.max_request_size}",
            )
        chosen = numbers[start:end]
        if is_whole:
            window = slice(numbers[start], numbers[end - 1] + 1)
            part = Columns(
                None if keys is None else keys[window], values[window], timestamps[window], None if headers is None else headers[window]
            )
        else:
            part = Columns(
                None if keys is None else [keys[number] for number in chosen],
                [values[number] for number in chosen],
                [timestamps[number] for number in chosen],
                None if headers is None else [headers[number] for number in chosen],
            )
        yield chosen, queue, part, total
        start = end
