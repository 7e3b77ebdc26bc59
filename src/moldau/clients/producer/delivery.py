"""● The values that `send` and `send_many` return: a caller may await them or ignore them.

A `Delivery` ends exactly once, with the record's `RecordMetadata` or with a `ClientError`.  A failed delivery that the caller does not
await is no error: the failures of each batch are counted and logged once.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from moldau.errors import KafkaError
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)


class RecordMetadata(NamedTuple):
    """The place of a record.  With acks=0 the offset is -1.  `timestamp`: milliseconds; the broker's where the topic has LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int


OnDelivery = Callable[[RecordMetadata | None, KafkaError | None], None]
"""A function that is called with the metadata or the error, on the loop."""


class Token(Protocol):
    """A waiter for some neighbouring records of a batch."""

    count: int

    def halves(self) -> "tuple[Any, Any]": ...

    def written(self, topic_partition: TopicPartition, base_offset: int, timestamp: int | None, error: KafkaError | None) -> None: ...


class Outcome(NamedTuple):
    """The end of the records of a run.  With acks=0 `base_offset` is -1.  `timestamp`: the broker's, in milliseconds, if it sets one."""

    topic_partition: TopicPartition
    base_offset: int
    timestamp: int | None
    error: KafkaError | None

    def of(self, number: int, timestamp: int) -> RecordMetadata:
        """The place of record `number`.  Errors: that of the run."""
        if self.error is not None:
            raise self.error
        topic, partition = self.topic_partition
        offset = self.base_offset + number if self.base_offset >= 0 else -1
        return RecordMetadata(topic, partition, offset, timestamp if self.timestamp is None else self.timestamp)


class Run:
    """Neighbouring records of a batch that were sent one by one.

    The run ends with the batch.  Only callers that wait for a record or gave a callback cost anything then.
    """

    __slots__ = ("_callbacks", "_loop", "count", "futures", "outcome", "parts")

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int = 1) -> None:
        self.count = count
        self.outcome: Outcome | None = None
        self.futures: dict[int, tuple[int, asyncio.Future[RecordMetadata]]] = {}
        """The futures of records for which somebody waits, by number, each with the record's timestamp."""
        self.parts: tuple[Run, Run] | None = None
        """The halves of a run whose batch was split."""
        self._callbacks: list[tuple[int, int, OnDelivery]] = []
        self._loop = loop

    def call(self, number: int, timestamp: int, on_delivery: OnDelivery) -> None:
        """Call `on_delivery` when record `number` has ended; at once if it has."""
        outcome = self.outcome
        if outcome is None:
            self._callbacks.append((number, timestamp, on_delivery))
        else:
            _call(on_delivery, None if outcome.error is not None else outcome.of(number, timestamp), outcome.error)

    def future(self, number: int, timestamp: int) -> "asyncio.Future[RecordMetadata]":
        """The future of record `number`.  The first caller who waits for the record makes it."""
        found = self.futures.get(number)
        if found is not None:
            return found[1]
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        self.futures[number] = timestamp, future
        if self.outcome is not None:
            _settle(future, self.outcome, number, timestamp)
        return future

    def written(self, topic_partition: TopicPartition, base_offset: int, timestamp: int | None, error: KafkaError | None) -> None:
        outcome = self.outcome = Outcome(topic_partition, base_offset, timestamp, error)
        for number, (sent_at, future) in self.futures.items():
            if not future.done():
                _settle(future, outcome, number, sent_at)
        callbacks, self._callbacks = self._callbacks, []
        for number, sent_at, on_delivery in callbacks:
            _call(on_delivery, None if error is not None else outcome.of(number, sent_at), error)

    def halves(self) -> "tuple[Run, Run]":
        half = self.count // 2
        first, second = Run(self._loop, half), Run(self._loop, self.count - half)
        for number, waiting in self.futures.items():
            if number < half:
                first.futures[number] = waiting
            else:
                second.futures[number - half] = waiting
        for number, sent_at, on_delivery in self._callbacks:
            if number < half:
                first.call(number, sent_at, on_delivery)
            else:
                second.call(number - half, sent_at, on_delivery)
        self.futures, self._callbacks = {}, []
        self.parts = first, second
        return self.parts


def _settle(future: "asyncio.Future[RecordMetadata]", outcome: Outcome, number: int, timestamp: int) -> None:
    if outcome.error is None:
        future.set_result(outcome.of(number, timestamp))
        return
    future.set_exception(outcome.error)
    future.exception()  # no caller has to look at the error


class Delivery:
    """The delivery of one record.

    Await it, or use it as an `asyncio.Future`: with `gather`, `wait`, `wait_for`, callbacks.  It becomes a future only when somebody waits:
    a record for which nobody does costs no more than this object.  `timestamp`: that of the record, in milliseconds.
    """

    __slots__ = ("_number", "_run", "timestamp")

    _asyncio_future_blocking = False
    """asyncio takes for a future what has this attribute; awaiting goes through a real one."""

    # `delivery_of`, and `send` for most records, set these: a constructor would be a call of Python more for each record.
    _run: Run
    _number: int
    timestamp: int

    def __repr__(self) -> str:
        run = self._where()
        if run.outcome is None:
            return "<Delivery pending>"
        return f"<Delivery {run.outcome.error or run.outcome.of(self._number, self.timestamp)!r}>"

    def _where(self) -> Run:
        """The run that has the record now."""
        while (parts := self._run.parts) is not None:
            if self._number < parts[0].count:
                self._run = parts[0]
            else:
                self._number -= parts[0].count
                self._run = parts[1]
        return self._run

    def _future(self) -> "asyncio.Future[RecordMetadata]":
        return self._where().future(self._number, self.timestamp)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        run = self._where()
        if run.outcome is not None and self._number not in run.futures:
            return run.outcome.of(self._number, self.timestamp)
        return (yield from self._future())

    __iter__ = __await__

    def done(self) -> bool:
        run = self._where()
        found = run.futures.get(self._number)
        return run.outcome is not None if found is None else found[1].done()

    def cancelled(self) -> bool:
        found = self._where().futures.get(self._number)
        return found is not None and found[1].cancelled()

    def cancel(self, msg: Any = None) -> bool:
        """Give the delivery up.  A record that is in a batch already is sent nevertheless."""
        return not self.done() and self._future().cancel(msg)

    def result(self) -> RecordMetadata:
        """The place of the record.  Errors: ClientError; CancelledError; InvalidStateError while the delivery has not ended."""
        return self._future().result()

    def exception(self) -> BaseException | None:
        """The error with which the delivery ended; None for a record that was written.  Errors: CancelledError, InvalidStateError."""
        return self._future().exception()

    def add_done_callback(self, function: "Callable[[Delivery], object]", *, context: Any = None) -> None:
        """Call `function` with this delivery.  The loop calls it soon after the delivery has ended."""
        self._future().add_done_callback(_Told(function, self), context=context)

    def remove_done_callback(self, function: "Callable[[Delivery], object]") -> int:
        return self._future().remove_done_callback(_Told(function, self))

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._future().get_loop()

    @property
    def _cancel_message(self) -> Any:
        """`asyncio.gather` asks a cancelled future for this and for the error below; without them its caller waits for ever."""
        future: Any = self._future()
        return future._cancel_message

    def _make_cancelled_error(self) -> asyncio.CancelledError:
        future: Any = self._future()
        error: asyncio.CancelledError = future._make_cancelled_error()
        return error


def delivery_of(run: Run, number: int, timestamp: int) -> Delivery:
    """The delivery of record `number` of a run."""
    delivery = Delivery()
    delivery._run = run
    delivery._number = number
    delivery.timestamp = timestamp
    return delivery


@dataclass(frozen=True, slots=True)
class _Told:
    """A callback of a delivery's future that is given the delivery: `asyncio.as_completed` looks for the object that it was given."""

    function: Callable[[Delivery], object]
    delivery: Delivery

    def __call__(self, _: object) -> None:
        self.function(self.delivery)


def _call(on_delivery: OnDelivery, where: RecordMetadata | None, error: KafkaError | None) -> None:
    try:
        on_delivery(where, error)
    except Exception:
        LOG.exception("a delivery callback failed")


class Written(NamedTuple):
    """Records of a `send_many` that stand side by side in a partition, by their numbers.  With acks=0 `base_offset` is -1."""

    numbers: range | list[int]
    topic: str
    partition: int
    base_offset: int


class Failed(NamedTuple):
    """Records of a `send_many` that were not acknowledged, by their numbers."""

    numbers: range | list[int]
    error: KafkaError


class Deliveries:
    """The deliveries of one `send_many`.  Await it for the result."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.written: list[Written] = []
        self.failed: list[Failed] = []
        self.record_count = 0
        self._open = 0
        self._is_complete = False
        self._done: asyncio.Future[None] = loop.create_future()

    def __await__(self) -> Generator[Any, None, "Deliveries"]:
        """Wait for all parts.  Errors: the first ClientError of all that failed; `failed` has every one."""
        return self._all().__await__()

    async def _all(self) -> "Deliveries":
        await self.wait()
        if self.failed:
            raise self.failed[0].error
        return self

    def part(self, numbers: range | list[int]) -> "DeliveryPart":
        self._open += 1
        self.record_count += len(numbers)
        return DeliveryPart(self, numbers)

    def split(self, part: "DeliveryPart") -> "tuple[DeliveryPart, DeliveryPart]":
        self._open += 1
        half = part.count // 2
        return DeliveryPart(self, part.numbers[:half]), DeliveryPart(self, part.numbers[half:])

    def complete(self) -> None:
        """Note that all parts are made."""
        self._is_complete = True
        self._maybe_finish()

    def ended(
        self, part: "DeliveryPart", topic_partition: TopicPartition, base_offset: int, timestamp: int | None, error: KafkaError | None
    ) -> None:
        self._open -= 1
        if error is not None:
            self.failed.append(Failed(part.numbers, error))
        else:
            self.written.append(Written(part.numbers, topic_partition.topic, topic_partition.partition, base_offset))
        self._maybe_finish()

    def _maybe_finish(self) -> None:
        if self._is_complete and not self._open and not self._done.done():
            self._done.set_result(None)

    async def wait(self) -> "Deliveries":
        """Wait until all parts have ended, with success or failure."""
        await asyncio.shield(self._done)
        return self


class DeliveryPart:
    """The records of a `send_many` that share a batch."""

    __slots__ = ("_whole", "count", "numbers")

    def __init__(self, whole: Deliveries, numbers: range | list[int]) -> None:
        self._whole = whole
        self.numbers = numbers
        self.count = len(numbers)

    def written(self, topic_partition: TopicPartition, base_offset: int, timestamp: int | None, error: KafkaError | None) -> None:
        self._whole.ended(self, topic_partition, base_offset, timestamp, error)

    def halves(self) -> "tuple[DeliveryPart, DeliveryPart]":
        return self._whole.split(self)
