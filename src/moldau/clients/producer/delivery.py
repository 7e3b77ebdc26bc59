"""● The values that `send` and `send_many` return: a caller may await them or ignore them.

A `Delivery` ends exactly once, with the record's `RecordMetadata` or with a `ClientError`.  A failed delivery that the caller does not
await is no error: the failures of each batch are counted and logged once.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
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


class Delivery(asyncio.Future[RecordMetadata]):
    """The delivery of one record."""

    count = 1

    def __init__(self, loop: asyncio.AbstractEventLoop, timestamp: int, on_delivery: OnDelivery | None = None) -> None:
        super().__init__(loop=loop)
        self.timestamp = timestamp
        self.on_delivery = on_delivery

    def written(self, topic_partition: TopicPartition, base_offset: int, timestamp: int | None, error: KafkaError | None) -> None:
        if error is None:
            where = RecordMetadata(topic_partition[0], topic_partition[1], base_offset, self.timestamp if timestamp is None else timestamp)
            if not self.done():
                self.set_result(where)
            if self.on_delivery is not None:
                _call(self.on_delivery, where, None)
            return
        if not self.done():
            self.set_exception(error)
            self.exception()  # no caller has to look at the error
        if self.on_delivery is not None:
            _call(self.on_delivery, None, error)

    def halves(self) -> "tuple[Delivery, Delivery]":
        raise AssertionError("one record has no halves")


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

    def ended(self, part: "DeliveryPart", topic_partition: TopicPartition, base_offset: int, error: KafkaError | None) -> None:
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
        self._whole.ended(self, topic_partition, base_offset, error)

    def halves(self) -> "tuple[DeliveryPart, DeliveryPart]":
        return self._whole.split(self)
