"""◇ Records that follow one another in the same shape, read together: sizes alike, and offsets without a gap.

    size · attributes · timestamp delta · offset delta · key size · key · value size · value · 0

Where every number takes as many bytes in each record, and keys and values are as long, the bytes are rows of a table.  Each fixed byte is
compared a column at a time, and all values are cut out by one call.  Programs often write such records: samples, fixed-width rows,
padded payloads; others are read one by one, see `batch`.

Guarantee: what is read here is what a walk from record to record reads; every byte but the attributes, which no version defines, is looked
at.  Called by consumers.

Source: DefaultRecord.java.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from moldau.protocol.records.offset_deltas import first_of, offset_columns
from moldau.protocol.varint import VarintTooLong, read_signed

WORTH_IT: Final = 16
"""Fewer records than these are read as fast one by one."""
_CONTINUED: Final = bytes(range(0x80, 0x100))
_LAST: Final = bytes(range(0x80))
_MOST_OFFSET_BYTES: Final = 3
_MOST_TIME_BYTES: Final = 3
_MOST_SIZE_BYTES: Final = 3


class Alike(NamedTuple):
    """`size` records: what stands in each, and where the next one begins."""

    size: int
    times: Sequence[int]
    """Timestamp deltas as they are written, zig-zag."""
    keys: list[bytes | None]
    values: list[bytes | None]
    end: int


class _Shape(NamedTuple):
    size_bytes: int
    time_bytes: int
    offset_bytes: int
    key_head: bytes
    """The key's size as it is written, and of the value likewise."""
    key_size: int
    value_head: bytes
    value_size: int

    @property
    def record_size(self) -> int:
        numbers = self.size_bytes + 1 + self.time_bytes + self.offset_bytes + len(self.key_head) + len(self.value_head)
        return numbers + max(self.key_size, 0) + max(self.value_size, 0) + 1


def read_alike(data: bytes | memoryview, position: int, index: int, count: int) -> Alike | None:  # hot: 0.1 µs a record
    """The run of alike records from `position` on, where number `index` of `count` begins.  None: there are too few, so read them one by
    one.
    """
    shape = _shape_of(data, position)
    if shape is None:
        return None
    size = shape.record_size
    places = offset_columns(shape.offset_bytes)
    first = first_of(shape.offset_bytes)
    count = min(count - index, first + len(places[0]) - index, (len(data) - position) // size)
    if index < first or count < WORTH_IT:
        return None
    rows = memoryview(data)[position:]
    # What is the same in each: the size, which says where all the others stand, then sizes of key and value, and no headers.
    at = shape.size_bytes + 1 + shape.time_bytes + shape.offset_bytes
    fixed = [(place, rows[place]) for place in range(shape.size_bytes)]
    fixed += enumerate(shape.key_head, at)
    at += len(shape.key_head) + max(shape.key_size, 0)
    fixed += enumerate(shape.value_head, at)
    fixed.append((size - 1, 0))
    for place, byte in fixed:
        column = rows[place : count * size : size].tobytes()
        count = count - len(column.lstrip(bytes((byte,))))
        if count < WORTH_IT:
            return None
    at = shape.size_bytes + 1
    times = [rows[place : count * size : size].tobytes() for place in range(at, at + shape.time_bytes)]
    for column, continued in zip(times, [_CONTINUED] * (len(times) - 1) + [_LAST], strict=True):
        count = min(count, len(column) - len(column.lstrip(continued)))
    if count < WORTH_IT:
        return None
    times = [column[:count] for column in times]
    at += shape.time_bytes
    for place, expected in enumerate(places):
        if rows[at + place : count * size : size].tobytes() != expected[index - first : index - first + count]:
            return None
    keys, values = _cut(rows[: count * size], shape)
    return Alike(count, _joined(times), keys, values, position + count * size)


def _cut(rows: memoryview, shape: _Shape) -> tuple[list[bytes | None], list[bytes | None]]:
    count = len(rows) // shape.record_size
    before = shape.size_bytes + 1 + shape.time_bytes + shape.offset_bytes + len(shape.key_head)
    between = len(shape.value_head)
    none: list[bytes | None] = [None] * count
    if shape.key_size < 0 and shape.value_size < 0:
        return none, list(none)
    if shape.key_size < 0:
        return none, [value for (value,) in Struct(f"{before + between}x{shape.value_size}sx").iter_unpack(rows)]
    if shape.value_size < 0:
        return [key for (key,) in Struct(f"{before}x{shape.key_size}s{between}xx").iter_unpack(rows)], none
    pairs = list(Struct(f"{before}x{shape.key_size}s{between}x{shape.value_size}sx").iter_unpack(rows))
    return [key for key, _ in pairs], [value for _, value in pairs]


def _joined(columns: list[bytes]) -> Sequence[int]:
    """The numbers whose lowest seven bits stand in the first column, and so on."""
    numbers: Sequence[int] = columns[0] if len(columns) == 1 else [byte & 0x7F for byte in columns[0]]
    for place, column in enumerate(columns[1:], 1):
        shift = 7 * place
        numbers = [number | (byte & 0x7F) << shift for number, byte in zip(numbers, column, strict=True)]
    return numbers


def _shape_of(data: bytes | memoryview, position: int) -> _Shape | None:
    """The shape of the record at `position`; None if records of that shape are not read together."""
    try:
        size, at = read_signed(data, position, _MOST_SIZE_BYTES)
        size_bytes, end = at - position, at + size
        at += 1
        time_bytes = read_signed(data, at, _MOST_TIME_BYTES)[1] - at
        at += time_bytes
        offset_bytes = read_signed(data, at, _MOST_OFFSET_BYTES)[1] - at
        at += offset_bytes
        key_size, after = read_signed(data, at, _MOST_SIZE_BYTES)
        key_head, at = bytes(data[at:after]), after + max(key_size, 0)
        value_size, after = read_signed(data, at, _MOST_SIZE_BYTES)
        value_head, at = bytes(data[at:after]), after + max(value_size, 0)
        if key_size < -1 or value_size < -1 or data[at] or at + 1 != end:
            return None
    except (IndexError, VarintTooLong):
        return None
    return _Shape(size_bytes, time_bytes, offset_bytes, key_head, key_size, value_head, value_size)
