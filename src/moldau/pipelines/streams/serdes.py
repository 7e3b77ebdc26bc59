"""◇ How keys and values are written in topics.

A serde is a pair of functions between a Python value and bytes; None stays None on both sides.  Java's programs can read these forms:
`STRING` and `LONG` are StringSerializer and LongSerializer, `time_windowed` is TimeWindowedSerializer.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from moldau.pipelines.streams.records import Windowed


class Serde(NamedTuple):
    """`read` raises ValueError, or another exception, on what it cannot read."""

    write: Callable[[Any], bytes | None]
    read: Callable[[bytes | None], Any]
    type: str | None = None
    """The Spark type of the values that `read` gives, such as `BIGINT` or `STRUCT<name: STRING>`; None: it is not declared."""


def nullable(write: Callable[[Any], bytes], read: Callable[[bytes], Any], type: str | None = None) -> Serde:
    """A serde that leaves None as it is."""
    return Serde(lambda value: None if value is None else write(value), lambda data: None if data is None else read(data), type)


def json_as(type: str) -> Serde:
    """JSON whose values have this Spark type, such as `STRUCT<customer: STRING, cents: BIGINT>`."""
    return JSON._replace(type=type)


def _long(data: bytes) -> int:
    (value,) = struct.unpack(">q", data)
    return int(value)


def _time_windowed_bytes(inner: Serde, key: Windowed) -> bytes:
    return (inner.write(key.key) or b"") + struct.pack(">q", key.start)


def time_windowed(inner: Serde, size_ms: int) -> Serde:
    """The key's bytes and the window's start, as Java's TimeWindowedSerializer; the size is not written, so the reader must know it."""

    def read(data: bytes) -> Windowed:
        start = _long(data[-8:])
        return Windowed(inner.read(data[:-8]), start, start + size_ms)

    return nullable(lambda key: _time_windowed_bytes(inner, key), read, _windowed_type(inner))


def _windowed_type(inner: Serde) -> str | None:
    return None if inner.type is None else f"STRUCT<key: {inner.type}, start: BIGINT, end: BIGINT>"


def session_windowed(inner: Serde) -> Serde:
    """The key's bytes, the window's end and its start, as Java's SessionWindowedSerializer."""

    def write(key: Windowed) -> bytes:
        return (inner.write(key.key) or b"") + struct.pack(">qq", key.end, key.start)

    return nullable(write, lambda data: Windowed(inner.read(data[:-16]), _long(data[-8:]), _long(data[-16:-8])), _windowed_type(inner))


BYTES: Final = nullable(bytes, bytes, "BINARY")
STRING: Final = nullable(str.encode, bytes.decode, "STRING")
LONG: Final = nullable(lambda value: struct.pack(">q", value), _long, "BIGINT")
DOUBLE: Final = nullable(lambda value: struct.pack(">d", value), lambda data: struct.unpack(">d", data)[0], "DOUBLE")
JSON: Final = nullable(lambda value: json.dumps(value, separators=(",", ":")).encode(), json.loads)
