"""Other people's libraries build and read the same batches as we do."""

from collections.abc import Callable
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest

from moldau.protocol.records.batch import read_header, records_of, verify_crc
from moldau.protocol.records.builder import BatchOptions, NewRecord, RecordBatchBuilder, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.varint import write_signed

RECORDS = [
    NewRecord(1_700_000_000_000, b"k", b"v" * 300),
    NewRecord(1_700_000_000_005, None, b"", [("trace", b"\x00\x01"), ("note", None)]),
    NewRecord(1_699_999_999_000, b"", None),
    NewRecord(1_700_000_009_000, b"x" * 70, b"y" * 70_000),
]
THEIR_LIBRARIES = [
    pytest.param(kafka_python_records.DefaultRecordBatchBuilder, kafka_python_records.DefaultRecordBatch, id="kafka-python"),
    pytest.param(aiokafka_records.DefaultRecordBatchBuilder, aiokafka_records.DefaultRecordBatch, id="aiokafka"),
]


def built_by(builder: Callable[..., Any], codec: Codec, *, transactional: bool = False) -> bytes:
    theirs = builder(2, int(codec), transactional, 4000, 3, 17, 1 << 20)
    for offset, one in enumerate(RECORDS):
        theirs.append(offset, one.timestamp, one.key, one.value, list(one.headers))
    return bytes(theirs.build())


def built_by_us(codec: Codec, *, transactional: bool = False, leader_epoch: int = -1) -> bytearray:
    return build_batch(
        RECORDS,
        codec=codec,
        producer_id=4000,
        producer_epoch=3,
        base_sequence=17,
        is_transactional=transactional,
        leader_epoch=leader_epoch,
    )


@pytest.mark.parametrize(("builder", "batch"), THEIR_LIBRARIES)
@pytest.mark.parametrize("transactional", [False, True])
def test_plain_batches_are_equal_byte_for_byte(builder: Callable[..., Any], batch: Callable[..., Any], transactional: bool) -> None:
    theirs = built_by(builder, Codec.NONE, transactional=transactional)
    leader_epoch = read_header(theirs).partition_leader_epoch  # kafka-python writes 0 where Java and aiokafka write -1
    assert bytes(built_by_us(Codec.NONE, transactional=transactional, leader_epoch=leader_epoch)) == theirs


@pytest.mark.parametrize(("builder", "batch"), THEIR_LIBRARIES)
@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_each_reads_the_others_compressed_batches(builder: Callable[..., Any], batch: Callable[..., Any], codec: Codec) -> None:
    if not has_codec(codec, builder):
        pytest.skip(f"this library needs one more package for {codec.name}")
    theirs = batch(built_by_us(codec))
    assert theirs.validate_crc()
    read = [(one.offset, one.timestamp, one.key, one.value, list(one.headers)) for one in theirs]
    assert read == [(offset, *one[:3], list(one.headers)) for offset, one in enumerate(RECORDS)]
    ours = memoryview(built_by(builder, codec))
    assert verify_crc(ours, 0, read_header(ours))
    assert [(one.timestamp, one.key, one.value) for one in records_of(ours)] == [one[:3] for one in RECORDS]


def has_codec(codec: Codec, builder: Callable[..., Any]) -> bool:
    try:
        built_by(builder, codec)
    except Exception as error:
        if type(error).__name__ == "UnsupportedCodecError":
            return False
        raise
    return True


def test_offsets_may_have_gaps_and_the_end_is_kept() -> None:
    batch = build_batch([NewRecord(1, b"a", offset=12), NewRecord(2, b"b", offset=15)], base_offset=10, last_offset=19)
    assert [one.offset for one in records_of(batch)] == [12, 15]
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.records_count) == (10, 19, 2)


def test_offsets_only_grow() -> None:
    builder = RecordBatchBuilder(BatchOptions(base_offset=10))
    builder.append(NewRecord(1, offset=12))
    with pytest.raises(AssertionError, match="offset 12 is not above 12"):
        builder.append(NewRecord(1, offset=12))


def test_an_empty_batch_keeps_its_place() -> None:
    batch = build_batch([], base_offset=5, last_offset=9, producer_id=1, producer_epoch=0, base_sequence=3)
    header = read_header(batch)
    assert (header.size, header.last_offset, header.records_count, header.last_sequence) == (61, 9, 0, 7)
    assert list(records_of(batch)) == []


def test_a_delete_horizon_takes_the_base_timestamps_place() -> None:
    batch = build_batch([NewRecord(500, b"a", None)], delete_horizon_ms=9_000)
    header = read_header(batch)
    assert (header.has_delete_horizon, header.base_timestamp, header.max_timestamp) == (True, 9_000, 500)
    assert [one.timestamp for one in records_of(batch)] == [500]


def test_log_append_time() -> None:
    batch = build_batch([NewRecord(1), NewRecord(2)], log_append_time_ms=50)
    assert [one.timestamp for one in records_of(batch)] == [50, 50]


def test_size_before_compression_is_exact() -> None:
    builder = RecordBatchBuilder()
    for one in RECORDS:
        builder.append(one)
    assert (builder.size, len(builder), builder.next_offset) == (len(builder.build()), 4, 4)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (2**31 - 1, "feffffff0f")],
)
def test_varints(value: int, encoded: str) -> None:
    assert write_signed(value).hex() == encoded


def test_the_longest_number_takes_ten_bytes() -> None:
    assert write_signed(-(1 << 63)).hex() == "ff" * 9 + "01"
