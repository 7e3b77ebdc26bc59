"""◇ The open end of a partition's newest batch: records without a key go there one after another, with nothing looked up or counted again.

A lane says how many bytes it takes.  The accumulator counts what went through when it closes the lane, which every other call does first.
Called by `work` and `accumulator`.
"""

from typing import Generic, Protocol, TypeVar

from moldau.clients.producer.batch import RECORD_OVERHEAD, PendingBatch


class Counting(Protocol):
    count: int


T = TypeVar("T", bound=Counting)

CLOSED = -1


class Lane(Generic[T]):
    """`left`: bytes that records may take yet; CLOSED: none.  `token`: the one that every record joins."""

    __slots__ = ("add_timestamp", "add_value", "batch", "first", "left", "room", "token", "topic")

    def __init__(self, batch: PendingBatch[T], token: T, room: int) -> None:
        self.topic = batch.topic_partition.topic
        self.batch = batch
        self.token = token
        self.room = self.left = room
        self.first = len(batch.values)
        self.add_value = batch.values.append
        self.add_timestamp = batch.timestamps.append

    def add(self, value: bytes, timestamp: int) -> None:
        """Add a record for which there is room."""
        self.left -= RECORD_OVERHEAD + len(value)
        self.add_value(value)
        self.add_timestamp(timestamp)
        self.token.count += 1

    def close(self) -> tuple[int, int]:
        """How many records went through, and their bytes."""
        count, size = len(self.batch.values) - self.first, self.room - self.left
        self.room = size
        self.left = CLOSED
        return count, size

    @property
    def used(self) -> int:
        """The bytes that went through a closed lane."""
        return self.room
