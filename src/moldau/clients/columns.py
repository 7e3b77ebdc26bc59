"""◇ Reads the records of a batch into lists side by side.

Records of one shape are read together (`protocol.records.alike`), others field by field; a batch with headers is read record by record.
Offsets and timestamps are put together when they are asked for.

Called by `records`.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

from moldau.protocol.records.alike import read_alike
from moldau.protocol.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, RecordHeader, records_of
from moldau.protocol.records.compression import Codec, decompress
from moldau.protocol.records.offset_deltas import WIDTHS, offset_deltas
from moldau.protocol.varint import INT64_BYTES, VarintTooLong, read_signed, read_unsigned, write_signed

LEAST_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, two sizes, a count of headers."""
_TWO_BYTES: Final = 1 << 14
"""A number below this takes two bytes at most."""
_MOST_KEYLESS: Final = 1 << 11
"""Larger records without a key are read as those with one: the rest of the work outweighs what is saved."""
_ATTRIBUTES_AND_TIME: Final = 2
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Columns:
    """Records side by side.  `headers` None: no record has any.  Offsets and timestamps are put together when they are asked for."""

    def __init__(
        self,
        keys: list[bytes | None],
        values: list[bytes | None],
        headers: list[Headers] | None,
        offsets: Callable[[], list[int]],
        timestamps: Callable[[], list[int]],
    ) -> None:
        self.keys = keys
        self.values = values
        self.headers = headers
        self._offsets = offsets
        self._timestamps = timestamps

    @cached_property
    def offsets(self) -> list[int]:
        return self._offsets()

    @cached_property
    def timestamps(self) -> list[int]:
        """Milliseconds."""
        return self._timestamps()

    def __len__(self) -> int:
        return len(self.values)

    def offset(self, index: int) -> int:
        return self.offsets[index]

    def rows(self, start: int, end: int) -> "Columns":
        return _Rows(self, start, end)


class _Rows(Columns):
    """Some neighbouring records of others.  Each column is cut out when it is asked for, so parts of parts cost nothing."""

    def __init__(self, whole: Columns, start: int, end: int) -> None:
        self._whole, self._start, self._end = whole, start, end
        self._offsets = lambda: whole.offsets[start:end]
        self._timestamps = lambda: whole.timestamps[start:end]

    def __getattr__(self, name: str) -> Any:
        if name not in ("keys", "values", "headers"):
            raise AttributeError(name)
        column = getattr(self._whole, name)
        part = None if column is None else column[self._start : self._end]
        setattr(self, name, part)
        return part

    def __len__(self) -> int:
        return self._end - self._start

    def offset(self, index: int) -> int:
        return self._whole.offset(self._start + index)

    def rows(self, start: int, end: int) -> Columns:
        return _Rows(self._whole, self._start + start, self._start + end)


class _Uneven(Exception):
    """A record that is read one by one: it has headers, or is broken."""


class _Growing:
    """Columns of the records so far, and where the next one begins."""

    def __init__(self) -> None:
        self.position = 0
        self.times: list[int] = []
        """Deltas as they are written, zig-zag."""
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.odd_offsets: dict[int, int] = {}
        """Offset deltas of records whose delta is not their number: something before them was compacted away."""


def read_columns(header: BatchHeader, batch: memoryview) -> Columns:
    """The columns of a whole batch.  Errors: CorruptBatch."""
    payload = batch[HEADER_SIZE : header.size]
    data = payload if header.codec is Codec.NONE else decompress(header.codec, payload)
    count = header.records_count
    if count > len(data) // LEAST_RECORD_BYTES:
        raise CorruptBatch(f"a batch says it has {count} records in {len(data)} bytes")
    found = _Growing()
    try:
        _read(data, count, found)
    except (IndexError, VarintTooLong, _Uneven):
        return _one_by_one(batch)
    if found.position != len(data):
        raise CorruptBatch(f"{len(data) - found.position} bytes are left after the {count} records declared")
    return Columns(found.keys, found.values, None, lambda: _offsets(header, found.odd_offsets), lambda: _timestamps(header, found.times))


def _offsets(header: BatchHeader, odd: Mapping[int, int]) -> list[int]:
    offsets = list(range(header.base_offset, header.base_offset + header.records_count))
    for number, delta in odd.items():
        offsets[number] = header.base_offset + delta
    return offsets


def _timestamps(header: BatchHeader, times: list[int]) -> list[int]:
    base = header.base_timestamp
    if header.timestamp_type:
        return [header.max_timestamp] * len(times)
    if times.count(0) == len(times):
        return [base] * len(times)
    return [base + ((time >> 1) ^ -(time & 1)) for time in times]


def _read(data: bytes | bytearray | memoryview, count: int, found: _Growing) -> None:
    """Errors: IndexError, VarintTooLong, _Uneven."""
    view, copied = memoryview(data), None
    number = 0
    while number < count:
        alike = read_alike(view, found.position, number, count)
        if alike is not None:
            found.times += alike.times
            found.keys += alike.keys
            found.values += alike.values
            found.position = alike.end
            number += alike.size
            continue
        if copied is None:
            # Bytes are indexed and sliced in half the time that a view takes.
            copied = bytes(data)
        end = min(next((width for width in WIDTHS if width > number), count), count)
        _read_keyless(copied, found, number, end)
        if len(found.values) == number:
            _read_each(copied, found, number, end)
        number = len(found.values)


@lru_cache(maxsize=len(WIDTHS))
def _keyless_heads(width: int) -> list[bytes]:
    """By a record's size: the sizes of its missing key and of its value, as they are written behind an offset of `width` bytes.

    Where no record has that size, a head that is longer than any record.
    """
    heads = [bytes(_MOST_KEYLESS)] * _MOST_KEYLESS
    for value_size in range(_MOST_KEYLESS):
        head = write_signed(-1) + write_signed(value_size)
        size = _ATTRIBUTES_AND_TIME + width + len(head) + value_size + 1
        if size < _MOST_KEYLESS:
            heads[size] = head
    return heads


def _read_keyless(data: bytes, found: _Growing, first: int, end: int) -> None:  # hot: 0.4 µs a record
    """The records from number `first` up to `end`, or to the first that has a key, a header, or an offset that is not its number.

    One comparison tells all of that, because a record's size and the number of its offset leave one way to write what stands between its
    time and its value.
    """
    position = found.position
    times, values = found.times, found.values
    written_offsets = offset_deltas(end)[first:]
    heads = _keyless_heads(len(written_offsets[0]))
    for written in written_offsets:
        size = data[position]
        if size < 0x80:
            at = position + 2
        else:
            size += (data[position + 1] << 7) - 0x80
            at = position + 3
        size >>= 1
        if size >= _MOST_KEYLESS:
            break
        last = at + size - 2  # where the count of headers stands
        time = data[at]
        if time >= 0x80:
            at += 1
            size -= 1
            time += (data[at] << 7) - 0x80
            if time >= _TWO_BYTES:
                break
        head = written + heads[size]
        start = at + 1 + len(head)
        if start > last or data[at + 1 : start] != head or data[last]:
            break
        times.append(time)
        values.append(data[start:last])
        position = last + 1
    found.keys += [None] * (len(values) - len(found.keys))
    found.position = position


def _read_each(data: bytes, found: _Growing, first: int, end: int) -> None:  # hot: 0.5 µs a record
    """The records from number `first` up to `end`.  Numbers of one and of two bytes are read here: a call costs as much as half a
    record.
    """
    position = found.position
    times, keys, values = found.times, found.keys, found.values
    written_offsets = offset_deltas(end)[first:]
    width = len(written_offsets[0])
    for written in written_offsets:
        byte = data[position]
        if byte < 0x80:
            position += 2
        else:
            byte += (data[position + 1] << 7) - 0x80
            position += 3
            if byte >= _TWO_BYTES:
                byte, position = read_unsigned(data, position - 3)
                position += 1
        if byte & 1:
            raise _Uneven
        last = position + (byte >> 1) - 2  # where the count of headers stands
        byte = data[position]
        if byte < 0x80:
            position += 1
            times.append(byte)
        else:
            delta, position = read_signed(data, position, INT64_BYTES)
            times.append(delta << 1 if delta >= 0 else (~delta << 1) | 1)
        start = position
        position += width
        if data[start:position] != written:
            delta, position = read_signed(data, start)
            found.odd_offsets[len(values)] = delta
        byte = data[position]
        position += 1
        if byte == 1:
            keys.append(None)
        else:
            if byte >= 0x80:
                byte, position = read_unsigned(data, position - 1)
            if byte & 1:
                keys.append(None)
            else:
                start, position = position, position + (byte >> 1)
                keys.append(data[start:position])
        byte = data[position]
        position += 1
        if byte >= 0x80:
            byte += (data[position] << 7) - 0x80
            position += 1
            if byte >= _TWO_BYTES:
                byte, position = read_unsigned(data, position - 2)
        if byte & 1:
            values.append(None)
        else:
            start, position = position, position + (byte >> 1)
            values.append(data[start:position])
        if data[position] or position != last:
            raise _Uneven
        position += 1
    found.position = position


def _one_by_one(batch: memoryview) -> Columns:
    """The columns of a batch with headers, or the reason why it cannot be read."""
    offsets: list[int] = []
    timestamps: list[int] = []
    columns = Columns([], [], [], lambda: offsets, lambda: timestamps)
    assert columns.headers is not None
    for record in records_of(batch):
        offsets.append(record.offset)
        timestamps.append(record.timestamp)
        columns.keys.append(None if record.key is None else bytes(record.key))
        columns.values.append(None if record.value is None else bytes(record.value))
        listed = map(RecordHeader._make, record.headers)
        columns.headers.append(tuple((one.shown_key, None if one.value is None else bytes(one.value)) for one in listed))
    return columns
