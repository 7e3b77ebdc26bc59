"""◇ A batch that waits to be sent: records of one partition, and what is known of their fate."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Generic, TypeVar

from moldau.protocol.records.batch import HEADER_SIZE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from moldau.protocol.records.builder import BatchOptions, stamp_producer
from moldau.protocol.records.column_builder import Columns, Headers, sealing_of
from moldau.types import TopicPartition

T = TypeVar("T")

RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""The most bytes that a record takes beside its content: length, attributes, two deltas, two lengths, the count of headers."""
HEADER_OVERHEAD: Final = 10
"""The most bytes that a header takes beside its content: two lengths."""


class Fate(Enum):
    """Whether the broker has the batch."""

    UNSENT = "unsent"
    UNKNOWN = "unknown"
    """The batch was sent, and no answer came, or one that leaves it open."""
    REJECTED = "rejected"
    """The batch was sent, and it is certain that nothing was written."""


class PendingBatch(Generic[T]):
    """A batch before it is acknowledged.  `size`: its most bytes before compression.  `reserved_bytes`: its share of buffer_memory."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "created_ms",
        "data",
        "fate",
        "has_ended",
        "headers",
        "keys",
        "options",
        "producer_epoch",
        "producer_id",
        "reserved_bytes",
        "retry_at_ms",
        "run",
        "size",
        "timestamps",
        "tokens",
        "topic_partition",
        "values",
    )

    def __init__(self, topic_partition: TopicPartition, options: BatchOptions, now_ms: int) -> None:
        self.topic_partition = topic_partition
        self.options = options
        self.created_ms = now_ms
        self.keys: list[bytes | None] | None = None
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] | None = None
        self.tokens: list[T] = []
        self.run: T | None = None
        """The last token, if further records may join it."""
        self.size = HEADER_SIZE
        self.reserved_bytes = 0
        self.attempts = 0
        self.retry_at_ms = 0
        self.fate = Fate.UNSENT
        self.has_ended = False
        """Its tokens were told.  A later answer concerns only the partition."""
        self.data: bytearray | None = None
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE

    def __repr__(self) -> str:
        stamp = f", {self.producer_id}/{self.producer_epoch}/{self.base_sequence}" if self.is_stamped else ""
        return f"PendingBatch({self.topic_partition}, {self.count} records, {self.fate.value}{stamp})"

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def is_stamped(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def append(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        if key is not None:
            if self.keys is None:
                self.keys = [None] * len(self.values)
            self.keys.append(key)
        elif self.keys is not None:
            self.keys.append(None)
        if headers:
            if self.headers is None:
                self.headers = [()] * len(self.values)
            self.headers.append(headers)
        elif self.headers is not None:
            self.headers.append(())
        self.values.append(value)
        self.timestamps.append(timestamp)

    def extend(self, columns: Columns) -> None:
        keys, values, timestamps, headers = columns
        if keys is not None or self.keys is not None:
            self.keys = self.keys if self.keys is not None else [None] * len(self.values)
            self.keys += keys if keys is not None else [None] * len(values)
        if headers is not None or self.headers is not None:
            self.headers = self.headers if self.headers is not None else [()] * len(self.values)
            self.headers += headers if headers is not None else [()] * len(values)
        self.values += values
        self.timestamps += timestamps

    def encode(self) -> bytearray:
        """The batch's bytes.  They are made once; further attempts write only the stamp anew."""
        if self.data is None:
            self.data = self.sealing()()
        return self.data

    def sealing(self) -> Callable[[], bytearray]:
        """Lay the records out.  Returns what is left to do for `data`: compression and checksum, which any thread may do."""
        columns = Columns(self.keys, self.values, self.timestamps, self.headers)
        options = self.options._replace(producer_id=self.producer_id, producer_epoch=self.producer_epoch, base_sequence=self.base_sequence)
        return sealing_of(columns, options)

    def stamp(self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool) -> None:
        if self.data is not None and self.options.is_transactional != is_transactional:
            self.data = None
        self.options = self.options._replace(is_transactional=is_transactional)
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        if self.data is not None:
            stamp_producer(self.data, producer_id, producer_epoch, base_sequence)

    def unstamp(self) -> None:
        """Take the stamp away.  It is certain that the broker does not have the batch, so it may get another place in the sequence."""
        assert self.fate is not Fate.UNKNOWN, self
        self.base_sequence = NO_SEQUENCE


def size_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """The most bytes of one record before compression."""
    size = RECORD_OVERHEAD + (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
    if headers:
        size += sum(HEADER_OVERHEAD + 4 * len(name) + len(content or b"") for name, content in headers)
    return size
