"""Any records, any codec, any flags come back as they were; any bytes at all end in records or in one error."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.protocol.records.batch import CorruptBatch, batches, read_header, records_of, verify_crc
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec, compress, decompress

INT64 = st.integers(-(1 << 62), (1 << 62) - 1)
PAYLOADS = st.none() | st.binary(max_size=200) | st.builds(lambda unit, times: unit * times, st.binary(max_size=9), st.integers(0, 2000))
RECORDS = st.builds(
    NewRecord, INT64, PAYLOADS, PAYLOADS, st.lists(st.tuples(st.text(max_size=10), PAYLOADS), max_size=3).map(tuple), st.none()
)
CAP = 1 << 20
OPTIONS_IN_HEADER = ["codec", "base_offset", "producer_id", "producer_epoch", "base_sequence", "is_transactional", "is_control"]


OPTIONS = st.fixed_dictionaries(
    {
        "codec": st.sampled_from(Codec),
        "base_offset": st.integers(0, 1 << 60),
        "producer_id": st.integers(-1, (1 << 63) - 1),
        "producer_epoch": st.integers(-1, 0x7FFF),
        "base_sequence": st.integers(-1, 0x7FFFFFFF),
        "is_transactional": st.booleans(),
        "is_control": st.booleans(),
        "log_append_time_ms": st.none() | st.integers(0, 1 << 62),
        "leader_epoch": st.integers(-1, 0x7FFFFFFF),
    }
)


@given(records=st.lists(RECORDS, max_size=12), options=OPTIONS)
def test_batches_round_trip(records: list[NewRecord], options: dict[str, Any]) -> None:
    batch = memoryview(build_batch(records, **options))
    header = read_header(batch)
    assert verify_crc(batch, 0, header)
    assert (header.size, header.records_count) == (len(batch), len(records))
    assert all(getattr(header, name) == options[name] for name in OPTIONS_IN_HEADER)
    append_time = options["log_append_time_ms"]
    expected = [
        (options["base_offset"] + number, one.timestamp if append_time is None else append_time, one.key, one.value, one.headers)
        for number, one in enumerate(records)
    ]
    assert list(records_of(batch)) == expected


@given(data=st.data(), codec=st.sampled_from(Codec))
def test_flipped_bytes_never_end_in_another_error(data: st.DataObject, codec: Codec) -> None:
    batch = build_batch([NewRecord(number, b"key", b"value" * 30, [("h", b"v")]) for number in range(6)], codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(batch)


@given(st.binary(max_size=300))
def test_any_bytes_are_records_or_one_error(noise: bytes) -> None:
    read_or_refuse(noise)


@given(payload=st.binary(max_size=200), count=st.integers(-2, 40), codec=st.sampled_from(Codec))
def test_any_payload_under_a_good_header(payload: bytes, count: int, codec: Codec) -> None:
    batch = build_batch([], codec=Codec.NONE) + payload
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[22] = codec
    batch[57:61] = count.to_bytes(4, signed=True)
    read_or_refuse(batch)


def read_or_refuse(view: bytes | bytearray) -> None:
    try:
        for position, header in batches(view, strict=True):
            total = sum(len(one.key or b"") + len(one.value or b"") for one in records_of(view[position:], max_bytes=CAP))
            assert total <= CAP
            assert header.size <= len(view)
    except CorruptBatch:
        return


@given(data=st.binary(max_size=3000), codec=st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]), room=st.integers(0, 6000))
@settings(max_examples=100)
def test_decompress_never_gives_more_than_the_cap(data: bytes, codec: Codec, room: int) -> None:
    for packed in (data, compress(codec, data)):
        try:
            assert len(decompress(codec, packed, room)) <= room
        except CorruptBatch:
            continue
