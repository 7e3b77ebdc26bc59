import dataclasses
import struct

import pytest
from crc32c import crc32c

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.records.control import build_end_txn_marker
from moldau.storage.config import LogConfig
from moldau.storage.validator import (
    LIGHT_RECORDS,
    AppendFailure,
    Examined,
    Rules,
    Unexamined,
    check_client_batch,
    examine,
    examine_if_light,
    wants_examination,
)

NOW = 1_700_000_000_000
DEFAULTS = LogConfig.load({})
HOUR = 3_600_000


def rules(**options: object) -> Rules:
    return Rules.of(dataclasses.replace(DEFAULTS, **options))  # type: ignore[arg-type]


def a_batch(*timestamps: int, key: bytes | None = b"k", **options: object) -> bytearray:
    return build_batch([NewRecord(timestamp, key, b"v") for timestamp in timestamps or (NOW,)], **options)  # type: ignore[arg-type]


def checked(records: bytearray, given: Rules | None = None) -> BatchHeader | AppendFailure:
    """Checks a batch as an append does: the header, then the records where that is asked for."""
    given = given or rules()
    header = check_client_batch(records, given)
    if isinstance(header, AppendFailure) or not wants_examination(header, given, NOW):
        return header
    examined = examine(records, given, NOW)
    return examined if isinstance(examined, AppendFailure) else header


def refusal(records: bytearray, given: Rules | None = None) -> AppendFailure:
    result = checked(records, given)
    assert isinstance(result, AppendFailure), result
    return result


def rebuilt(records: bytearray, given: Rules) -> bytearray:
    examined = examine(records, given, NOW)
    assert isinstance(examined, Examined) and examined.rebuilt is not None, examined
    return examined.rebuilt


def with_field(position: int, value: bytes, *, valid_crc: bool = True) -> bytearray:
    batch = a_batch(NOW, NOW)
    batch[position : position + len(value)] = value
    if valid_crc:
        batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (bytearray(), ErrorCode.INVALID_RECORD),
        (a_batch()[: HEADER_SIZE - 1], ErrorCode.INVALID_RECORD),
        (a_batch()[:-1], ErrorCode.INVALID_RECORD),
        (a_batch() + a_batch(), ErrorCode.INVALID_RECORD),
        (a_batch() + b"x", ErrorCode.INVALID_RECORD),
        (with_field(16, b"\1"), ErrorCode.INVALID_RECORD),
        (with_field(0, b"\0\0\0\0\0\0\0\5"), ErrorCode.INVALID_RECORD),
        (with_field(57, b"\0\0\0\3"), ErrorCode.INVALID_RECORD),
        (with_field(57, b"\0\0\0\0"), ErrorCode.INVALID_RECORD),
        (with_field(23, b"\0\0\0\5"), ErrorCode.INVALID_RECORD),
        (with_field(23, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (with_field(43, b"\0\0\0\0\0\0\0\5"), ErrorCode.INVALID_RECORD),
        (with_field(21, b"\0\7"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (with_field(65, b"!", valid_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (with_field(8, b"\0\0\0\5"), ErrorCode.CORRUPT_MESSAGE),
        (
            build_end_txn_marker(is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW),
            ErrorCode.INVALID_RECORD,
        ),
    ],
    ids=[
        "nothing",
        "a cut header",
        "a cut batch",
        "two batches",
        "bytes after the batch",
        "magic 1",
        "base offset not 0",
        "too many records declared",
        "no records declared",
        "a last offset beyond the records",
        "a negative last offset",
        "a producer without a sequence",
        "an unknown codec",
        "a wrong CRC",
        "a length that cannot be",
        "a control batch",
    ],
)
def test_what_a_client_may_not_send(records: bytearray, error: ErrorCode) -> None:
    assert refusal(records).error is error


def test_a_good_batch_is_its_header() -> None:
    batch = a_batch(NOW, NOW + 1, producer_id=5, producer_epoch=0, base_sequence=3)
    header = checked(batch, rules())
    assert header == read_header(batch)


def test_size_is_counted_as_it_came() -> None:
    batch = a_batch()
    assert isinstance(checked(batch, rules(max_message_bytes=len(batch))), BatchHeader)
    assert refusal(batch, rules(max_message_bytes=len(batch) - 1)).error is ErrorCode.MESSAGE_TOO_LARGE


def test_timestamps_must_lie_near_the_brokers() -> None:
    assert isinstance(checked(a_batch(NOW + HOUR), rules()), BatchHeader)
    late = refusal(a_batch(NOW, NOW + HOUR + 1))
    assert late.error is ErrorCode.INVALID_TIMESTAMP and [index for index, _ in late.record_errors] == [1]
    assert isinstance(checked(a_batch(0), rules()), BatchHeader)
    early = refusal(a_batch(NOW, NOW - 1001), rules(message_timestamp_before_max_ms=1000))
    assert early.error is ErrorCode.INVALID_TIMESTAMP and [index for index, _ in early.record_errors] == [1]
    assert isinstance(checked(a_batch(-1), rules(message_timestamp_before_max_ms=1000)), BatchHeader)
    assert isinstance(checked(a_batch(0), rules(message_timestamp_type="LogAppendTime")), BatchHeader)


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_topics_want_keys(codec: Codec) -> None:
    compacted = rules(cleanup_policy=("compact", "delete"))
    records = [NewRecord(NOW, b"k", b"1"), NewRecord(NOW, None, b"2"), NewRecord(NOW, None, b"3")]
    failure = refusal(build_batch(records, codec=codec), compacted)
    assert failure.error is ErrorCode.INVALID_RECORD
    assert failure.record_errors == tuple((index, "Compacted topic cannot accept message without key") for index in (1, 2))
    assert isinstance(checked(a_batch(codec=codec), compacted), BatchHeader)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_more_records_than_the_bytes_can_hold_are_refused(codec: Codec) -> None:
    """Each record would move the log on by an offset."""
    records = a_batch(NOW, codec=codec)
    for count in (2**31 - 1, 10_000):
        struct.pack_into(">i", records, 23, count - 1)
        struct.pack_into(">i", records, 57, count)
        struct.pack_into(">I", records, 17, crc32c(bytes(records[21:])))
        assert refusal(records).error == ErrorCode.INVALID_RECORD


def test_records_that_cannot_be_read_are_refused_where_they_are_looked_at() -> None:
    batch = with_field(HEADER_SIZE, b"\x7f")
    assert refusal(batch, rules(cleanup_policy=("compact",))).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_broker_compresses_anew_where_the_topic_says_so(target: str) -> None:
    given = rules(compression_type=target)
    source = Codec.LZ4 if target != "lz4" else Codec.ZSTD
    batch = build_batch(
        [NewRecord(NOW, b"k%d" % n, b"v" * 50, [("h", b"1")]) for n in range(5)],
        codec=source,
        producer_id=9,
        producer_epoch=1,
        base_sequence=4,
        is_transactional=True,
    )
    header = read_header(batch)
    assert wants_examination(header, given, NOW)
    anew = rebuilt(batch, given)
    after = read_header(anew)
    assert after.codec is Codec.from_name(target)
    assert (after.producer_id, after.producer_epoch, after.base_sequence, after.is_transactional) == (9, 1, 4, True)
    assert [(bytes(r.key or b""), r.timestamp, r.headers[0].key) for r in records_of(anew)] == [(b"k%d" % n, NOW, "h") for n in range(5)]
    assert isinstance(checked(anew, given), BatchHeader)


@pytest.mark.parametrize("target", ["uncompressed", "gzip"])
def test_header_keys_that_are_no_utf8_keep_their_bytes_when_the_broker_compresses_anew(target: str) -> None:
    raw = b"caf\xe9\xff\xed\xa0\x80 \xe2\x82\xac"
    batch = build_batch([NewRecord(NOW, b"k", b"v", [(raw.decode("utf-8", "surrogateescape"), b"1")])], codec=Codec.ZSTD)
    anew = rebuilt(batch, rules(compression_type=target))
    (record,) = records_of(anew)
    assert record.headers[0].key.encode("utf-8", "surrogateescape") == raw
    record.headers[0].shown_key.encode("utf-8")
    if target == "uncompressed":
        assert raw in anew


def test_what_grows_beyond_the_limit_is_too_large() -> None:
    batch = build_batch([NewRecord(NOW, b"k", b"v" * 10_000)], codec=Codec.ZSTD)
    failure = examine(batch, rules(compression_type="uncompressed", max_message_bytes=1000), NOW)
    assert isinstance(failure, AppendFailure) and failure.error is ErrorCode.MESSAGE_TOO_LARGE


def test_light_records_are_examined_here_and_heavy_ones_elsewhere() -> None:
    compacted, gzipped = rules(cleanup_policy=("compact",)), rules(compression_type="gzip")

    def answer(batch: bytearray, given: Rules) -> object:
        return examine_if_light(batch, read_header(batch), given, NOW)

    few, many = a_batch(NOW, NOW), a_batch(*[NOW] * 2_001)
    large = build_batch([NewRecord(NOW, b"k", bytes(70_000))])
    bomb = build_batch([NewRecord(NOW, b"k", bytes(1_100_000))], codec=Codec.ZSTD)
    assert answer(few, compacted) == Examined(compacted, None)
    assert answer(many, compacted) == Unexamined(compacted)
    assert answer(large, compacted) == Examined(compacted, None), "its one key is found at once"
    assert answer(large, gzipped) == answer(bomb, gzipped) == Unexamined(gzipped)
    assert answer(bomb, compacted) == Unexamined(compacted), "the batch is small as it came"
    assert examine(bomb, compacted, NOW) == Examined(compacted, None)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_what_cannot_be_decompressed_is_refused(codec: Codec) -> None:
    batch = a_batch(NOW, codec=codec)
    batch[HEADER_SIZE + 2 :] = bytes(len(batch) - HEADER_SIZE - 2)
    failure = examine(batch, rules(compression_type="uncompressed"), NOW)
    assert isinstance(failure, AppendFailure) and failure.error is ErrorCode.INVALID_RECORD


def with_records(batch: bytearray, payload: bytes, count: int | None = None) -> bytearray:
    """The same header over other records, with the CRC that belongs to them."""
    changed = bytearray(batch[:HEADER_SIZE]) + payload
    changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
    if count is not None:
        changed[23:27], changed[57:61] = (count - 1).to_bytes(4, "big"), count.to_bytes(4, "big")
    changed[17:21] = crc32c(memoryview(changed)[21:]).to_bytes(4, "big")
    return changed


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("validation", ["structure", "small", "header"])
@pytest.mark.parametrize("records", [2, 20])
def test_a_batch_that_nobody_could_read_is_refused_as_far_as_the_topic_has_it_looked_at(
    codec: Codec, validation: str, records: int
) -> None:
    given = rules(record_validation=validation)
    batch = build_batch([NewRecord(NOW, b"k", b"v" * 20) for _ in range(records)], codec=codec)
    payload = bytes(batch[HEADER_SIZE:])
    broken = [
        with_records(batch, payload, records + 1),
        with_records(batch, payload, records - 1),
        with_records(batch, payload[:-1]),
        with_records(batch, payload + b"\0"),
        with_records(batch, b"\x7f" * len(payload)),
    ]
    for bad in broken:
        if validation == "structure" or (validation == "small" and read_header(bad).records_count <= 8):
            assert refusal(bad, given).error is ErrorCode.INVALID_RECORD
        else:
            assert isinstance(checked(bad, given), BatchHeader)
    assert isinstance(checked(batch, given), BatchHeader)


def test_records_that_are_many_are_walked_through_elsewhere() -> None:
    given = rules(record_validation="structure")
    batch = build_batch([NewRecord(NOW, b"k", b"v") for _ in range(LIGHT_RECORDS + 1)])
    header = check_client_batch(batch, given)
    assert isinstance(header, BatchHeader) and wants_examination(header, given, NOW)
    assert isinstance(examine_if_light(batch, header, given, NOW), Unexamined)
    assert examine(batch, given, NOW) == Examined(given, None)
    bad = with_records(batch, bytes(batch[HEADER_SIZE:-1]) + b"\x02")
    assert isinstance(examine(bad, given, NOW), AppendFailure)
