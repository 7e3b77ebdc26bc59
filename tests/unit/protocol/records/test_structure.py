import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.protocol.records.batch import HEADER_SIZE, CorruptBatch, read_header, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.records.structure import are_plain_records, check_structure

some_bytes = st.none() | st.binary(max_size=200)
some_headers = st.lists(st.tuples(st.text(max_size=3), some_bytes), max_size=3)
some_records = st.lists(
    st.tuples(st.sampled_from([1000, 1063, 1064, 10**12]), some_bytes, some_bytes, some_headers).map(lambda parts: NewRecord(*parts)),
    min_size=1,
    max_size=9,
)


def is_read(batch: bytes) -> bool:
    try:
        found = list(records_of(batch))
    except CorruptBatch:
        return False
    header = read_header(batch)
    return all(header.base_offset <= record.offset <= header.last_offset for record in found)


def passes(batch: bytes) -> bool:
    try:
        check_structure(batch, read_header(batch))
    except CorruptBatch:
        return False
    return True


@given(some_records, st.sampled_from(list(Codec)))
def test_what_a_builder_makes_passes(records: list[NewRecord], codec: Codec) -> None:
    assert passes(bytes(build_batch(records, codec=codec)))


@given(some_records, st.data())
def test_it_refuses_what_cannot_be_read_and_nothing_else(records: list[NewRecord], data: st.DataObject) -> None:
    batch = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    assert passes(bytes(batch)) == is_read(bytes(batch))


@given(st.binary(max_size=60), st.integers(0, 4))
def test_it_agrees_with_the_reader_on_any_bytes(payload: bytes, count: int) -> None:
    batch = bytearray(build_batch([NewRecord(0, b"k", b"v")]))[:HEADER_SIZE] + payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[23:27], batch[57:61] = (9).to_bytes(4, "big"), count.to_bytes(4, "big")
    assert passes(bytes(batch)) == is_read(bytes(batch))


@given(some_bytes, st.none() | st.integers(0, 9000).map(bytes))
def test_one_plain_record_is_known_by_its_sizes(key: bytes | None, value: bytes | None) -> None:
    batch = bytes(build_batch([NewRecord(1000, key, value)]))
    is_small = len(batch) - HEADER_SIZE < 1 << 13
    assert are_plain_records(batch, HEADER_SIZE, len(batch), 1) == is_small or abs(len(batch) - HEADER_SIZE - (1 << 13)) < 3


@given(st.data())
def test_what_counts_as_plain_records_can_be_read(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 3) | st.integers(60, 70))
    sizes = st.integers(0, 70) | st.integers(0, 300)
    records = [NewRecord(at, data.draw(st.none() | sizes.map(bytes)), data.draw(st.none() | sizes.map(bytes))) for at in range(count)]
    batch = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(HEADER_SIZE, min(HEADER_SIZE + 12, len(batch) - 1)) | st.integers(HEADER_SIZE, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]))
    if are_plain_records(bytes(batch), HEADER_SIZE, len(batch), count):
        assert [record.offset for record in records_of(bytes(batch))] == list(range(count))


@pytest.mark.parametrize(
    "record",
    [
        b"\x10\0\0\0\x02k\1\0\0",  # a byte behind the headers
        b"\x0e\0\0\0\x02k\1\x02",  # a header is said to follow
        b"\x8e\x80\0\0\0\0\x02k\1\0",  # a size of three bytes
        b"\x0f\0\0\0\x02k\1\0",  # a negative size
        b"\x0e\0\0\x02\x02k\1\0",  # another offset
        b"\x0e\0\0\0\x02k\1\0\0",  # bytes left over
        b"\x0e\0\0\0\x02k\1",  # too few
    ],
)
def test_what_only_looks_like_a_plain_record(record: bytes) -> None:
    assert are_plain_records(b"\x0e\0\0\0\x02k\1\0", 0, 8, 1)
    assert not are_plain_records(record, 0, len(record), 1)


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"", "bytes end within record 0"),
        (b"\x01", "negative number"),
        (b"\xff" * 20, "more than 5 bytes"),
        (b"\x0e\0\0\x06\1\1\0\0", "3 offsets behind"),
    ],
)
def test_it_says_what_is_wrong(payload: bytes, says: str) -> None:
    batch = bytearray(build_batch([NewRecord(0, b"k", b"v")]))[:HEADER_SIZE] + payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match=says):
        check_structure(bytes(batch), read_header(batch))
