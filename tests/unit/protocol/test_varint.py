from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.protocol.records.batch import CorruptBatch, read_header, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.varint import INT64_BYTES, VarintTooLong, read_signed, read_unsigned, write_signed, write_unsigned
from moldau.storage.cleaner.skim import skim


@given(st.integers(0, (1 << 32) - 1))
def test_unsigned_numbers_come_back(number: int) -> None:
    raw = write_unsigned(number)
    assert read_unsigned(b"\xff" + raw + b"\x01", 1) == (number, 1 + len(raw))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_zig_zag_numbers_come_back(number: int) -> None:
    raw = write_signed(number)
    assert read_signed(b"\xff" + raw + b"\x01", 1, INT64_BYTES) == (number, 1 + len(raw))


def test_small_numbers_of_either_sign_are_small() -> None:
    assert [write_signed(number).hex() for number in (0, -1, 1, -2, 63, -64, 64)] == ["00", "01", "02", "03", "7e", "7f", "8001"]


@pytest.mark.parametrize("raw", [b"\xff" * 5 + b"\x01", b"\xff\xff\xff\xff\x10", b"\xff" * 99])
def test_a_number_beyond_32_bits_is_refused(raw: bytes) -> None:
    with pytest.raises(VarintTooLong):
        read_unsigned(raw, 0)


@pytest.mark.parametrize("max_bytes", [5, 10])
def test_a_number_of_more_bytes_than_its_type_is_refused(max_bytes: int) -> None:
    assert read_signed(b"\xff" * (max_bytes - 1) + b"\x01", 0, max_bytes)[1] == max_bytes
    with pytest.raises(VarintTooLong, match=f"more than {max_bytes} bytes"):
        read_signed(b"\xff" * max_bytes + b"\x01", 0, max_bytes)


@pytest.mark.parametrize("raw", [b"", b"\xff", b"\xff" * 4])
def test_a_number_that_is_cut_is_an_index_error(raw: bytes) -> None:
    for read in (read_unsigned, read_signed):
        with pytest.raises(IndexError):
            read(raw, 0)


def hostile(fill: bytes, size: int, count: int) -> bytes:
    """A batch that claims `count` records and repeats `fill` in their place."""
    whole = bytearray(build_batch([NewRecord(0, b"k", b"v")]))[:61] + fill * (size // len(fill))
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    whole[57:61] = count.to_bytes(4, "big")
    return bytes(whole)


def cost_of(batch: bytes) -> float:
    """Seconds of CPU for one look into the batch in both ways, the least of some tries."""
    header = read_header(batch)
    costs = []
    for _ in range(5):
        before = process_time()
        with pytest.raises(CorruptBatch):
            skim(header, batch, 0)
        with pytest.raises(CorruptBatch):
            list(records_of(batch))
        costs.append(process_time() - before)
    return min(costs)


@pytest.mark.parametrize(
    "fill", [b"\xff", b"\x80", b"\x02\xff", b"\x02\x00\xff", b"\x0e\x00\xff\xff", b"\x0c\x00\x00\x00\xff\xff\xff", b"\x00"]
)
def test_numbers_without_an_end_cost_no_more_in_a_larger_batch(fill: bytes) -> None:
    """80 KB of 0xFF once held a loop for 0.77 s, and twice as many bytes held it for four times as long."""
    small, large = (cost_of(hostile(fill, size, 1000)) for size in (64 << 10, 1 << 20))
    assert large < 0.005 + 8 * small, "the large batch has sixteen times the bytes"
