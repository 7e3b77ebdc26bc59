"""● The producer at work: this module keeps the promises of `Producer`.

send ──▶ outgoing ◇ (bytes) ──▶ placement ◇ (which partition) ──▶ accumulator ◇ (which batch) ──▶ sender ● ──▶ the leader
                                      └── no topic yet, or no room ──▶ waiting ● ──┘
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from operator import index as index_of
from random import Random, SystemRandom
from typing import Any, Final

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.connecting import Given, cluster_of, mapping_of
from moldau.clients.errors import AbortableError, AuthenticationError, BufferFull, ClientError, FatalError, error_of
from moldau.clients.forking import refusal, watch
from moldau.clients.group_metadata import GroupMetadata
from moldau.clients.options import parse_options
from moldau.clients.producer.accumulator import MEMORY_OVERHEAD, Accumulating, Accumulator
from moldau.clients.producer.batch import RECORD_OVERHEAD, size_of
from moldau.clients.producer.delivery import Deliveries, Delivery, OnDelivery, Run, Token, delivery_of
from moldau.clients.producer.ending import Ending
from moldau.clients.producer.lane import Lane
from moldau.clients.producer.off_loop import CompressionThreads, OffLoop
from moldau.clients.producer.options import ProducerOptions
from moldau.clients.producer.outgoing import (
    Headers,
    OutgoingRecord,
    acknowledged,
    checked_timestamp,
    columns_of,
    header_list,
    intercepted,
    records_of,
    runs_of,
    serialized,
)
from moldau.clients.producer.placement import Placement, Queue
from moldau.clients.producer.sender import Sender
from moldau.clients.producer.transactions import State
from moldau.clients.producer.transactor import Offset, Transactor, Untransacted
from moldau.clients.producer.waiting import WaitingRoom
from moldau.clients.producer.watched import WatchedDeliveries
from moldau.clients.topics import Topics
from moldau.clock import Clock, SystemClock
from moldau.errors import ErrorCode, KafkaError
from moldau.net.sasl import Credentials
from moldau.net.transport import Network
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.protocol.records.builder import BatchOptions
from moldau.protocol.records.column_builder import Columns
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)

STOPPED: Final = frozenset({State.ABORTABLE, State.FATAL, State.READY})
"""The states in which no record leaves."""


class ProducerWork:
    """The work of one producer; see `Producer` for the promises of its methods.  Errors: OptionError."""

    def __init__(
        self,
        servers: str | Sequence[str] | Cluster | None,
        options: Given | ProducerOptions | None,
        given: Mapping[str, Any],
        *,
        ssl_context: ssl.SSLContext | None,
        sasl: Credentials | None,
        network: Network | None,
        clock: Clock | None,
        random: Random | None,
        off_loop: OffLoop | None,
    ) -> None:
        if isinstance(options, ProducerOptions):
            self.options = options
        else:
            self.options = parse_options(ProducerOptions, {**mapping_of(options), **given})
        self._has_hooks = bool(
            self.options.interceptors or self.options.key_serializer is not None or self.options.value_serializer is not None
        )
        self._owns_cluster = not isinstance(servers, Cluster)
        self.cluster: Final = (
            servers
            if isinstance(servers, Cluster)
            else cluster_of(servers, self.options, ssl_context=ssl_context, sasl=sasl, network=network)
        )
        self._placement = Placement(self.cluster, self.options, (random or SystemRandom()).random)
        self._clock = clock or SystemClock()
        self._threads = CompressionThreads()
        self._off_loop: OffLoop = off_loop or self._threads
        self._accumulator: Accumulator[Token] = Accumulator(_accumulating(self.options))
        self._progress: asyncio.Event | None = None
        self._sender: Sender | None = None
        self._transactor: Transactor | None = None
        self._ending = Ending()
        self._failure: KafkaError | None = None
        self._is_closed = False
        self._is_of_parent = False
        self._lane: Lane[Run] | None = None
        self._last_topic = ""

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        self._started()
        if self._transactor is not None and self._transactor.transaction.state is State.UNINITIALIZED:
            await self._transactor.initialize()

    def _started(self) -> Sender:
        self._check_open()
        if self._sender is None:
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                raise RuntimeError("moldau.Producer works inside asyncio; for code that blocks there is moldau.sync.Producer") from None
            self.cluster.check_loop()
            watch(self)
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
                permits = self._transactor = Transactor(self.cluster, self.options, self._accumulator, self._wake)
            self._waiting = WaitingRoom(
                self.cluster,
                self.options,
                self._accumulator,
                self._placement,
                self._topics,
                self._clock,
                wake=self._wake,
                on_expired=self._on_progress,
                on_failed=permits.failed,
            )
            self._sender = Sender(
                self.cluster,
                self.options,
                self._accumulator,
                self._topics,
                self._clock,
                permits,
                on_progress=self._on_progress,
                off_loop=self._off_loop,
            )
            if self._transactor is None:
                self._sender.identify = self._identify
            else:
                self._sender.give_up = self._give_up_what_no_transaction_sends
        return self._sender

    def _check_open(self) -> None:
        if self._is_closed:
            raise refusal() if self._is_of_parent else FatalError(ErrorCode.INVALID_REQUEST, "the producer is closed")

    def forked(self) -> None:
        self._is_closed = self._is_of_parent = True
        self._lane = None

    async def close(self, timeout_ms: int | None = None) -> None:
        if self._is_closed:
            return
        if self._sender is not None:
            try:
                async with asyncio.timeout((self.options.delivery_timeout_ms if timeout_ms is None else timeout_ms) / 1000):
                    await self.flush()
                    if self._transactor is not None:
                        await self._ending.wait()
                        if self._transactor.transaction.is_open:
                            await self._ending.run(self.abort())
            except TimeoutError:
                LOG.warning("the producer is closed before all was delivered")
            except asyncio.CancelledError:
                await self.stop()
                raise
        await self.stop()

    async def stop(self) -> None:
        """Stop at once: records that are left fail."""
        self._is_closed = True
        self._ending.cancel()
        self._leave_lane()
        sender = self._sender
        if sender is not None:
            self._waiting.close()
            await self._topics.close()
            await sender.close()
            detail = "the producer was closed before the record was delivered"
            sender.tell(self._accumulator.abandon(ErrorCode.NETWORK_EXCEPTION, detail))
            self._waiting.fail(ClientError(ErrorCode.NETWORK_EXCEPTION, detail))
        self._threads.close()
        if self._owns_cluster:
            self.cluster.close()

    def __del__(self) -> None:
        """Say that records are lost: the loop has ended, and nobody holds the producer any more."""
        sender = getattr(self, "_sender", None)  # None also when the constructor failed
        if sender is not None and not self._is_closed and (not self._accumulator.is_empty or self._waiting.lines):
            LOG.warning("a producer was not closed, and its last records are lost: use `async with`, or await close()")

    # ------------------------------------------------------------ sending

    def send(self, topic: str, value: Any = None, **given: Any) -> Delivery:  # hot: 0.3 µs
        """See `Producer.send`.  `_send` has the keywords: Python looks up the default of each one that is not given."""
        lane = self._lane
        if lane is not None and not given and type(value) is bytes and topic == lane.topic:
            left = lane.left - RECORD_OVERHEAD - len(value)
            if left >= 0:  # as `lane.add` and `delivery_of`, without their calls
                timestamp = self._clock.now_ms()
                lane.left = left
                lane.add_value(value)
                lane.add_timestamp(timestamp)
                run = lane.token
                number = run.count
                run.count = number + 1
                delivery = Delivery()
                delivery._run = run
                delivery._number = number
                delivery.timestamp = timestamp
                return delivery
        return self._send(topic, value, **given)

    def _send(
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
        lane = self._lane
        is_plain = type(value) is bytes and key is None and partition is None and not headers
        if is_plain and lane is not None and topic == lane.topic and lane.left >= RECORD_OVERHEAD + len(value):
            timestamp = self._clock.now_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
            run = lane.token
            number = run.count
            lane.add(value, timestamp)
            if on_delivery is not None:
                run.call(number, timestamp, on_delivery)
            return delivery_of(run, number, timestamp)
        if self.options.interceptors:
            return self._send_intercepted(OutgoingRecord(topic, value, key, headers, partition, timestamp_ms), on_delivery)
        return self._send_slowly(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    send.__wrapped__ = _send  # type: ignore[attr-defined]  # `inspect.signature` and editors show its keywords

    def _send_intercepted(self, record: OutgoingRecord, on_delivery: OnDelivery | None) -> Delivery:
        """Interceptors hear the end of each record that they have seen, one that could not be sent at all among them."""
        interceptors = self.options.interceptors
        record = intercepted(interceptors, record)
        try:
            delivery = self._send_slowly(*record, on_delivery)
        except Exception as error:
            acknowledged(interceptors, None, error, record.headers)
            raise
        delivery.add_done_callback(partial(self._tell_interceptors, record.headers))
        return delivery

    def _send_slowly(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        self._leave_lane()
        may_be_quick = type(value) is bytes and key is None and partition is None and not headers
        sender = self._sender or self._started()
        if self._failure is not None or self._is_closed or self._transactor is not None:
            self._check_sendable()
        options = self.options
        if self._has_hooks:
            key = serialized("key", key, options.key_serializer)
            value = serialized("value", value, options.value_serializer)
        size = RECORD_OVERHEAD
        if value is not None:
            if type(value) is not bytes:
                value = serialized("value", value, None)
            size += len(value)
        if key is not None:
            if type(key) is not bytes:
                key = serialized("key", key, None)
            size += len(key)
        listed = header_list(headers) if headers else ()
        if listed:
            size = size_of(key, value, listed)
        timestamp = self._clock.now_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        if partition is not None:
            partition = index_of(partition)
        placement = self._placement
        queues = placement.queues.get(topic)
        run: Run | None = None
        if queues is not None and not self._waiting.lines:
            index = placement.partition_of(topic, key, value, size, queues) if partition is None else partition
            if 0 <= index < len(queues):
                queue = queues[index]
                run = self._accumulator.join(queue, key, value, timestamp, listed, size)  # type: ignore[assignment]  # only runs are joined
                if run is not None:
                    if may_be_quick:
                        self._enter_lane(topic, queue)
                elif size <= options.max_request_size and self._accumulator.has_room(queue, size + MEMORY_OVERHEAD):
                    run = Run(self._loop)
                    self._accumulator.append(queue, key, value, timestamp, listed, size, run, self._clock.monotonic_ms())
                    sender.wake()
        if run is not None:
            number = run.count - 1
            delivery = delivery_of(run, number, timestamp)
        else:
            run, number = Run(self._loop), 0
            delivery = self._waiting.park(topic, partition, key, value, listed, size, timestamp, run)
        if on_delivery is not None:
            run.call(number, timestamp, on_delivery)
        return delivery

    def _enter_lane(self, topic: str, queue: Queue) -> None:
        """Let records like the last one, which joined a batch, take the short way, if the one before was for the same topic, too."""
        if topic != self._last_topic:
            self._last_topic = topic
        elif not self._has_hooks and self._transactor is None and (room := self._placement.room(topic)) > 0:
            self._lane = self._accumulator.open_lane(queue, room)  # type: ignore[assignment]  # only runs are joined

    def _leave_lane(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            self._accumulator.close_lane()
            self._placement.filled(lane.topic, lane.used)

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        headers: Sequence[Headers] | None,
        partition: int | None,
        timestamps_ms: Sequence[int] | None,
    ) -> Deliveries:
        sender = self._sender or self._started()
        self._check_sendable()
        for name, column in (("keys", keys), ("headers", headers), ("timestamps_ms", timestamps_ms)):
            if column is not None and len(column) != len(values):
                raise ValueError(f"{name} has {len(column)} entries, values has {len(values)}")
        if self.options.interceptors:
            records = records_of(topic, values, keys, headers, partition, timestamps_ms)
            seen = [intercepted(self.options.interceptors, one) for one in records]
            now_ms = self._clock.now_ms()
            return await self._send_many_intercepted(
                [one._replace(timestamp_ms=now_ms) if one.timestamp_ms is None else one for one in seen]
            )
        deliveries = Deliveries(self._loop)
        queues = await self._queues_of(topic, partition)
        if self._has_hooks:
            keys, values = self._serialized_columns(keys, values)
        columns = columns_of(keys, values, headers, timestamps_ms, self._clock.now_ms())
        try:
            for queue, (numbers, part, size) in self._placement.parts_of(topic, queues, columns, partition):
                await self._wait_for_room(queue, size)
                self._accumulator.append_columns(queue, part, size, deliveries.part(numbers), self._clock.monotonic_ms())
                sender.wake()
        finally:
            deliveries.complete()
        return deliveries

    async def _send_many_intercepted(self, records: Sequence[OutgoingRecord]) -> Deliveries:
        """Send records that the interceptors have seen.  Interceptors may have moved some of them to other topics or partitions."""
        deliveries = WatchedDeliveries(self._loop, self.options.interceptors, records)
        try:
            columns = [self._columns_of(records[first:end]) for first, end in runs_of(records)]
            for (first, _), column in zip(runs_of(records), columns, strict=True):
                topic, partition = records[first].topic, records[first].partition
                queues = await self._queues_of(topic, partition)
                for queue, (numbers, part, size) in self._placement.parts_of(topic, queues, column, partition):
                    await self._wait_for_room(queue, size)
                    token = deliveries.part([first + number for number in numbers])
                    self._accumulator.append_columns(queue, part, size, token, self._clock.monotonic_ms())
                    self._started().wake()
        except BaseException as error:
            deliveries.give_up(error)
            raise
        finally:
            deliveries.complete()
        return deliveries

    def _columns_of(self, records: Sequence[OutgoingRecord]) -> Columns:
        """Errors: TypeError; whatever a serializer raises."""
        keys = [one.key for one in records] if any(one.key is not None for one in records) else None
        headers = [one.headers for one in records] if any(one.headers for one in records) else None
        keys, values = self._serialized_columns(keys, [one.value for one in records])
        return columns_of(keys, values, headers, [one.timestamp_ms or 0 for one in records], 0)

    async def drain(self) -> None:
        """Wait until no record waits for room any more.  Batches that may leave do so even when none waits."""
        if self._sender is not None and self._sender.is_scheduled:
            await asyncio.sleep(0)
        while self._waiting.lines:
            await self._next_progress()

    async def flush(self) -> None:
        sender = self._sender
        if sender is None:
            return
        if self._is_of_parent:
            raise refusal()
        sender.flushing += 1
        try:
            while not self._accumulator.is_empty or self._waiting.lines:
                sender.wake()
                if not await self._has_progress_or_failed():
                    break
        finally:
            sender.flushing -= 1

    async def _has_progress_or_failed(self) -> bool:
        """Whether a record has left or failed.  False: the transaction cannot go on, so nothing will leave any more."""
        transactor = self._transactor
        if transactor is not None and transactor.transaction.state in STOPPED:
            self._give_up_what_no_transaction_sends()
            if self._accumulator.is_empty:
                return False
        await self._next_progress()
        return True

    def _give_up_what_no_transaction_sends(self) -> None:
        """Fail records that wait for a transaction that has failed or is over: no caller waits for them until delivery_timeout_ms."""
        assert self._transactor is not None and self._sender is not None
        transaction = self._transactor.transaction
        if transaction.state in STOPPED and not (self._accumulator.is_empty and not self._waiting.lines):
            error = transaction.error or FatalError(ErrorCode.INVALID_TXN_STATE, "no transaction is open")
            self._waiting.fail(error)
            self._sender.tell(self._accumulator.abandon(error.code, error.detail, unsent_only=True), error)

    # ------------------------------------------------------------ transactions

    def _with_transactions(self) -> Transactor:
        self._started()
        if self._transactor is None:
            raise FatalError(ErrorCode.INVALID_TXN_STATE, "this producer has no transactions: give it a transactional_id")
        return self._transactor

    async def begin(self) -> None:
        await self.start()
        transactor = self._with_transactions()
        await self._ending.wait()
        if transactor.transaction.state is State.ABORTING:
            await self.abort()
        elif transactor.transaction.state is State.COMMITTING and self._ending.has_failed:
            try:
                await self.commit()
            except AbortableError:
                await self.abort()
        await transactor.begin()

    async def commit(self) -> None:
        await self._with_transactions().commit(self.flush)

    async def abort(self) -> None:
        await self._with_transactions().abort(self._settle)

    async def end_after(self, error: BaseException) -> None:
        """End the transaction of a block that raised: abort it, or commit it to the end if the commit was cancelled on its way.

        The caller raises the block's own error.  If an abort fails, or such a commit, the next `begin` tries it again.
        """
        transaction = self._with_transactions().transaction
        if transaction.state is State.COMMITTING and isinstance(error, asyncio.CancelledError):
            await self._ending.run(self.commit())
        elif transaction.is_open:
            await self._ending.run(self.abort())
        elif transaction.state is State.FATAL:
            await self._ending.run(self.flush())  # the deliveries of the block end before it

    async def send_offsets(self, offsets: Mapping[TopicPartition, int | Offset], group: GroupMetadata | str) -> None:
        given = {one: offset if isinstance(offset, Offset) else Offset(offset) for one, offset in offsets.items()}
        await self._with_transactions().send_offsets(given, GroupMetadata(group) if isinstance(group, str) else group)

    async def _settle(self) -> None:
        """Prepare an abort: batches that have not left are given up, and those that have are waited for."""
        assert self._sender is not None
        detail = "the transaction is aborted"
        while True:
            self._waiting.fail(ClientError(ErrorCode.TRANSACTION_ABORTABLE, detail))
            self._sender.tell(self._accumulator.abandon(ErrorCode.TRANSACTION_ABORTABLE, detail, unsent_only=True))
            if self._accumulator.is_empty:
                return
            await self._next_progress()

    # ------------------------------------------------------------ metrics

    def metrics(self) -> dict[str, float]:
        sender = self._sender
        return {
            "producer.record.send.total": sender.record_count if sender else 0,
            "producer.record.error.total": sender.error_count if sender else 0,
            "producer.record.retry.total": sender.retry_count if sender else 0,
            "producer.request.total": sender.request_count if sender else 0,
            "producer.outgoing.byte.total": sender.byte_count if sender else 0,
            "producer.buffer.total.bytes": self.options.buffer_memory,
            "producer.buffer.available.bytes": self._accumulator.free_bytes,
            "producer.bufferpool.waiting.bytes": self._waiting.bytes if sender else 0,
        }

    # ------------------------------------------------------------ before the accumulator

    def _check_sendable(self) -> None:
        self._check_open()
        if self._failure is not None:
            raise self._failure
        if self._transactor is not None:
            self._transactor.transaction.check_sendable()

    # send_many

    async def _queues_of(self, topic: str, partition: int | None) -> list[Queue]:
        """The queues of a topic that has this partition.  Errors: ClientError."""
        queues = await self._queues_of_topic(topic)
        if partition is not None and not 0 <= partition < len(queues):
            raise ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} has no partition {partition}: there are {len(queues)}")
        return queues

    async def _queues_of_topic(self, topic: str) -> list[Queue]:
        self._topics.use(topic)
        asked, failed = self._topics.answer_count, self._topics.failure
        if topic not in self._placement.queues:
            self._topics.refresh_soon()
        try:
            async with asyncio.timeout(self.options.max_block_ms / 1000):
                while True:
                    error = self._placement.error_of(topic)
                    if error is not None and self._topics.answer_count > asked:
                        raise error
                    queues = self._placement.queues.get(topic)
                    if queues is not None and topic not in self._waiting.lines:
                        return queues
                    failure = self._topics.failure
                    if failure is not failed and isinstance(failure, AuthenticationError):
                        raise failure
                    if queues is None:
                        self._topics.refresh_soon()
                    await self._next_progress()
        except TimeoutError:
            raise self._waiting.why_unknown(topic, f"within max.block.ms={self.options.max_block_ms}") from None

    async def _wait_for_room(self, queue: Queue, size: int) -> None:
        if self._accumulator.has_room(queue, size) and queue.topic_partition not in self._waiting.lines:
            return
        try:
            async with asyncio.timeout(self.options.max_block_ms / 1000):
                while not self._accumulator.has_room(queue, size) or queue.topic_partition in self._waiting.lines:
                    await self._next_progress()
        except TimeoutError:
            within = f"within max.block.ms={self.options.max_block_ms}"
            raise BufferFull(f"there was no room for {size} bytes of {queue.topic_partition} {within}") from None
        self._check_sendable()

    def _serialized_columns(self, keys: Sequence[Any] | None, values: Sequence[Any]) -> tuple[list[Any] | None, list[Any]]:
        options = self.options
        encoded = [serialized("value", value, options.value_serializer) for value in values]
        return None if keys is None else [serialized("key", key, options.key_serializer) for key in keys], encoded

    # ------------------------------------------------------------ what happens

    def _on_metadata(self) -> None:
        view = self.cluster.view
        for topic in self._topics.used:
            count = len(view.partitions_of(topic)) if view.error_of(topic) is ErrorCode.NONE else 0
            queues = self._placement.queues.get(topic, [])
            if count > len(queues):
                self._placement.queues[topic] = [self._accumulator.queue_of(TopicPartition(topic, index)) for index in range(count)]
        self._on_progress()
        if isinstance(self._topics.failure, AuthenticationError):
            self._waiting.fail(self._topics.failure, of_unknown_topics_only=True)
        self._waiting.admit()
        if any(isinstance(place, str) and place not in self._placement.queues for place in self._waiting.lines):
            self._topics.refresh_soon()
        self._wake()

    def _wake(self) -> None:
        if self._sender is not None:
            self._sender.wake()

    def _on_progress(self) -> None:
        self._waiting.admit()
        if self._progress is not None:
            self._progress.set()

    async def _next_progress(self) -> None:
        assert self._progress is not None
        self._progress.clear()
        await self._progress.wait()

    async def _identify(self) -> None:
        """Get a producer id for idempotence from any broker.  A refusal for good ends the producer."""
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
            except AuthenticationError as error:
                self._give_up(error)
                return
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
        self._leave_lane()
        self._give_up(error)

    def _give_up(self, error: KafkaError) -> None:
        """Fail all records that were sent so far; later ones are tried."""
        self._waiting.fail(error)
        assert self._sender is not None
        self._sender.tell(self._accumulator.abandon(error.code, error.detail))

    def _tell_interceptors(self, headers: Headers, delivery: Delivery) -> None:
        error = None if delivery.cancelled() else delivery.exception()
        where = None if delivery.cancelled() or error is not None else delivery.result()
        acknowledged(self.options.interceptors, where, error, headers)


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
