"""● The blocking producer.  Records pass through a queue to the loop, so that a record costs its thread next to nothing."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from moldau.clients.group_metadata import GroupMetadata
from moldau.clients.producer.producer import Producer as AsyncProducer
from moldau.clients.unpicklable import Unpicklable
from moldau.sync.portal import the_portal

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from moldau.clients.connecting import Given
    from moldau.clients.producer import Deliveries, Delivery, RecordMetadata
    from moldau.clients.producer.transactor import Offset
    from moldau.sync.consumer import Consumer
    from moldau.types import TopicPartition

MAX_PENDING: Final = 10_000
"""The number of records by which threads may be ahead of the loop."""


class Producer(Unpicklable):
    """`moldau.Producer`, blocking.  Several threads may send at once: each thread's records keep their order in a partition."""

    def __init__(self, servers: str | Sequence[str] | None = None, options: "Given | None" = None, **given: Any) -> None:
        from moldau.sync.forgotten import Closing

        self._portal = the_portal()
        self._producer = AsyncProducer(servers, options, **given)
        self._pending: deque[tuple[Future[RecordMetadata], Context, str, Any, dict[str, Any]]] = deque()
        """Each record with the context of its thread: interceptors and serializers may look there, such as for the current span."""
        self._is_pumping = False
        """Whether the pump is about to run.  False while it runs is harmless."""
        self._pump_lock = threading.Lock()
        self._pump_task: asyncio.Task[None] | None = None
        self._drained: asyncio.Event | None = None
        self._has_refused = False
        self._closing = Closing(self, self._portal, partial(_close, self._producer, self._pending))

    def start(self) -> Self:
        """`with` and the first `send` start the producer, too.  With a transactional id, it fences the producer that had the id before."""
        self._portal.run(self._producer.start())
        return self

    def send(self, topic: str, value: Any = None, **given: Any) -> "Future[RecordMetadata]":
        """Send as `moldau.Producer.send`; blocks while there is no room.  Every error comes with the future.

        A delivery callback may send, too.  It does not block: without room its record fails with BufferFull.

        A future that is cancelled before the record is on its way keeps the record from being sent.
        """
        from concurrent.futures import Future

        future: Future[RecordMetadata] = Future()
        self._portal.check_process()
        while len(self._pending) >= MAX_PENDING:
            if self._portal.is_here():
                from moldau.clients.errors import BufferFull

                future.set_exception(BufferFull(f"{MAX_PENDING} records wait already, and a callback cannot wait for room"))
                return future
            self._portal.run(self._wait_for_room())
        with self._pump_lock:
            self._pending.append((future, copy_context(), topic, value, given))
            if not self._is_pumping:
                self._portal.call_soon(self._start_pump)
                # Last, because an interrupt before this line must not leave a flag without a pump: it would start with no later record.
                self._is_pumping = True
        return future

    async def _wait_for_room(self) -> None:
        import asyncio

        self._start_pump()
        self._drained = self._drained or asyncio.Event()
        while len(self._pending) >= MAX_PENDING:
            self._drained.clear()
            await self._drained.wait()

    def _start_pump(self) -> None:
        """Run the pump unless it runs.  Called on the loop."""
        import asyncio

        if self._pump_task is None or self._pump_task.done():
            self._pump_task = asyncio.get_running_loop().create_task(self._pump())

    async def _pump(self) -> None:
        from moldau.clients.errors import BufferFull

        while True:
            with self._pump_lock:
                if not self._pending:
                    self._is_pumping = False
                    return
            future, context, topic, value, given = self._pending[0]
            if future.running() or future.set_running_or_notify_cancel():  # from now on no caller can cancel the future
                try:
                    delivery = context.run(partial(self._producer.send, topic, value, **given))
                except BufferFull:
                    await self._producer.drain()
                    continue
                except Exception as error:
                    future.set_exception(error)
                    if not self._has_refused:
                        self._has_refused = True
                        import logging

                        logging.getLogger(__name__).warning("a record for %s was not sent, and this is said once: %s", topic, error)
                else:
                    delivery.add_done_callback(partial(_pass_on, future))
            self._pending.popleft()
            if self._drained is not None and len(self._pending) <= MAX_PENDING // 2:
                self._drained.set()

    def send_many(self, topic: str, values: Sequence[Any], **given: Any) -> "Deliveries":
        """Blocks until all deliveries have ended.  Errors: that of the first failed delivery."""

        async def work() -> "Deliveries":
            await self._settle()
            return await (await self._producer.send_many(topic, values, **given))

        return self._portal.run(work())

    def flush(self) -> None:
        async def work() -> None:
            await self._settle()
            await self._producer.flush()

        self._portal.run(work())

    async def _settle(self) -> None:
        self._start_pump()
        await _settled(self._pending)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction, and commit it at the end of the block.

        An exception aborts it, and is raised again.  Errors: as of `moldau.Producer.transaction`.
        """
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                self._end_after(error)
            raise

    def _end_after(self, error: BaseException) -> None:
        async def work() -> None:
            from asyncio import CancelledError

            await self._settle()
            # An interrupted commit was cancelled on the loop, and is finished there.
            await self._producer.end_transaction_after(error if isinstance(error, Exception) else CancelledError())

        self._portal.run(work())

    def begin_transaction(self) -> None:
        self._portal.run(self._producer.begin_transaction())

    def commit_transaction(self) -> None:
        self.flush()
        self._portal.run(self._producer.commit_transaction())

    def abort_transaction(self) -> None:
        async def work() -> None:
            await self._settle()
            await self._producer.abort_transaction()

        self._portal.run(work())

    def send_offsets(self, offsets: "Mapping[TopicPartition, int | Offset]", group: "GroupMetadata | str | Consumer") -> None:
        metadata = group if isinstance(group, str | GroupMetadata) else group.group_metadata()
        self._portal.run(self._producer.send_offsets(offsets, metadata))

    def metrics(self) -> dict[str, float]:
        return self._producer.metrics()

    def close(self, *, timeout_ms: int | None = None) -> None:
        self._closing.done()

        async def work() -> None:
            self._start_pump()
            await _close(self._producer, self._pending, timeout_ms)

        self._portal.run(work())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


async def _settled(pending: deque[Any]) -> None:
    """Wait until everything that was sent before has reached the producer."""
    import asyncio

    while pending:  # noqa: ASYNC110  threads append to it, and the pump runs on this loop
        await asyncio.sleep(0)


async def _close(producer: AsyncProducer, pending: deque[Any], timeout_ms: int | None = None) -> None:
    await _settled(pending)
    await producer.close(timeout_ms=timeout_ms)


def _pass_on(waiting: "Future[RecordMetadata]", done: "Delivery") -> None:
    if done.cancelled():
        from concurrent.futures import CancelledError

        waiting.set_exception(CancelledError())
    elif (error := done.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(done.result())
