"""◇ Reads records of many batches, column by column.  Arrays say where each key and value lies, without an object per record.

    for columns in decode_columns([(header, batch), ...]):      # whole batches whose CRC was checked
        columns.offsets, columns.value_starts, columns.value_sizes

One walk over the bytes finds where each record begins; all fields of all records are then read together with numpy.  A consumer that wants
Arrow arrays, or numpy's, needs one copy of the bytes from here; `columns.data` is the fetched bytes themselves when nothing is compressed.

Guarantee: for any bytes the result is columns whose positions lie within `data`, or `CorruptBatch`.  Headers are read only by
`header_lists`.  Called by clients that hand out columns.

Source: DefaultRecord.java.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from moldau.protocol.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    RecordHeader,
    TimestampType,
    parse_headers,
)
from moldau.protocol.records.compression import DEFAULT_MAX_BYTES, Codec, decompress
from moldau.protocol.varint import VarintTooLong

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Bytes: TypeAlias = npt.NDArray[np.uint8]

NULL_SIZE: Final = -1
LEAST_RECORD_BYTES: Final = 7
"""The fewest bytes of a record: length, attributes, two deltas, two sizes, a count of headers."""
BYTES_AT_ONCE: Final = 32 * 1024 * 1024
ALIKE_BEFORE: Final = 32
"""After so many records of one size in a row the next ones are looked at together."""
_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10


class RecordColumns(NamedTuple):
    """The columns; row i is a record.  Starts are positions in `data`.  A size of -1 is a null, whose start is still a position."""

    data: memoryview
    offsets: Int64s
    timestamps: Int64s
    """Milliseconds."""
    timestamp_types: Int32s
    key_starts: Int64s
    key_sizes: Int64s
    value_starts: Int64s
    value_sizes: Int64s
    header_starts: Int64s
    """The position of each record's count of headers."""
    ends: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def between(self, from_offset: int, to_offset: int) -> "RecordColumns":
        """The records with from_offset <= offset < to_offset."""
        first, last = np.searchsorted(self.offsets, (from_offset, to_offset))
        return self.rows(slice(int(first), int(last)))

    def rows(self, rows: Any) -> "RecordColumns":
        """Some of the records.  `rows`: a slice, or a mask."""
        return RecordColumns(self.data, *(column[rows] for column in self[1:]))

    def header_lists(self) -> Sequence[tuple[RecordHeader, ...]]:
        """The headers as objects, for callers that need them.  Errors: CorruptBatch."""
        data, starts, ends = self.data, self.header_starts.tolist(), self.ends.tolist()
        found: list[tuple[RecordHeader, ...]] = [()] * len(starts)
        counts = np.frombuffer(data, np.uint8)[self.header_starts]
        for row in np.flatnonzero(counts).tolist():
            try:
                found[row], end = parse_headers(data, starts[row], ends[row])
            except (IndexError, VarintTooLong) as error:
                raise CorruptBatch(f"the headers of the record at offset {self.offsets[row]}: {error}") from None
            if end != ends[row]:
                raise CorruptBatch(f"the record at offset {self.offsets[row]} has bytes after its headers")
        return found


def decode_columns(
    batches: Iterable[tuple[BatchHeader, memoryview]], *, max_bytes: int = DEFAULT_MAX_BYTES, bytes_at_once: int = BYTES_AT_ONCE
) -> Iterator[RecordColumns]:
    """All records of these batches, in order.  The caller leaves control batches out.

    `max_bytes`: the limit for one batch, decompressed.  `bytes_at_once`: after about so many bytes a new group of columns begins.  Errors:
    CorruptBatch.
    """
    headers: list[BatchHeader] = []
    payloads: list[memoryview] = []
    size = 0
    for header, batch in batches:
        payload = batch[HEADER_SIZE : header.size]
        if header.codec is not Codec.NONE:
            payload = memoryview(decompress(header.codec, payload, max_bytes))
        if not 0 <= header.records_count <= len(payload) // LEAST_RECORD_BYTES:
            raise CorruptBatch(f"a batch says it has {header.records_count} records in {len(payload)} bytes")
        headers.append(header)
        payloads.append(payload)
        size += len(payload)
        if size >= bytes_at_once:
            yield _columns(headers, payloads)
            headers, payloads, size = [], [], 0
    if headers:
        yield _columns(headers, payloads)


def _columns(headers: Sequence[BatchHeader], payloads: Sequence[memoryview]) -> RecordColumns:
    data = payloads[0] if len(payloads) == 1 else memoryview(b"".join(payloads))
    counts = np.array([header.records_count for header in headers], np.int64)
    bodies, ends = _bounds(headers, [len(payload) for payload in payloads], data)
    view = np.frombuffer(data, np.uint8) if len(data) else np.zeros(1, np.uint8)
    deltas, places = _varints(view, bodies + 1, _VARLONG_BYTES)
    offset_deltas, places = _varints(view, places, _VARINT_BYTES)
    key_sizes, key_starts = _varints(view, places, _VARINT_BYTES)
    value_sizes, value_starts = _varints(view, key_starts + np.maximum(key_sizes, 0), _VARINT_BYTES)
    header_starts = value_starts + np.maximum(value_sizes, 0)
    # A size below the smallest record's or beyond the record shows in one of these checks, because positions only grow.
    if ((key_starts + np.maximum(key_sizes, 0) > ends) | (header_starts >= ends)).any():
        raise CorruptBatch("a record's key and value need more bytes than it says it has")
    if ((view.take(header_starts, mode="clip") == 0) & (header_starts + 1 != ends)).any():
        raise CorruptBatch("a record's fields end elsewhere than it says")
    timestamps = np.repeat(np.array([header.base_timestamp for header in headers], np.int64), counts) + deltas
    types = np.repeat(np.array([header.timestamp_type for header in headers], np.int32), counts)
    appended = np.repeat(np.array([header.max_timestamp for header in headers], np.int64), counts)
    return RecordColumns(
        data,
        np.repeat(np.array([header.base_offset for header in headers], np.int64), counts) + offset_deltas,
        np.where(types == TimestampType.LOG_APPEND_TIME, appended, timestamps),
        types,
        key_starts,
        np.maximum(key_sizes, NULL_SIZE),
        value_starts,
        np.maximum(value_sizes, NULL_SIZE),
        header_starts,
        ends,
    )


def _bounds(headers: Sequence[BatchHeader], sizes: Sequence[int], data: memoryview) -> tuple[Int64s, Int64s]:
    """The position of each record's attributes, and its end (exclusive)."""
    bodies: list[int] = []
    ends: list[int] = []
    limit = 0
    for header, size in zip(headers, sizes, strict=True):
        position, limit = limit, limit + size
        position = _walk(data, position, limit, header.records_count, bodies, ends)
        if position != limit:
            raise CorruptBatch(f"{limit - position} bytes are left after the {header.records_count} records declared")
    return np.array(bodies, np.int64), np.array(ends, np.int64)


def _walk(data: memoryview, position: int, limit: int, count: int, bodies: list[int], ends: list[int]) -> int:  # hot: 0.15 us a record
    """Step from length to length.  The lengths are zig-zag numbers and never negative."""
    left = count
    before, alike = -1, 0
    while left:
        left -= 1
        if position >= limit:
            raise CorruptBatch(f"{count} records are declared, the bytes end before")
        start = position
        byte = data[position]
        position += 1
        size = byte & 0x7F
        shift = 7
        while byte >= 0x80:
            if shift > 28 or position >= limit:
                raise CorruptBatch("a record's length is cut short or has more than 5 bytes")
            byte = data[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
        bodies.append(position)
        position += size >> 1
        if size & 1 or position > limit:
            raise CorruptBatch(f"a record says it has {size >> 1} bytes, {limit - bodies[-1]} are left")
        ends.append(position)
        if size != before:
            before, alike = size, 0
            continue
        alike += 1
        if alike == ALIKE_BEFORE:
            alike = 0
            stride = position - start
            run = _run(data, start, stride, bodies[-1] - start, min(left, (limit - position) // stride))
            body, position, left = bodies[-1], position + run * stride, left - run
            bodies.extend(range(body + stride, body + run * stride + 1, stride))
            ends.extend(range(start + 2 * stride, position + 1, stride))
    return position


def _run(data: memoryview, start: int, stride: int, width: int, most: int) -> int:
    """How many records behind the one at `start` have its length, which takes `width` bytes.  They lie `stride` bytes apart."""
    view = np.frombuffer(data, np.uint8)
    found, window = 0, ALIKE_BEFORE
    while found < most:
        window = min(4 * window, most - found)
        first = start + (found + 1) * stride
        same = np.ones(window, bool)
        for byte in range(first, first + width):
            same &= view[byte : byte + (window - 1) * stride + 1 : stride] == view[byte - first + start]
        if not same.all():
            return found + int(same.argmin())
        found += window
    return found


def _varints(view: Bytes, places: Int64s, most_bytes: int) -> tuple[Int64s, Int64s]:
    """The zig-zag number at each position, and the positions after them.

    A position beyond the end reads the last byte: bounds are checked later.
    """
    first = view.take(places, mode="clip")
    values = (first & 0x7F).astype(np.uint64)
    after = places + 1
    longer = np.flatnonzero(first >= 0x80)
    for index in range(1, most_bytes + 1):
        if not len(longer):
            break
        if index == most_bytes:
            raise CorruptBatch(f"a variable-length number has more than {most_bytes} bytes")
        byte = view.take(after[longer], mode="clip")
        values[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        after[longer] += 1
        longer = longer[byte >= 0x80]
    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64), after
