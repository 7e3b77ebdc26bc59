"""◇ Turns the arguments of `send` and `send_many` into bytes: serializers, interceptors, headers, pieces that fit into a batch."""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import index
from typing import Any, Final, NamedTuple

from moldau.clients.errors import ClientError
from moldau.clients.producer.batch import RECORD_OVERHEAD, size_of
from moldau.errors import ErrorCode
from moldau.protocol.records.column_builder import Columns

LOG: Final = logging.getLogger(__name__)

LATEST_TIMESTAMP: Final = (1 << 63) - 1

Headers = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]

Piece = tuple[range | list[int], Columns, int]
"""Some records of a `send_many`: their numbers, their columns, and their size in bytes."""


class OutgoingRecord(NamedTuple):
    """A record as an interceptor's `on_send` gets it.  The interceptor may return another one."""

    topic: str
    value: Any
    key: Any
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


def serialized(what: str, value: Any, serializer: Callable[[Any], bytes | None] | None) -> bytes | None:
    """A key or value as bytes.  Errors: TypeError."""
    if serializer is not None:
        value = serializer(value)
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)  # a copy, because the caller may change the array
    if isinstance(value, str) and serializer is None:
        return value.encode()
    if serializer is not None:
        raise TypeError(f"the {what}_serializer returned {type(value).__name__}: a serializer returns bytes or None")
    way_out = "give bytes or str" if what == "header" else f"give bytes or str, or a {what}_serializer"
    raise TypeError(f"a record's {what} cannot be {type(value).__name__}: {way_out}")


def header_list(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Errors: TypeError, UnicodeError for what cannot be a header: in a batch it would cost its neighbours, too."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return [(_header_name(name), serialized("header", content, None)) for name, content in pairs]
    except ValueError as error:
        if isinstance(error, UnicodeError):
            raise
        raise TypeError(f"a record's headers cannot be {headers!r}: give pairs of a name and a value, or a mapping") from None


def _header_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a header's name cannot be {type(name).__name__}: give str")
    if not name.isascii():
        name.encode("utf-8", "surrogateescape")  # as the batch does
    return name


def checked_timestamp(given: int) -> int:
    """Errors: TypeError, ValueError."""
    timestamp = index(given)
    if not 0 <= timestamp <= LATEST_TIMESTAMP:
        raise ValueError(f"a timestamp cannot be {timestamp}: give milliseconds since 1970")
    return timestamp


def intercepted(interceptors: Sequence[Any], record: OutgoingRecord) -> OutgoingRecord:
    """The record after all interceptors.  Each may return another record; an interceptor that raises is logged and skipped."""
    for interceptor in interceptors:
        on_send = getattr(interceptor, "on_send", None)
        if on_send is not None:
            try:
                record = on_send(record) or record
            except Exception:
                LOG.exception("an interceptor failed")
    return record


def acknowledged(interceptors: Sequence[Any], where: Any, error: BaseException | None, headers: Headers) -> None:
    """Tell the interceptors the end of a record, and its headers if they take them (KIP-512).  One that raises is logged and skipped."""
    for interceptor in interceptors:
        on_acknowledgement = getattr(interceptor, "on_acknowledgement", None)
        if on_acknowledgement is not None:
            try:
                if _takes_headers(interceptor.__class__):
                    on_acknowledgement(where, error, header_list(headers))
                else:
                    on_acknowledgement(where, error)
            except Exception:
                LOG.exception("an interceptor failed")


@cache
def _takes_headers(kind: type) -> bool:
    """Whether `on_acknowledgement` of these interceptors has a third parameter."""
    found = getattr(kind, "on_acknowledgement", None)
    if found is None:
        return False
    try:
        inspect.signature(found).bind(None, None, None, None)
    except (TypeError, ValueError):
        return False
    return True


def records_of(
    topic: str,
    values: Sequence[Any],
    keys: Sequence[Any] | None,
    headers: Sequence[Headers] | None,
    partition: int | None,
    timestamps_ms: Sequence[int] | None,
) -> Iterator[OutgoingRecord]:
    """The records of a `send_many`, one by one, as interceptors get them."""
    for number, value in enumerate(values):
        yield OutgoingRecord(
            topic,
            value,
            None if keys is None else keys[number],
            () if headers is None else headers[number],
            partition,
            None if timestamps_ms is None else timestamps_ms[number],
        )


def runs_of(records: Sequence[OutgoingRecord]) -> Iterator[tuple[int, int]]:
    """The first and the next number of each run of neighbours that go to the same topic and partition."""
    first = 0
    for number in range(1, len(records) + 1):
        if number == len(records) or _place_of(records[number]) != _place_of(records[first]):
            yield first, number
            first = number


def _place_of(record: OutgoingRecord) -> tuple[str, int | None]:
    return record.topic, record.partition


def columns_of(
    keys: Sequence[Any] | None, values: Sequence[Any], headers: Sequence[Headers] | None, timestamps: Sequence[int] | None, now_ms: int
) -> Columns:
    """The lists as columns of bytes.  Errors: TypeError."""
    return Columns(
        None if keys is None else bytes_column("key", keys),
        bytes_column("value", values),
        [now_ms] * len(values) if timestamps is None else _timestamp_column(timestamps),
        None if headers is None else [header_list(one) for one in headers],
    )


def _timestamp_column(timestamps: Sequence[int]) -> list[int]:
    if set(map(type, timestamps)) == {int} and min(timestamps) >= 0 and max(timestamps) <= LATEST_TIMESTAMP:
        return list(timestamps)
    return [checked_timestamp(one) for one in timestamps]


def bytes_column(what: str, column: Sequence[Any]) -> list[bytes | None]:
    if set(map(type, column)) <= {bytes, type(None)}:
        return column if isinstance(column, list) else list(column)
    return [serialized(what, one, None) for one in column]


def pieces(numbers: range | list[int], columns: Columns, *, batch_bytes: int, max_request_bytes: int) -> Iterator[Piece]:
    """Pieces of as many records as fit into a batch each.  Errors: ClientError for a record that fits into none."""
    keys, values, timestamps, headers = columns
    limit = min(batch_bytes, max_request_bytes)
    is_whole = isinstance(numbers, range)
    sizes = [RECORD_OVERHEAD + len(values[number] or b"") for number in numbers]
    if keys is not None:
        sizes = [size + len(keys[number] or b"") for size, number in zip(sizes, numbers, strict=True)]
    if headers is not None:
        sizes = [size + size_of(None, None, headers[number]) for size, number in zip(sizes, numbers, strict=True)]
    start = 0
    while start < len(numbers):
        end, total = start, 0
        while end < len(numbers) and (end == start or total + sizes[end] <= limit):
            total += sizes[end]
            end += 1
        if total > max_request_bytes:
            raise ClientError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"record {numbers[start]} has {total} bytes, max.request.size allows {max_request_bytes}",
            )
        chosen = numbers[start:end]
        if is_whole:
            window = slice(numbers[start], numbers[end - 1] + 1)
            part = Columns(
                None if keys is None else keys[window], values[window], timestamps[window], None if headers is None else headers[window]
            )
        else:
            part = Columns(
                None if keys is None else [keys[number] for number in chosen],
                [values[number] for number in chosen],
                [timestamps[number] for number in chosen],
                None if headers is None else [headers[number] for number in chosen],
            )
        yield chosen, part, total
        start = end
