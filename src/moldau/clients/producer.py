"""● Sends records to the leaders of their partitions, in batches, in order, and says of each where it was written.

    async with Producer(cluster) as producer:
        written = await producer.send("topic", b"value", key=b"key")     # a future: sending has begun
        print((await written).offset)

Guarantee: records of one partition keep the order in which they were sent; each future ends with `Written` or a `KafkaError`.
Without idempotence a batch whose answer was lost may be written twice.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, NamedTuple, Self

from moldau.clients.accumulator import Accumulator, Batching, PendingBatch, size_of
from moldau.clients.cluster import RETRY_AFTER_S, Cluster, Unreachable, retrying
from moldau.clients.partitioner import StickyPartitioner, partition_for_key
from moldau.clock import Clock, SystemClock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord
from moldau.types import TopicPartition

ALL: Final = -1


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """`acks`: -1 all in-sync replicas, 1 the leader, 0 nobody (the offset is then unknown)."""

    acks: int = ALL
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    max_request_bytes: int = 1024 * 1024
    batching: Batching = field(default_factory=Batching)


class Written(NamedTuple):
    """Where a record is.  With acks=0 the offset is -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class _Waiting(NamedTuple):
    future: "asyncio.Future[Written]"
    timestamp: int


_Batch = PendingBatch[_Waiting]


class Producer:
    def __init__(self, cluster: Cluster, options: ProducerOptions = ProducerOptions(), *, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._options = options
        self._clock = clock or SystemClock()
        self._accumulator: Accumulator[_Waiting] = Accumulator(options.batching)
        self._partitioner = StickyPartitioner(options.batching.batch_bytes)
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._flushing = 0
        self._closed = False
        self._sender: asyncio.Task[None] | None = None
        self._sends: set[asyncio.Task[None]] = set()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> "asyncio.Future[Written]":
        """Waits only for metadata of a topic not known yet, and for room when too much is on its way.

        Errors: KafkaError when the topic cannot be used.
        """
        assert not self._closed, "the producer is closed"
        record = NewRecord(self._clock.now_ms() if timestamp_ms is None else timestamp_ms, key, value, headers)
        if self._cluster.view.error_of(topic) is not ErrorCode.NONE:
            await self._wait_for_topic(topic)
        target = TopicPartition(topic, self._partition_of(topic, record) if partition is None else partition)
        if partition is not None and partition not in self._cluster.view.partitions_of(topic):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {target}")
        while not self._accumulator.has_room_for(record):
            self._wake.set()
            self._progress.clear()
            await self._progress.wait()
        future: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self._accumulator.append(target, record, _Waiting(future, record.timestamp), self._clock.monotonic_ms())
        self._start()
        self._wake.set()
        return future

    async def flush(self) -> None:
        """Until every record sent so far has its answer."""
        self._flushing += 1
        try:
            while not self._accumulator.is_empty:
                self._wake.set()
                self._progress.clear()
                await self._progress.wait()
        finally:
            self._flushing -= 1

    async def close(self) -> None:
        await self.flush()
        self._closed = True
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, *self._sends, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            await self.close()
            return
        self._closed = True
        if self._sender is not None:
            for task in (self._sender, *self._sends):
                task.cancel()
            await asyncio.gather(self._sender, *self._sends, return_exceptions=True)

    # ------------------------------------------------------------ before the accumulator

    async def _wait_for_topic(self, topic: str) -> None:
        async def attempt() -> None:
            view = await self._cluster.refresh([topic], allow_auto_topic_creation=True)
            code = view.error_of(topic) or ErrorCode.NONE
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"topic {topic}: {code.text}")

        await retrying(attempt, within_s=self._options.request_timeout_ms / 1000)

    def _partition_of(self, topic: str, record: NewRecord) -> int:
        partitions = self._cluster.view.partitions_of(topic)
        if record.key is not None:
            return partition_for_key(record.key, len(partitions))
        return self._partitioner.partition(topic, size_of(record), len(partitions))

    # ------------------------------------------------------------ behind it

    def _start(self) -> None:
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._run(), name="producer")

    async def _run(self) -> None:
        while True:
            now_ms = self._clock.monotonic_ms()
            for node_id, batches in (await self._take_due(now_ms)).items():
                task = asyncio.get_running_loop().create_task(self._send_to(node_id, batches))
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)
            next_ms = self._accumulator.next_due_in_ms(self._clock.monotonic_ms())
            self._wake.clear()
            try:
                async with asyncio.timeout(None if next_ms is None or self._flushing else max(next_ms, 1) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _take_due(self, now_ms: int) -> dict[int, list[_Batch]]:
        """Batches that leave now, by leader.  Those without a leader go back, or end when their time is up."""
        groups: dict[int, list[_Batch]] = defaultdict(list)
        sizes: dict[int, int] = defaultdict(int)
        for topic_partition in self._accumulator.due(now_ms, flush=self._flushing > 0):
            leader = self._cluster.view.leader_of(topic_partition)
            if leader is None:
                await self._retry_later([self._accumulator.take(topic_partition)], KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
                continue
            batch = self._accumulator.take(topic_partition)
            size = len(batch.encode())
            if groups[leader.node_id] and sizes[leader.node_id] + size > self._options.max_request_bytes:
                self._accumulator.put_back(batch)
                self._wake.set()
                continue
            groups[leader.node_id].append(batch)
            sizes[leader.node_id] += size
        return {node_id: batches for node_id, batches in groups.items() if batches}

    async def _send_to(self, node_id: int, batches: Sequence[_Batch]) -> None:
        try:
            request = self._request_of(batches)
            if self._options.acks == 0:
                await self._cluster.post(request, node_id=node_id)
                for batch in batches:
                    self._succeed(batch, -1, -1)
                return
            response = await self._cluster.send(request, node_id=node_id, extra_s=self._options.request_timeout_ms / 1000)
        except (OSError, Unreachable) as error:
            await self._retry_later(batches, KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error) or type(error).__name__))
            return
        except Exception as error:
            self._fail(batches, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}"))
            return
        answers = {
            TopicPartition(topic.name or self._cluster.view.names.get(topic.topic_id, ""), one.index): one
            for topic in response.responses
            for one in topic.partition_responses
        }
        for batch in batches:
            await self._settle(batch, answers.get(batch.topic_partition))

    def _request_of(self, batches: Sequence[_Batch]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for batch in batches:
            topic, partition = batch.topic_partition
            topics[topic].append(PartitionProduceData(index=partition, records=memoryview(batch.encode())))
        return ProduceRequest(
            acks=self._options.acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=topic, topic_id=self._cluster.view.topic_id_of(topic), partition_data=partitions)
                for topic, partitions in topics.items()
            ],
        )

    async def _settle(self, batch: _Batch, answer: PartitionProduceResponse | None) -> None:
        if answer is None:
            self._fail([batch], KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer leaves {batch.topic_partition} out"))
        elif not answer.error_code:
            self._succeed(batch, answer.base_offset, answer.log_append_time_ms)
        else:
            code = ErrorCode.of(answer.error_code)
            error = KafkaError(code, answer.error_message)
            if code.retriable:
                await self._retry_later([batch], error)
            else:
                self._fail([batch], error)

    async def _retry_later(self, batches: Sequence[_Batch], error: KafkaError) -> None:
        """After a pause, with fresh metadata; or the end, when the time for delivery is over."""
        now_ms = self._clock.monotonic_ms()
        late = [batch for batch in batches if now_ms - batch.created_ms >= self._options.delivery_timeout_ms]
        self._fail(late, error)
        again = [batch for batch in batches if batch not in late]
        if not again:
            return
        await asyncio.sleep(RETRY_AFTER_S * (1 + random.random() / 5))
        with suppress(OSError, Unreachable):  # the next attempt finds out, and the time for delivery is limited
            await self._cluster.refresh(sorted({batch.topic_partition.topic for batch in again}))
        for batch in again:
            self._accumulator.put_back(batch)
        self._wake.set()

    def _succeed(self, batch: _Batch, base_offset: int, log_append_time_ms: int) -> None:
        topic, partition = batch.topic_partition
        self._accumulator.done(batch)
        for index, waiting in enumerate(batch.tokens):
            if not waiting.future.done():
                timestamp = waiting.timestamp if log_append_time_ms < 0 else log_append_time_ms
                waiting.future.set_result(Written(topic, partition, base_offset + index if base_offset >= 0 else -1, timestamp))
        self._progress.set()
        self._wake.set()

    def _fail(self, batches: Sequence[_Batch], error: KafkaError) -> None:
        for batch in batches:
            self._accumulator.done(batch)
            for waiting in batch.tokens:
                if not waiting.future.done():
                    waiting.future.set_exception(error)
                    waiting.future.exception()  # nobody has to look: a caller that only flushes is not told twice
        self._progress.set()
        self._wake.set()
