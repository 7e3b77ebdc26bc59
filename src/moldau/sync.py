"""● The same clients for code without asyncio: blocking, and usable from any thread.

    from moldau.sync import Producer, Consumer

    with Producer("localhost:9092") as producer:
        producer.send("orders", b"value", key=b"key").result()      # waits; without `.result()` it is on its way
    with Consumer("localhost:9092", group_id="billing", topics=["orders"]) as consumer:
        for record in consumer:
            …

All of them share one event loop in a thread of its own.  Options, guarantees and errors are those of `moldau.Producer` and its kin.
Callbacks and rebalance listeners are called on that thread: they must not call a blocking client.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from moldau.clients.consumer import Committed, RebalanceListener
from moldau.clients.consumer import Consumer as AsyncConsumer
from moldau.clients.consumer.consumer import Pattern
from moldau.clients.errors import BufferFull
from moldau.clients.producer import Deliveries, RecordMetadata
from moldau.clients.producer import Producer as AsyncProducer
from moldau.clients.producer.transactor import GroupMetadata, Offset
from moldau.clients.records import ConsumerRecord, Records
from moldau.types import TopicPartition

T = TypeVar("T")

MAX_PENDING: Final = 10_000
"""Records that a thread may be ahead of the loop."""


class _Portal:
    """The loop that all blocking clients share, started by the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="moldau-sync", daemon=True).start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Errors: whatever it raises.  KeyboardInterrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """On the loop's thread, where the clients' state is changed."""

        async def work() -> T:
            return function()

        return self.run(work())


_portal: Final = _Portal()


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """On the loop that all blocking clients share: for what has no blocking form here.  Errors: whatever it raises."""
    return _portal.run(work)


class Producer:
    """`moldau.Producer`, blocking.  Several threads may send at once: each thread's records keep their order in a partition."""

    def __init__(self, servers: str | Sequence[str] | None = None, options: Mapping[str, Any] | None = None, **given: Any) -> None:
        self._producer = AsyncProducer(servers, options, **given)
        self._pending: deque[tuple[Future[RecordMetadata], str, Any, dict[str, Any]]] = deque()
        self._room = threading.BoundedSemaphore(MAX_PENDING)
        self._is_pumping = False
        self._pump_lock = threading.Lock()

    def start(self) -> Self:
        """Done by `with` and by the first `send`; with a transactional id it fences whoever had it before."""
        _portal.run(self._producer.start())
        return self

    def send(self, topic: str, value: Any = None, **given: Any) -> "Future[RecordMetadata]":
        """As `moldau.Producer.send`; blocks while there is no room.  Every error comes with the future."""
        self._room.acquire()
        future: Future[RecordMetadata] = Future()
        with self._pump_lock:
            self._pending.append((future, topic, value, given))
            if not self._is_pumping:
                self._is_pumping = True
                asyncio.run_coroutine_threadsafe(self._pump(), _portal.loop)
        return future

    async def _pump(self) -> None:
        while True:
            with self._pump_lock:
                if not self._pending:
                    self._is_pumping = False
                    return
            future, topic, value, given = self._pending[0]
            try:
                delivery = self._producer.send(topic, value, **given)
            except BufferFull:
                await self._producer.drain()
                continue
            except Exception as error:
                future.set_exception(error)
            else:
                delivery.add_done_callback(lambda done, waiting=future: _pass_on(done, waiting))  # type: ignore[misc]  # one future each
            self._pending.popleft()
            self._room.release()

    def send_many(self, topic: str, values: Sequence[Any], **given: Any) -> Deliveries:
        """Blocks until all have ended.  Errors: the first one's."""

        async def work() -> Deliveries:
            await self._settle()
            return await (await self._producer.send_many(topic, values, **given))

        return _portal.run(work())

    def flush(self) -> None:
        async def work() -> None:
            await self._settle()
            await self._producer.flush()

        _portal.run(work())

    async def _settle(self) -> None:
        """What was sent before this has reached the producer."""
        while self._pending:  # noqa: ASYNC110  threads append to it, and the pump runs on this loop
            await asyncio.sleep(0)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begins one, and commits it; what raises aborts it, and is raised on."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            self.abort_transaction()
            raise

    def begin_transaction(self) -> None:
        _portal.run(self._producer.begin_transaction())

    def commit_transaction(self) -> None:
        self.flush()
        _portal.run(self._producer.commit_transaction())

    def abort_transaction(self) -> None:
        _portal.run(self._producer.abort_transaction())

    def send_offsets(self, offsets: Mapping[TopicPartition, int | Offset], group: "GroupMetadata | str | Consumer") -> None:
        _portal.run(self._producer.send_offsets(offsets, group.group_metadata() if isinstance(group, Consumer) else group))

    def metrics(self) -> dict[str, float]:
        return self._producer.metrics()

    def close(self, *, timeout_ms: int | None = None) -> None:
        async def work() -> None:
            await self._settle()
            await self._producer.close(timeout_ms=timeout_ms)

        _portal.run(work())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _pass_on(done: "asyncio.Future[RecordMetadata]", waiting: "Future[RecordMetadata]") -> None:
    if done.cancelled():
        waiting.cancel()
    elif (error := done.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(done.result())


class Consumer:
    """`moldau.Consumer`, blocking.  One thread at a time may use it."""

    def __init__(
        self,
        servers: str | Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        topics: Sequence[str] | str | None = None,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
        **given: Any,
    ) -> None:
        self._consumer = AsyncConsumer(servers, options, topics=topics, pattern=pattern, listener=listener, **given)

    def subscribe(
        self, topics: Sequence[str] | str | None = None, *, pattern: Pattern | None = None, listener: RebalanceListener | None = None
    ) -> None:
        _portal.call(lambda: self._consumer.subscribe(topics, pattern=pattern, listener=listener))

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        _portal.run(self._consumer.assign(partitions))

    def unsubscribe(self) -> None:
        _portal.run(self._consumer.unsubscribe())

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._consumer.assignment

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return _portal.call(lambda: self._consumer.positions)

    def poll(self, timeout_s: float = 1.0, *, max_records: int | None = None) -> list[Records]:
        return _portal.run(self._consumer.poll(timeout_s, max_records=max_records))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Until the consumer is closed.  A record counts as done when the next one is asked for."""
        records = aiter(self._consumer)
        while True:
            try:
                record = _portal.run(_next(records))
            except StopAsyncIteration:
                return
            yield record

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        _portal.call(lambda: self._consumer.pause(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        _portal.call(lambda: self._consumer.resume(partitions))

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        _portal.call(lambda: self._consumer.seek(topic_partition, offset))

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        _portal.call(lambda: self._consumer.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        _portal.call(lambda: self._consumer.seek_to_end(partitions))

    def seek_to_time(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        _portal.call(lambda: self._consumer.seek_to_time(timestamp_ms, partitions))

    def position(self, topic_partition: TopicPartition, *, timeout_s: float | None = None) -> int:
        return _portal.run(self._consumer.position(topic_partition, timeout_s=timeout_s))

    def lag(self, topic_partition: TopicPartition) -> int | None:
        return _portal.call(lambda: self._consumer.lag(topic_partition))

    def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        _portal.run(self._consumer.commit(offsets))

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        return _portal.run(self._consumer.committed(partitions))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return _portal.run(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return _portal.run(self._consumer.end_offsets(partitions))

    def offsets_for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return _portal.run(self._consumer.offsets_for_times(timestamps_ms))

    def partitions_for(self, topic: str) -> list[int]:
        return _portal.run(self._consumer.partitions_for(topic))

    def group_metadata(self) -> GroupMetadata:
        metadata: GroupMetadata = _portal.call(self._consumer.group_metadata)
        return metadata

    def metrics(self) -> dict[str, float]:
        return _portal.call(self._consumer.metrics)

    def close(self) -> None:
        _portal.run(self._consumer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


async def _next(records: Any) -> ConsumerRecord:
    record: ConsumerRecord = await anext(records)
    return record
