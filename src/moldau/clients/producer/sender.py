"""● Sends the accumulator's batches to the leaders of their partitions, and brings the answers back.

A turn takes the batches that may leave, writes their requests, and ends.  The next record, answer, metadata or due time begins the next
one.  No turn waits for one partition while another could be served.  An answer is told in the turn in which it is read.  Called by
`producer`.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol

from moldau.clients.cluster import STALE_METADATA, Cluster, Unreachable
from moldau.clients.errors import DeliveryTimedOut, error_of
from moldau.clients.producer.accumulator import Accumulator, Ended
from moldau.clients.producer.batch import PendingBatch
from moldau.clients.producer.delivery import Token
from moldau.clients.producer.off_loop import OffLoop
from moldau.clients.producer.options import ProducerOptions
from moldau.clients.topics import Topics
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.protocol.wire import Response
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)

Batch = PendingBatch[Token]
NEVER_LARGE: Final = 1 << 62
TRANSACTION_V1_PRODUCE: Final = 11
"""The newest version of Produce that does not add partitions to a transaction by itself (KIP-890)."""


class Permits(Protocol):
    """The producer's permission to send to partitions; see `transactor`."""

    def may_write(self, topic_partition: TopicPartition) -> bool: ...

    @property
    def max_produce_version(self) -> int | None: ...

    def departed(self, batches: Sequence[Batch]) -> None: ...

    def failed(self, error: KafkaError) -> KafkaError: ...


class Sender:
    """Sends batches; see the module.  `identify`: gets a producer id, and is called when the accumulator needs one."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        accumulator: Accumulator[Token],
        topics: Topics,
        clock: Clock,
        permits: Permits,
        on_progress: Callable[[], None],
        off_loop: OffLoop,
    ) -> None:
        self.flushing = 0
        self.record_count = self.error_count = self.request_count = self.byte_count = self.retry_count = 0
        self.identify: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.give_up: Callable[[], None] | None = None
        """Called at the beginning of a turn: gives up records that a failed transaction will not send."""
        self._cluster = cluster
        self._options = options
        self._accumulator = accumulator
        self._topics = topics
        self._clock = clock
        self._permits = permits
        self._on_progress = on_progress
        self._off_loop = off_loop
        self._large_bytes = off_loop.large_bytes.get(options.codec, NEVER_LARGE)
        self._leaving: dict[int, asyncio.Event] = {}
        """By node: set when the newest request that a task is to send to it has left, or has failed."""
        self._loop = asyncio.get_running_loop()
        self._in_flight: dict[int, int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()
        self._identifying: asyncio.Task[None] | None = None
        self.is_scheduled = False
        """Whether a turn begins soon."""
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ turns

    def wake(self) -> None:
        """Begin a turn soon."""
        if not self.is_scheduled and not self._is_closed:
            self.is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.is_scheduled = False
        if self._is_closed:
            return
        accumulator, now_ms = self._accumulator, self._clock.monotonic_ms()
        if self.give_up is not None:
            self.give_up()
        if accumulator.needs_identity and not accumulator.is_empty:
            self._start_identifying()
        self.tell(accumulator.expire(now_ms))
        while True:
            requests, leaderless = accumulator.take(
                now_ms, self._leader_of, self._may_send_to, self._permits.may_write, flush=self.flushing > 0
            )
            for topic_partition in leaderless:
                self._topics.use(topic_partition.topic)
                self._topics.refresh_soon()
            if not requests:
                break
            for node_id, batches in requests.items():
                self._depart(node_id, batches)
        self._set_timer(now_ms)

    def _set_timer(self, now_ms: int) -> None:
        """Begin a turn when the accumulator asks for it.  A timer that comes too early stays: to set it for each record costs more."""
        due_ms = self._accumulator.next_event_ms(now_ms)
        if due_ms is None:
            return
        due = self._loop.time() + max(due_ms, 1) / 1000
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()

    def _leader_of(self, topic_partition: TopicPartition) -> int | None:
        leader = self._cluster.view.leader_of(topic_partition)
        return None if leader is None else leader.node_id

    def _may_send_to(self, node_id: int) -> bool:
        return self._in_flight[node_id] < self._options.max_in_flight_requests_per_connection

    def _start_identifying(self) -> None:
        if self._identifying is None and self.identify is not None:
            self._identifying = self._loop.create_task(self.identify(), name="producer id")
            self._identifying.add_done_callback(self._identified)

    def _identified(self, task: "asyncio.Task[None]") -> None:
        self._identifying = None
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("no broker gave a producer id", exc_info=error)
        self.wake()

    # ------------------------------------------------------------ requests

    def _depart(self, node_id: int, batches: Sequence[Batch]) -> None:
        """Send a request in this turn if it may leave; else a task sends it behind those to its node that wait to leave."""
        self._permits.departed(batches)
        self._in_flight[node_id] += 1
        is_large = sum(batch.size for batch in batches if batch.data is None) > self._large_bytes
        before = self._leaving.get(node_id)
        channel = None if is_large or before is not None else self._cluster.open_channel_to(node_id)
        if channel is not None:
            self._send(channel, node_id, batches)
            return
        mine = self._leaving[node_id] = asyncio.Event()
        task = self._loop.create_task(self._send_later(node_id, batches, before, mine, is_large=is_large))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_later(
        self, node_id: int, batches: Sequence[Batch], before: asyncio.Event | None, mine: asyncio.Event, *, is_large: bool
    ) -> None:
        """Send a request once it is compressed, the one before it has left, and the connection is open."""
        try:
            if is_large:
                await self._compress(batches)
            if before is not None:
                await before.wait()
            self._send(await self._cluster.channel_to(node_id), node_id, batches)
        except Exception as error:
            self._answered(node_id, batches, error)
        finally:
            mine.set()
            if self._leaving.get(node_id) is mine:
                del self._leaving[node_id]

    async def _compress(self, batches: Sequence[Batch]) -> None:
        """Compress off the loop."""
        sealings = [batch.sealing() for batch in batches if batch.data is None]
        sealed = await self._off_loop.run(lambda: [seal() for seal in sealings])
        for batch, data in zip((batch for batch in batches if batch.data is None), sealed, strict=True):
            batch.data = data

    def _send(self, channel: Channel, node_id: int, batches: Sequence[Batch]) -> None:
        told = partial(self._answered, node_id, batches)
        try:
            request = self._request_of(batches)
            self.request_count += 1
            if request.acks == 0:
                channel.post(request)
                self._loop.call_soon(told, None)
            else:
                self._cluster.ask(
                    channel, request, told, extra_s=self._options.request_timeout_ms / 1000, max_version=self._permits.max_produce_version
                )
        except Exception as error:
            self._loop.call_soon(told, error)

    def _request_of(self, batches: Sequence[Batch]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for batch in batches:
            topic, partition = batch.topic_partition
            data = batch.encode()
            self.byte_count += len(data)
            # A repeated batch is copied: the first attempt's bytes may still wait for their socket, and a stamp is written over them.
            topics[topic].append(PartitionProduceData(index=partition, records=memoryview(data if batch.attempts == 1 else bytes(data))))
        return ProduceRequest(
            transactional_id=self._options.transactional_id,
            acks=self._options.acks_number,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=topic, topic_id=self._cluster.view.topic_id_of(topic), partition_data=partitions)
                for topic, partitions in topics.items()
            ],
        )

    # ------------------------------------------------------------ answers

    def _answered(self, node_id: int, batches: Sequence[Batch], answer: Response | Exception | None) -> None:
        """End a request.  `answer` None: the broker gives none."""
        self._in_flight[node_id] -= 1
        if self._is_closed:
            return
        if answer is None:
            for batch in batches:
                self._settle(batch, PartitionProduceResponse(index=0, base_offset=-1))
        elif isinstance(answer, Exception):
            self._refuse_all(batches, answer)
        else:
            found = self._found_in(answer)
            for batch in batches:
                self._settle(batch, found.get(batch.topic_partition))
        self._on_progress()
        if not self._accumulator.is_empty or self.give_up is not None:
            self.wake()

    def _found_in(self, answer: Response) -> dict[TopicPartition, PartitionProduceResponse]:
        assert isinstance(answer, ProduceResponse)
        names = self._cluster.view.names
        return {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), one.index): one
            for topic in answer.responses
            for one in topic.partition_responses
        }

    def _settle(self, batch: Batch, answer: PartitionProduceResponse | None) -> None:
        if answer is None:
            detail = f"the broker's answer leaves {batch.topic_partition} out"
            self._refuse(batch, ErrorCode.UNKNOWN_SERVER_ERROR, detail)
            return
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            if self._accumulator.succeeded(batch):
                timestamp = answer.log_append_time_ms if answer.log_append_time_ms >= 0 else None
                offset = answer.base_offset if code is ErrorCode.NONE else -1
                self.record_count += batch.count
                _tell(batch, offset, timestamp, None)
            return
        if code in STALE_METADATA:
            self._topics.refresh_soon()
        self._refuse(batch, code, answer.error_message or code.text)

    def _refuse_all(self, batches: Sequence[Batch], error: Exception) -> None:
        if isinstance(error, OSError | Unreachable):
            code, detail = ErrorCode.NETWORK_EXCEPTION, str(error) or type(error).__name__
            self._topics.refresh_soon()
        elif isinstance(error, KafkaError):
            code, detail = error.code, error.detail
        else:
            LOG.error("a request could not be made", exc_info=error)
            code, detail = ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}"
        for batch in batches:
            self._refuse(batch, code, detail)

    def _refuse(self, batch: Batch, code: ErrorCode, detail: str) -> None:
        ended = self._accumulator.refused(batch, code, f"{batch.topic_partition}: {detail}", self._clock.monotonic_ms())
        if not ended:
            self.retry_count += 1
        self.tell(ended)

    def tell(self, ended: Sequence[Ended[Token]], why: KafkaError | None = None) -> None:
        """Tell the tokens of these batches that they are given up; `why` None: for the reason of each."""
        for batch, code, detail in ended:
            error = why or (DeliveryTimedOut(detail) if code is ErrorCode.REQUEST_TIMED_OUT else error_of(code, detail))
            self._permits.failed(error)
            self.error_count += batch.count
            LOG.warning("%d records for %s were not delivered: %s", batch.count, batch.topic_partition, error)
            _tell(batch, -1, None, error)
        if ended:
            self._on_progress()

    async def close(self) -> None:
        """Close at once; the producer tells the batches that have not ended."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._tasks, *([self._identifying] if self._identifying is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _tell(batch: Batch, base_offset: int, timestamp: int | None, error: KafkaError | None) -> None:
    topic_partition = batch.topic_partition
    position = 0
    for token in batch.tokens:
        token.written(topic_partition, base_offset + position if base_offset >= 0 else -1, timestamp, error)
        position += token.count
    batch.tokens = []
