"""◇ Columns of records as Arrow arrays, and Arrow arrays as records: one copy of the bytes each way, and no object a record."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.protocol.records.columns import NULL_SIZE, Int64s, RecordColumns
from moldau.protocol.varint import write_signed

SCHEMA: Final = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
HEADERS: Final = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def to_record_batch(columns: RecordColumns, topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """`schema`: what Spark expects, with or without `headers`."""
    count = len(columns)
    keys, values = keys_and_values(columns)
    made = {
        "key": keys,
        "value": values,
        "topic": pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": pa.array(np.full(count, partition, np.int32)),
        "offset": pa.array(columns.offsets),
        "timestamp": pa.array(columns.timestamps * 1000, pa.timestamp("us", "UTC")),
        "timestampType": pa.array(columns.timestamp_types),
    }
    if "headers" in schema.names:
        made["headers"] = _headers(columns, schema.field("headers").type)
    return pa.RecordBatch.from_arrays([made[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def keys_and_values(columns: RecordColumns) -> tuple[pa.Array, pa.Array]:
    """The keys and the values as binary arrays.

    The elements of one array over the fetched bytes are, record by record, the key, the bytes behind it, the value and the bytes behind
    it.  Keys and values are then two `take`s, which copy only their bytes.
    """
    count = len(columns)
    if not count:
        return pa.array([], pa.binary()), pa.array([], pa.binary())
    first = int(columns.key_starts[0])
    last = int(columns.header_starts[-1])
    bounds = np.empty(4 * count, np.int64)
    bounds[0::4] = columns.key_starts
    bounds[1::4] = columns.key_starts + np.maximum(columns.key_sizes, 0)
    bounds[2::4] = columns.value_starts
    bounds[3::4] = columns.value_starts + np.maximum(columns.value_sizes, 0)
    bounds -= first
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(columns.data[first:last])]
    everything = pa.Array.from_buffers(pa.binary(), 4 * count - 1, buffers)
    places = np.arange(count, dtype=np.int64) * 4
    return _taken(everything, places, columns.key_sizes), _taken(everything, places + 2, columns.value_sizes)


def _taken(everything: pa.Array, places: Int64s, sizes: Int64s) -> pa.Array:
    nulls = sizes == NULL_SIZE
    if nulls.all():
        return pa.nulls(len(places), pa.binary())
    return everything.take(pa.array(places, mask=nulls if nulls.any() else None))


def _headers(columns: RecordColumns, declared: pa.DataType) -> pa.Array:
    lists: Sequence[Any] = [
        None if not headers else [{"key": one.shown_key, "value": None if one.value is None else bytes(one.value)} for one in headers]
        for headers in columns.header_lists()
    ]
    return pa.array(lists, declared)


# ---------------------------------------------------------------- rows into records


def to_records(keys: pa.Array, values: pa.Array, headers: pa.Array | None, timestamps: Int64s) -> pa.Buffer:
    """Rows as the records of one batch, one after the other, with deltas from the first.

    A record is a beginning, the key, the value's size, the value and the headers: joined row by row, all of them are one run of bytes.
    """
    count = len(keys)
    key_sizes, value_sizes = sizes_of(keys), sizes_of(values)
    time_deltas, offset_deltas = timestamps - timestamps[0], np.arange(count, dtype=np.int64)
    ends = pa.scalar(b"\x00", pa.binary()) if headers is None or headers.null_count == count else _encoded_headers(headers)
    end_sizes = 1 if isinstance(ends, pa.Scalar) else sizes_of(ends)
    widths = [varint_sizes(one) for one in (time_deltas, offset_deltas, key_sizes, value_sizes)]
    bodies: Int64s = 1 + np.sum(widths, axis=0) + np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + end_sizes
    zero = np.zeros(count, np.int64)
    beginnings = _joined_varints([bodies, zero, time_deltas, offset_deltas, key_sizes])
    empty = pa.scalar(b"", pa.binary())
    joined = pc.binary_join_element_wise(
        beginnings, keys, _joined_varints([value_sizes]), values, ends, empty, null_handling="replace", null_replacement=""
    )
    return _bytes_of(joined)


def sizes_of(column: pa.Array) -> Int64s:
    """The sizes of the elements; -1 for a null."""
    sizes: Int64s = pc.fill_null(pc.binary_length(column), NULL_SIZE).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def varint_sizes(numbers: Int64s) -> Int64s:
    """How many bytes each number takes as a zig-zag number of seven bits a byte."""
    zigzag = _zigzag(numbers)
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, 64, 7):
        longer = zigzag >> np.uint64(bits) > 0
        if not longer.any():
            break
        sizes += longer
    return sizes


def _zigzag(numbers: Int64s) -> Any:
    return (numbers << 1 ^ numbers >> 63).astype(np.uint64)


def _joined_varints(columns: Sequence[Int64s]) -> pa.Array:
    """A binary array.  Each row holds the numbers of all columns, one behind the other."""
    sizes = [varint_sizes(column) for column in columns]
    ends = np.cumsum(sum(sizes))
    count = len(ends)
    data = np.empty(int(ends[-1]), np.uint8)
    places = ends - sum(sizes)
    for column, size in zip(columns, sizes, strict=True):
        zigzag = _zigzag(column)
        for byte in range(int(size.max())):
            if byte == 0:
                more = size > 1
                data[places] = (zigzag & np.uint64(0x7F)).astype(np.uint8) | np.where(more, np.uint8(0x80), np.uint8(0))
                continue
            rows = np.flatnonzero(size > byte)
            bits = (zigzag[rows] >> np.uint64(7 * byte) & np.uint64(0x7F)).astype(np.uint8)
            data[places[rows] + byte] = bits | np.where(size[rows] > byte + 1, np.uint8(0x80), np.uint8(0))
        places = places + size
    offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _encoded_headers(headers: pa.Array) -> pa.Array:
    """The headers of each row as bytes; it makes an object for each header."""
    found = []
    for row in headers.to_pylist():
        encoded = bytearray(write_signed(len(row or ())))
        for header in row or ():
            if header is None or header["key"] is None:
                raise ValueError("a header has no key: give each a text")
            key, value = header["key"].encode(), header["value"]
            encoded += write_signed(len(key)) + key
            encoded += write_signed(-1) if value is None else write_signed(len(value)) + value
        found.append(bytes(encoded))
    return pa.array(found, pa.binary())


def _bytes_of(column: pa.Array) -> pa.Buffer:
    """The bytes of all elements, one after the other."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32, count=len(column) + 1, offset=4 * column.offset)
    return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
