"""Columns say what records say."""

import random

import pytest

from moldau.protocol.records.batch import HEADER_SIZE, CorruptBatch, batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.columns import decode_columns
from moldau.protocol.records.compression import Codec

RANDOM = random.Random(7)


def some_bytes() -> bytes | None:
    return RANDOM.choice([None, b"", b"k", RANDOM.randbytes(70), RANDOM.randbytes(9_000)])


def some_records(count: int) -> list[NewRecord]:
    headers = [(), (("h", None),), (("é", b"1"), ("", b""))]
    return [NewRecord(1_000 + RANDOM.randint(-5, 1 << 40), some_bytes(), some_bytes(), RANDOM.choice(headers)) for _ in range(count)]


def whole(*parts: bytes | bytearray) -> list[object]:
    view = memoryview(b"".join(parts))
    return [(header, view[position : position + header.size]) for position, header in batches(view)]


def as_rows(columns: object) -> list[object]:
    rows = []
    for found in columns:  # type: ignore[attr-defined]
        headers = found.header_lists()
        for row in range(len(found)):
            key, value = (
                None if size < 0 else bytes(found.data[start : start + size])
                for start, size in (
                    (int(found.key_starts[row]), int(found.key_sizes[row])),
                    (int(found.value_starts[row]), int(found.value_sizes[row])),
                )
            )
            told = [(one.key, None if one.value is None else bytes(one.value)) for one in headers[row]]
            rows.append((int(found.offsets[row]), int(found.timestamps[row]), key, value, told))
    return rows


def expected(found: list[object]) -> list[object]:
    return [
        (
            record.offset,
            record.timestamp,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
            [(one.key, None if one.value is None else bytes(one.value)) for one in record.headers],
        )
        for _, batch in found  # type: ignore[misc]
        for record in records_of(batch)  # type: ignore[has-type]
    ]


@pytest.mark.parametrize("codec", Codec)
def test_columns_are_the_records(codec: Codec) -> None:
    parts = [build_batch(some_records(count), base_offset=1_000 * number, codec=codec) for number, count in enumerate((1, 200, 0, 17))]
    parts.append(build_batch(some_records(5), base_offset=9_000, log_append_time_ms=77, codec=codec))
    found = whole(*parts)
    assert as_rows(decode_columns(found)) == expected(found)  # type: ignore[arg-type]
    assert as_rows(decode_columns(found, bytes_at_once=1)) == expected(found), "in many groups, too"  # type: ignore[arg-type]


def test_a_range_of_offsets_is_cut_out() -> None:
    found = whole(build_batch([NewRecord(1, None, b"v", offset=offset) for offset in (10, 12, 19)], base_offset=10))
    (columns,) = decode_columns(found)  # type: ignore[arg-type]
    assert columns.between(11, 19).offsets.tolist() == [12]
    assert columns.between(0, 100).offsets.tolist() == [10, 12, 19]


def test_nothing_gives_nothing() -> None:
    assert list(decode_columns([])) == []


def test_damaged_bytes_are_refused_or_read_as_records_are() -> None:
    """The CRC is not looked at here."""
    good = build_batch([NewRecord(1_000 + number, b"key", b"v" * number, [("h", b"x")] * (number % 3)) for number in range(20)])
    refused = 0
    for _ in range(3_000):
        bad = bytearray(good)
        for _ in range(RANDOM.randint(1, 3)):
            bad[RANDOM.randrange(57, len(bad))] = RANDOM.randrange(256)
        found = whole(bad)
        try:
            rows = as_rows(decode_columns(found))  # type: ignore[arg-type]
        except CorruptBatch:
            refused += 1
            with pytest.raises(CorruptBatch):
                expected(found)
        else:
            assert rows == expected(found)
    assert refused > 1_000


def test_a_count_that_cannot_be_is_refused_before_anything_is_made() -> None:
    bad = build_batch([NewRecord(1, b"k", b"v")])
    bad[57:61] = (1 << 30).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="says it has 1073741824 records"):
        list(decode_columns(whole(bad)))  # type: ignore[arg-type]


def test_runs_of_one_size_are_found_and_no_other_record_with_them() -> None:
    """Around the number of records after which the next ones are looked at together, and where a run is cut by one size or by the end."""
    sizes = [length for count in (1, 31, 32, 33, 34, 200, 1, 160, 161) for length in [RANDOM.choice([5, 57, 58, 9_000])] * count]
    for cut in (0, 1, 30, 65, 400):
        records = [NewRecord(1_000, None, RANDOM.randbytes(size)) for size in sizes[cut:]]
        found = whole(build_batch(records), build_batch(records[:40]))
        assert as_rows(decode_columns(found)) == expected(found)


def test_a_run_that_is_broken_is_corrupt() -> None:
    records = [NewRecord(1_000, None, bytes(50)) for _ in range(300)]
    (header, batch), *_ = whole(build_batch(records))  # type: ignore[misc]
    (good,) = decode_columns([(header, batch)])
    for record in (40, 150, 299):
        broken = bytearray(batch)
        broken[HEADER_SIZE + int(good.ends[record - 1])] += 2
        with pytest.raises(CorruptBatch):
            list(decode_columns([(header, memoryview(broken))]))
