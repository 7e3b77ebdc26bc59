import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.protocol.records.batch import HEADER_SIZE, CorruptBatch, read_header, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.records.structure import check_structure

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
