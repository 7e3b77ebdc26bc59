"""Headers, offsets, CRC and records of a batch, well-formed and hostile."""

from struct import pack

import pytest

from moldau.protocol.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    UnsupportedMagic,
    batches,
    next_sequence,
    patch_max_timestamp_log_append,
    patch_offsets,
    read_header,
    records_of,
    verify_crc,
)
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.varint import write_signed
from moldau.types import NO_SEQUENCE

COUNT_AT = 57
ATTRIBUTES_AT = 21


def a_batch(count: int = 3, **options: object) -> bytearray:
    return build_batch([NewRecord(1000 + number, b"key", b"value %d" % number) for number in range(count)], **options)  # type: ignore[arg-type]


def around(payload: bytes, count: int = 1) -> bytearray:
    """A batch whose records are these very bytes."""
    batch = build_batch([])
    batch += payload
    batch[8:12] = pack(">i", len(batch) - 12)
    batch[COUNT_AT : COUNT_AT + 4] = pack(">i", count)
    return batch


def record(body: bytes) -> bytes:
    return write_signed(len(body)) + body


def test_header_reads_what_was_built() -> None:
    batch = a_batch(
        base_offset=7, leader_epoch=2, producer_id=9, producer_epoch=1, base_sequence=5, is_transactional=True, codec=Codec.ZSTD
    )
    header = read_header(memoryview(b"..." + batch), 3)
    assert (header.base_offset, header.last_offset, header.next_offset) == (7, 9, 10)
    assert (header.size, header.magic, header.partition_leader_epoch) == (len(batch), 2, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (9, 1, 5, 7)
    assert (header.base_timestamp, header.max_timestamp, header.records_count) == (1000, 1002, 3)
    assert (header.codec, header.is_transactional, header.is_control) == (Codec.ZSTD, True, False)
    assert header.timestamp_type == TimestampType.CREATE_TIME


def test_without_a_sequence_there_is_no_last_one() -> None:
    assert read_header(a_batch()).last_sequence == NO_SEQUENCE


@pytest.mark.parametrize(
    ("sequence", "count", "following"), [(0, 1, 1), (0x7FFFFFFE, 1, 0x7FFFFFFF), (0x7FFFFFFF, 1, 0), (0x7FFFFFFF, 3, 2)]
)
def test_sequences_wrap(sequence: int, count: int, following: int) -> None:
    assert next_sequence(sequence, count) == following


def test_every_unknown_codec_is_corrupt() -> None:
    for number in (5, 6, 7):
        batch = a_batch()
        batch[ATTRIBUTES_AT + 1] |= number
        with pytest.raises(CorruptBatch, match=f"codec {number}"):
            list(records_of(batch))


def test_batches_one_after_the_other() -> None:
    view = memoryview(bytes(a_batch() + a_batch(5, base_offset=3)))
    assert [(position, header.base_offset) for position, header in batches(view)] == [(0, 0), (len(a_batch()), 3)]


@pytest.mark.parametrize("kept", [1, 11, 12, 17, 60, 61, 62, -1])
def test_a_torn_batch_is_left_out_or_refused(kept: int) -> None:
    whole = a_batch()
    torn = memoryview(bytes(whole + a_batch()[:kept]))
    assert [position for position, _ in batches(torn)] == [0]
    left = len(torn) - len(whole)
    with pytest.raises(CorruptBatch, match=rf"\b{left} (bytes )?are left"):
        list(batches(torn, strict=True))


def test_the_flags_of_a_batch() -> None:
    for attributes, flags in ((0, ()), (0x10, ("is_transactional",)), (0x20, ("is_control",)), (0x40, ("has_delete_horizon",))):
        batch = a_batch()
        batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = pack(">h", attributes)
        header = read_header(batch)
        assert tuple(name for name in ("is_transactional", "is_control", "has_delete_horizon") if getattr(header, name)) == flags
        assert header.timestamp_type == TimestampType.CREATE_TIME


@pytest.mark.parametrize("length", [-1, 0, 48, -0x80000000])
def test_a_length_below_the_headers_is_corrupt(length: int) -> None:
    batch = a_batch()
    batch[8:12] = pack(">i", length)
    with pytest.raises(CorruptBatch, match="header alone"):
        list(batches(batch))


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_magics_are_refused_by_number(magic: int) -> None:
    batch = a_batch()
    batch[16] = magic
    for attempt in (lambda: read_header(batch), lambda: list(batches(batch)), lambda: list(records_of(batch))):
        with pytest.raises(UnsupportedMagic, match=f"magic {magic}:"):
            attempt()


def test_a_message_set_shorter_than_our_header_is_still_recognised() -> None:
    magic_0 = pack(">qiIbbii", 0, 14, 0, 0, 0, -1, -1)
    for attempt in (lambda: read_header(magic_0), lambda: list(batches(magic_0))):
        with pytest.raises(UnsupportedMagic, match="magic 0:"):
            attempt()
    behind = memoryview(bytes(a_batch()) + magic_0)
    with pytest.raises(UnsupportedMagic, match="magic 0:"):
        list(batches(behind))
    cut_before_its_magic = behind[: len(a_batch()) + 16]
    assert len(list(batches(cut_before_its_magic))) == 1


def test_crc_covers_what_follows_it() -> None:
    batch = a_batch(base_offset=4)
    view = memoryview(batch)
    header = read_header(view)
    assert verify_crc(view, 0, header)
    for position in (*range(21, len(batch)), 17, 20):
        batch[position] ^= 1
        assert not verify_crc(view, 0, read_header(view)), position
        batch[position] ^= 1
    for position in (*range(8), 12, 15):
        batch[position] ^= 1
        assert verify_crc(view, 0, read_header(view)), position
        batch[position] ^= 1
    assert not verify_crc(view[:-1], 0, header)


def test_offsets_are_patched_in_place_outside_the_crc() -> None:
    view = memoryview(bytearray(b"###" + a_batch()))
    patch_offsets(view, 3, 1 << 40, 17)
    header = read_header(view, 3)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 17)
    assert verify_crc(view, 3, header)
    assert [one.offset for one in records_of(view[3:])] == [(1 << 40) + delta for delta in range(3)]


def test_log_append_time_is_patched_with_a_new_crc() -> None:
    view = memoryview(bytearray(b"###" + a_batch()))
    patch_max_timestamp_log_append(view, 3, read_header(view, 3), 77_000)
    header = read_header(view, 3)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 77_000)
    assert verify_crc(view, 3, header)
    assert [one.timestamp for one in records_of(view[3:])] == [77_000] * 3


def test_records_are_views_of_the_batch() -> None:
    batch = bytes(a_batch(1))
    (only,) = records_of(batch)
    assert isinstance(only.value, memoryview)
    assert only.value.obj is batch
    assert only == (0, 1000, b"key", b"value 0", ())


def test_nulls_empties_and_headers() -> None:
    headers = [("a", b"1"), ("ü", None), ("", b"")]
    batch = build_batch([NewRecord(5, None, None), NewRecord(4, b"", b"", headers)])
    first, second = records_of(batch)
    assert first == (0, 5, None, None, ())
    assert second == (1, 4, b"", b"", tuple(headers))


def test_a_header_key_that_is_not_text_is_read_as_java_reads_it() -> None:
    (only,) = records_of(around(record(b"\x00\x00\x00\x01\x01\x02\x02\xff\x01")))
    assert [header.shown_key for header in only.headers] == ["\ufffd"]
    assert [header.key.encode("utf-8", "surrogateescape") for header in only.headers] == [b"\xff"]


@pytest.mark.parametrize(
    ("payload", "count", "reason"),
    [
        (b"", 1, "within record 0"),
        (record(b"\x00\x00\x00\x01\x01\x00"), 2, "within record 1"),
        (record(b"\x00\x00\x00\x01\x01\x00") * 2, 1, "left after the 1 records"),
        (record(b"\x00\x00\x00\x01\x01\x00"), -1, "-1 records"),
        (record(b"\x00\x00\x00\x01\x01\x00"), 0x7FFFFFFF, "within record 1"),
        (write_signed(-5) + bytes(20), 1, "-5 bytes"),
        (write_signed(1 << 30) + bytes(20), 1, "says it has 1073741824 bytes"),
        (b"\xff\xff\xff\xff\xff\x01" + bytes(20), 1, "more than 5 bytes"),
        (record(b"\x00" + b"\xff" * 10 + b"\x01" + bytes(10)), 1, "more than 10 bytes"),
        (record(b"\x00\x00\x00" + write_signed(100) + bytes(5)), 1, "says it has 100 bytes"),
        (record(b"\x00\x00\x00\x01" + write_signed(1 << 29) + bytes(5)), 1, "says it has 536870912 bytes"),
        (record(b"\x00\x00\x00\x01\x01" + write_signed(-1)), 1, "-1 headers"),
        (record(b"\x00\x00\x00\x01\x01" + write_signed(1 << 29) + bytes(9)), 1, "536870912 headers"),
        (record(b"\x00\x00\x00\x01\x01\x02\x01\x01"), 1, "no key"),
        (record(b"\x00\x00\x00\x01\x01\x04\x00\x01\x00"), 1, "says it has 2 headers in the 3 bytes left"),
        (record(b"\x00\x00\x00\x06abc\x01\x00") + record(b""), 2, "within record 1"),
        (record(b"\x00\x00\x00\x0aabc\x00"), 1, "says it has 5 bytes, 4 are left in its record"),
        (record(b"\x00\x00\x00\x01\x01\x00\x00"), 1, "fields end at"),
        (record(b"\x00\x00\x00\x01\x01") + b"\x00", 1, "fields end at"),
    ],
)
def test_hostile_records(payload: bytes, count: int, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        list(records_of(around(payload, count)))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_bomb_stops_at_the_cap(codec: Codec) -> None:
    batch = build_batch([NewRecord(0, None, bytes(3_000_000))], codec=codec)
    assert len(batch) < 200_000
    with pytest.raises(CorruptBatch, match="more than 100000"):
        list(records_of(batch, max_bytes=100_000))


def test_a_torn_batch_has_no_records() -> None:
    with pytest.raises(CorruptBatch, match="a batch says it has"):
        list(records_of(a_batch()[:-1]))


def test_header_layout_is_kafkas() -> None:
    assert HEADER_SIZE == 61
    raw = pack(">qiibIhiqqqhii", 1, 49, 3, 2, 5, 0, 6, 7, 8, 9, 10, 11, 0)
    assert read_header(raw) == BatchHeader(1, 49, 3, 2, 5, 0, 6, 7, 8, 9, 10, 11, 0)
