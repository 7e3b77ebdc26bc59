"""Records become Arrow arrays and back, byte for byte as the builder of records writes them."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from moldau.protocol.records.batch import batches
from moldau.protocol.records.builder import DEFAULTS, NewRecord, build_batch, seal_batch
from moldau.protocol.records.columns import decode_columns
from pyspark_moldau.arrow import keys_and_values, to_record_batch, to_records, varint_sizes

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RANDOM = random.Random(11)


def some_bytes(count: int, longest: int) -> list[bytes | None]:
    return [RANDOM.choice([None, b"", RANDOM.randbytes(RANDOM.randint(0, longest))]) for _ in range(count)]


@pytest.mark.parametrize("has_headers", [False, True])
@pytest.mark.parametrize(("count", "longest"), [(1, 0), (3, 5), (9_000, 100), (100, 20_000)])
def test_rows_become_what_the_builder_writes(count: int, longest: int, has_headers: bool) -> None:
    keys, values = some_bytes(count, longest), some_bytes(count, longest)
    times = np.array([RANDOM.randint(0, 1 << 42) for _ in range(count)], np.int64)
    headers: list[Any] = [RANDOM.choice([None, [], [{"key": "é", "value": None}, {"key": "", "value": b"v" * 200}]]) for _ in range(count)]
    column = pa.array(headers, HEADERS) if has_headers else None
    records = to_records(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), column, times)
    told = [[(one["key"], one["value"]) for one in row or ()] if has_headers else [] for row in headers]
    expected = build_batch(NewRecord(int(time), *rest) for time, *rest in zip(times, keys, values, told, strict=True))
    assert seal_batch(memoryview(records), DEFAULTS, count=count, base_timestamp=int(times[0]), max_timestamp=int(times.max())) == expected


def test_a_slice_of_rows_is_a_slice() -> None:
    keys, values = pa.array([b"a", b"bb", None, b"d"], pa.binary()), pa.array([b"1", None, b"333", b"4"], pa.binary())
    times = np.full(2, 5, np.int64)
    records = to_records(keys.slice(1, 2), values.slice(1, 2), None, times)
    expected = build_batch([NewRecord(5, b"bb", None), NewRecord(5, None, b"333")])
    assert seal_batch(memoryview(records), DEFAULTS, count=2, base_timestamp=5, max_timestamp=5) == expected


def test_a_header_without_a_key_is_refused() -> None:
    headers = pa.array([[{"key": None, "value": b"v"}]], HEADERS)
    with pytest.raises(ValueError, match="no key"):
        to_records(pa.nulls(1, pa.binary()), pa.nulls(1, pa.binary()), headers, np.zeros(1, np.int64))


def test_keys_and_values_are_cut_out_of_the_bytes() -> None:
    keys, values = some_bytes(500, 50), some_bytes(500, 50)
    view = memoryview(build_batch(NewRecord(1, key, value, [("h", b"x")]) for key, value in zip(keys, values, strict=True)))
    (columns,) = decode_columns((header, view[position:]) for position, header in batches(view))
    found = keys_and_values(columns.between(3, 490))
    assert [column.to_pylist() for column in found] == [keys[3:490], values[3:490]]
    assert [len(column) for column in keys_and_values(columns.between(7, 7))] == [0, 0]


def test_all_columns_of_a_row() -> None:
    view = memoryview(build_batch([NewRecord(1_234, b"k", b"v", [("h", None)]), NewRecord(1_235)], base_offset=40))
    (columns,) = decode_columns((header, view[position:]) for position, header in batches(view))
    schema = pa.schema(
        [
            *(("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())),
            *(("timestamp", pa.timestamp("us", "UTC")), ("timestampType", pa.int32()), ("headers", HEADERS)),
        ]
    )
    rows = to_record_batch(columns, "t", 3, schema).to_pylist()
    assert [int(row.pop("timestamp").timestamp() * 1000) for row in rows] == [1_234, 1_235]
    common = {"topic": "t", "partition": 3, "timestampType": 0}
    assert rows == [
        {"key": b"k", "value": b"v", "offset": 40, "headers": [{"key": "h", "value": None}], **common},
        {"key": None, "value": None, "offset": 41, "headers": None, **common},
    ]


@pytest.mark.parametrize(
    ("number", "size"), [(0, 1), (-1, 1), (63, 1), (64, 2), (-65, 2), (8191, 2), (8192, 3), (1 << 61, 9), (-(1 << 63), 10)]
)
def test_sizes_of_numbers(number: int, size: int) -> None:
    assert varint_sizes(np.array([number], np.int64)).tolist() == [size]
