"""◇ Values that several rooms share.

Uuids are `uuid.UUID`; their text form is Kafka's: URL-safe base64 of the 16 bytes, 22 characters, no padding.

Source: org.apache.kafka.common.Uuid, DirectoryId.
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

ZERO_UUID: Final = UUID(int=0)
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_TOPIC: Final = "__cluster_metadata"
GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_TOPIC: Final = "__share_group_state"
REMOTE_LOG_METADATA_TOPIC: Final = "__remote_log_metadata"
INTERNAL_TOPICS: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC})
"""Written by brokers alone; clients may read them."""

# Directory ids that name no directory (KIP-858).
DIRECTORY_MIGRATING: Final = UUID(int=0)
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
DIRECTORY_LOST: Final = UUID(int=2)
RESERVED_UUIDS: Final = 100

NO_LEADER: Final = -1
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
"""The epoch of a leader, a member or a state if none is known, or none was given."""
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndEpoch(NamedTuple):
    """An offset and its leader epoch.

    In a snapshot's name the offset is exclusive: everything below `offset` belongs to `epoch` or an older one.
    """

    offset: int
    epoch: int


class SliceableFile(Protocol):
    """The part of a file that a `FileSlice` needs: both ways of reading its bytes."""

    def pread(self, size: int, position: int) -> bytes: ...

    def fileno(self) -> int:
        """Raises OSError where there is no descriptor to `sendfile` from (files in memory)."""
        ...


class FileSlice:
    """`size` bytes of a file from `position`, not read yet.  The file stays open as long as the slice lives."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: SliceableFile, position: int, size: int) -> None:
        assert position >= 0 and size >= 0, (position, size)
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"FileSlice({self.file!r}, position={self.position}, size={self.size})"

    def read(self) -> bytes:
        """The bytes themselves: for TLS, simulation and slow paths only."""
        data = self.file.pread(self.size, self.position)
        assert len(data) == self.size, f"{self!r} is cut short at {len(data)} bytes"
        return data


Records: TypeAlias = bytes | bytearray | memoryview | FileSlice
"""Bytes of record batches: a view when they came in, a slice when they go out, never a copy in between."""

Part: TypeAlias = bytes | bytearray | memoryview | FileSlice
"""A piece of the bytes that go to a socket in order."""


def joined(parts: Iterable[Part]) -> bytes:
    """All parts as one piece, with slices of files read: for small messages and slow paths."""
    return b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)


def uuid_to_text(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def usable_uuid(draw: Callable[[], UUID]) -> UUID:
    """The first drawn id that Kafka would make, too: it is not reserved, and tools do not take its text for an option."""
    while True:
        made = draw()
        if made.int >= RESERVED_UUIDS and not uuid_to_text(made).startswith("-"):
            return made


def uuid_from_text(text: str) -> UUID:
    """Errors: ValueError naming what is wrong with the text."""
    if len(text) > 24:
        raise ValueError(f"{text!r} is longer than an id: 22 characters of URL-safe base64 are expected")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id: 22 characters of URL-safe base64 are expected") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} holds {len(raw)} bytes, an id has 16: 22 characters of URL-safe base64 are expected")
    return UUID(bytes=raw)


def java_string_hash(text: str) -> int:  # hot: 0.1 us for a name in use, 8 us for a new one
    """`String.hashCode` of Java, which places a group or transactional id on a partition of an internal topic."""
    return _known_hash(text) if len(text) <= MAX_KNOWN_LENGTH else _hash(text)


def _hash(text: str) -> int:
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


MIN_JAVA_INT: Final = -(1 << 31)
"""The one hash without a positive twin."""
MAX_KNOWN_LENGTH: Final = 256
"""Longer names are hashed each time: a peer must not choose how much memory is used."""
_known_hash: Final = lru_cache(maxsize=4096)(_hash)
