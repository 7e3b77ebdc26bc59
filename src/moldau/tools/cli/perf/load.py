"""● Sends records at a rate, or as fast as they go, and measures how long each took.

Below a rate of `SINGLY_BELOW`, records are sent one by one.  Above it they are sent in lists, as a Python program sends many records: all
records of a list then have the age of the list.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from moldau.clients.errors import BufferFull
from moldau.clients.producer import Deliveries, Producer, RecordMetadata
from moldau.errors import KafkaError
from moldau.tools.cli.perf.figures import SendFigures

SINGLY_BELOW: Final = 5_000
LIST_BYTES: Final = 100_000
LIST_RECORDS: Final = 1_000
UNTHROTTLED: Final = -1


class Transactions(Protocol):
    """The work of a load between records of a transactional producer."""

    async def before(self) -> None: ...

    async def after(self) -> None: ...


class Load:
    """Sends `throughput` records a second; `UNTHROTTLED`: as many as go.  `on_acknowledged` is called with (records, bytes, ms)."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        payloads: Iterator[bytes],
        count: int,
        throughput: float,
        on_acknowledged: Callable[[int, int, int], None],
        on_failed: Callable[[KafkaError], None],
        transactions: Transactions | None = None,
    ) -> None:
        self.sent = 0
        self._producer = producer
        self._topic = topic
        self._payloads = payloads
        self._count = count
        self._throughput = throughput
        self._on_acknowledged = on_acknowledged
        self._on_failed = on_failed
        self._transactions = transactions
        self._loop = asyncio.get_running_loop()
        self._lists: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run until all records are delivered or have failed.  Errors: the KafkaError that keeps anything from being sent."""
        begun = self._loop.time()
        is_single = 0 <= self._throughput < SINGLY_BELOW
        while self.sent < self._count:
            if self._throughput > 0:
                ahead_s = self.sent / self._throughput - (self._loop.time() - begun)
                if ahead_s > 0:
                    await asyncio.sleep(ahead_s)
            elif self._throughput == 0:
                await asyncio.Event().wait()  # Kafka's tool sends nothing then, either
            if self._transactions is not None:
                await self._transactions.before()
            await (self._send_one() if is_single else self._send_list())
            if self._transactions is not None:
                await self._transactions.after()
        await self._producer.flush()
        await asyncio.gather(*self._lists)

    async def _send_one(self) -> None:
        payload = next(self._payloads)
        begun = self._loop.time()

        def told(where: RecordMetadata | None, error: KafkaError | None) -> None:
            if error is not None:
                self._on_failed(error)
            else:
                self._on_acknowledged(1, len(payload), self._since_ms(begun))

        while True:
            try:
                self._producer.send(self._topic, payload, on_delivery=told)
                break
            except BufferFull:
                await self._producer.drain()
        self.sent += 1

    async def _send_list(self) -> None:
        values: list[bytes] = []
        size = 0
        while len(values) < min(LIST_RECORDS, self._count - self.sent) and size < LIST_BYTES:
            values.append(next(self._payloads))
            size += len(values[-1])
        begun = self._loop.time()
        deliveries = await self._producer.send_many(self._topic, values)
        task = self._loop.create_task(self._await_list(deliveries, size, begun))
        self._lists.add(task)
        task.add_done_callback(self._lists.discard)
        self.sent += len(values)

    async def _await_list(self, deliveries: Deliveries, size: int, begun: float) -> None:
        await deliveries.wait()
        failed = sum(len(one.numbers) for one in deliveries.failed)
        for one in deliveries.failed:
            self._on_failed(one.error)
        arrived = deliveries.record_count - failed
        if arrived:
            self._on_acknowledged(arrived, size * arrived // deliveries.record_count, self._since_ms(begun))

    def _since_ms(self, begun: float) -> int:
        return int((self._loop.time() - begun) * 1000)


class Reporting:
    """Counts records and prints Kafka's line each interval.  Records after the warm-up are also counted apart, as `steady`."""

    def __init__(self, record_count: int, *, warmup: int, interval_ms: int, say: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.whole = SendFigures(record_count, self._now_ms())
        self.steady: SendFigures | None = None
        self._record_count = record_count
        self._warmup = warmup
        self._interval_ms = interval_ms
        self._printed_ms = self._now_ms()
        self._say = say
        self._is_steady_told = False

    def acknowledged(self, records: int, size: int, latency_ms: int) -> None:
        now_ms = self._now_ms()
        if self.steady is None and self._warmup and self.whole.count >= self._warmup:
            self.steady = SendFigures(self._record_count - self._warmup, now_ms)
        self.whole.acknowledged(records, size, latency_ms)
        if self.steady is not None:
            self.steady.acknowledged(records, size, latency_ms)
        if now_ms - self._printed_ms >= self._interval_ms:
            self._printed_ms = now_ms
            if self.steady is not None and not self._is_steady_told:
                self._is_steady_told = True
                self._say("In steady state.")
            self._say((self.steady or self.whole).window(now_ms))

    def totals(self) -> list[str]:
        now_ms = self._now_ms()
        lines = [self.whole.total(now_ms)]
        if self.steady is not None:
            lines.append(self.steady.total(now_ms, is_steady=True))
        return lines

    def _now_ms(self) -> float:
        return self._loop.time() * 1000
