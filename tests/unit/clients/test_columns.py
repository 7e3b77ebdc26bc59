"""◇ The columns hold what a walk from record to record finds, however a batch's records are read."""

import random

import pytest

from moldau.clients.columns import Columns, read_columns
from moldau.protocol.records.alike import read_alike
from moldau.protocol.records.batch import HEADER_SIZE, CorruptBatch, read_header, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec

Row = tuple[int, int, bytes | None, bytes | None]


def walked(batch: bytes | bytearray) -> list[Row]:
    return [
        (one.offset, one.timestamp, None if one.key is None else bytes(one.key), None if one.value is None else bytes(one.value))
        for one in records_of(batch)
    ]


def read(batch: bytes | bytearray) -> Columns:
    view = memoryview(batch)
    return read_columns(read_header(view), view)


def rows(columns: Columns) -> list[Row]:
    return list(zip(columns.offsets, columns.timestamps, columns.keys, columns.values, strict=True))


@pytest.mark.parametrize("count", [1, 15, 16, 63, 64, 65, 200, 8191, 8193, 66_000])
@pytest.mark.parametrize("key_size", [None, 0, 5, 64])
def test_records_of_one_shape(count: int, key_size: int | None) -> None:
    """The numbers of offsets grow by a byte at 64 and at 8,192, and are read together up to 65,536."""
    key = None if key_size is None else bytes(key_size)
    batch = build_batch([NewRecord(1000, key, b"%06d" % number) for number in range(count)], base_offset=70)
    assert rows(read(batch)) == [(70 + number, 1000, key, b"%06d" % number) for number in range(count)]


@pytest.mark.parametrize("seed", range(30))
def test_shapes_that_change(seed: int) -> None:
    """Runs of records alike have any length and come in any order."""
    choice = random.Random(seed)
    records: list[NewRecord] = []
    while len(records) < choice.choice((30, 400, 9000)):
        key = choice.choice((None, None, b"", b"key", bytes(70)))
        value = choice.choice((None, b"", b"value", bytes(63), bytes(64), bytes(300)))
        step = choice.choice((0, 0, 1, -1, 100, -9_000, 3_000_000_000))
        count = choice.choice((1, 1, 5, 16, 17, 100, 5000))
        records += [NewRecord(1_750_000_000_000 + step * number, key, value) for number in range(count)]
    batch = build_batch(records, base_offset=choice.choice((0, 1 << 40)), codec=choice.choice((Codec.NONE, Codec.NONE, Codec.LZ4)))
    assert rows(read(batch)) == walked(batch)


def test_records_alike_are_read_together() -> None:
    """The tests above would not notice if alike records were never read together."""
    batch = build_batch([NewRecord(1000 + number % 3, b"k", b"value") for number in range(300)])
    data = memoryview(batch)[HEADER_SIZE:]
    first = read_alike(data, 0, 0, 300)
    assert first is not None
    assert first.size == 64
    second = read_alike(data, first.end, 64, 300)
    assert second is not None
    assert (second.size, second.end) == (236, len(data))


def test_offsets_with_gaps() -> None:
    """Compaction leaves such gaps."""
    made = build_batch([NewRecord(1000, None, b"value") for _ in range(100)])
    size = (len(made) - HEADER_SIZE - 36) // 100  # the last 36 have a byte more
    kept = bytearray(made[:HEADER_SIZE])
    kept += made[HEADER_SIZE : HEADER_SIZE + 20 * size] + made[HEADER_SIZE + 40 * size :]
    kept[8:12] = (len(kept) - 12).to_bytes(4, "big")
    kept[57:61] = (80).to_bytes(4, "big")
    assert read(kept).offsets == [*range(20), *range(40, 100)]
    assert rows(read(kept)) == walked(kept)


@pytest.mark.parametrize("seed", range(500))
def test_a_damaged_batch_of_one_shape(seed: int) -> None:
    """The columns and the walk say the same of a damaged batch."""
    choice = random.Random(seed)
    key = choice.choice((None, b"key"))
    batch = build_batch([NewRecord(1000, key, b"value") for _ in range(choice.choice((20, 100)))])
    for _ in range(choice.randint(1, 2)):
        batch[choice.randrange(HEADER_SIZE, len(batch))] = choice.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF, choice.randrange(256)))
    try:
        expected = walked(batch)
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            read(batch)
        return
    assert rows(read(batch)) == expected


def test_a_count_that_lies_costs_nothing() -> None:
    batch = build_batch([NewRecord(1000, None, b"value")])
    batch[57:61] = (0x7FFFFFFF).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="2147483647 records in"):
        read(batch)


def mixed(choice: random.Random, count: int) -> bytearray:
    """Records without keys, of any size, and times that take one to three bytes."""
    step = choice.choice((0, 0.1, 3, 40))
    sizes = [choice.choice((0, 1, 62, 63, 64, 65, choice.randrange(300), choice.randrange(2100))) for _ in range(count)]
    return build_batch([NewRecord(1_750_000_000_000 + int(step * number), None, bytes(size)) for number, size in enumerate(sizes)])


@pytest.mark.parametrize("seed", range(20))
def test_records_without_keys_of_any_size(seed: int) -> None:
    choice = random.Random(seed)
    batch = mixed(choice, choice.choice((1, 63, 65, 500, 8_500)))
    assert rows(read(batch)) == walked(batch)


@pytest.mark.parametrize("seed", range(300))
def test_a_changed_byte_is_read_as_a_walk_reads_it(seed: int) -> None:
    choice = random.Random(seed)
    batch = mixed(choice, 20)
    batch[choice.randrange(HEADER_SIZE, len(batch))] = choice.randrange(256)
    try:
        expected = walked(batch)
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            read(batch)
    else:
        assert rows(read(batch)) == expected
