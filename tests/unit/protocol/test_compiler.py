"""The places of fields, the texts of errors, and that the generated code does what was meant."""

import struct as packing
import traceback
from uuid import UUID

import pytest

from moldau.protocol.compiler import decode, decoder, encode, encode_bytes, request_decoder, source_of
from moldau.protocol.header import decode_request_header
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.varint import read_unsigned, write_unsigned
from moldau.protocol.wire import (
    DecodeError,
    EncodeError,
    StoredRecord,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    record,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)
from moldau.types import ZERO_UUID, FileSlice


@struct
class Inner:
    a: int = int16(default=1)
    b: str = string(default="")
    c: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    d: int = int8("3+", default=0, ignorable=True)


@record(versions="0-3", flexible="2+")
class Sample(StoredRecord):
    small: int = int8(default=0)
    flag: bool = boolean(default=False)
    text: str = string(default="")
    port: int = uint16(default=0)
    crc: int = uint32(default=0)
    ratio: float = float64(default=0.0)
    id: UUID = uuid(default=ZERO_UUID)
    maybe: str | None = string(nullable="0+", default=None)
    raw: bytes = bytes_(default=b"")
    numbers: list[int] = array(int64, default=[])
    names: list[str] | None = array(string, nullable="1+", default=[])
    inner: Inner | None = nested(Inner, "1+", nullable="1+", default=None, ignorable=True)
    strict: int = int32("1+", default=7)
    first: int = int32("2+", tag=1, default=-1, ignorable=True)
    zeroth: Inner = nested(Inner, "3+", tag=0, default=Inner(), ignorable=True)
    third: Inner | None = nested(Inner, "3+", nullable="3+", tag=3, default=Inner(), ignorable=True)


def test_the_plain_form() -> None:
    message = Sample(small=-1, flag=True, text="hé", port=65535, crc=2**32 - 1, raw=b"xy", numbers=[1, -1], names=["a"])
    expected = b"\xff\x01" + b"\0\x03h\xc3\xa9" + b"\xff\xff" + b"\xff\xff\xff\xff" + bytes(8) + bytes(16) + b"\xff\xff"
    expected += b"\0\0\0\x02xy" + b"\0\0\0\x02" + packing.pack(">qq", 1, -1) + b"\0\0\0\x01\0\x01a"
    assert encode_bytes(message, 0) == expected
    assert decode(Sample, 0, expected) == message


def test_the_flexible_form() -> None:
    message = Sample(text="hé", raw=b"xy", numbers=[1], names=None, inner=Inner(a=2, b="i"), first=5)
    expected = b"\0\0" + b"\x04h\xc3\xa9" + b"\0\0" + bytes(4) + bytes(8) + bytes(16) + b"\0" + b"\x03xy"
    expected += b"\x02" + packing.pack(">q", 1) + b"\0" + b"\x01" + b"\0\x02\x02i\0" + b"\0\0\0\x07"
    expected += b"\x01" + b"\x01\x04\0\0\0\x05"
    assert encode_bytes(message, 2) == expected
    assert decode(Sample, 2, expected) == message


def test_tags_ascend_and_defaults_stay_out() -> None:
    message = Sample(first=5, zeroth=Inner(a=9), third=None)
    tail = b"\x03" + b"\0\x06\0\x09\x01\0\0\0" + b"\x01\x04\0\0\0\x05" + b"\x03\x01\0"
    written = encode_bytes(message, 3)
    assert written.endswith(tail)
    assert decode(Sample, 3, written) == message
    assert encode_bytes(Sample(), 3).endswith(b"\0\0\0\x07\0")


def test_a_struct_may_be_null_in_a_tag() -> None:
    for third in (None, Inner(), Inner(a=4, c="c", d=5), Inner(a=4, c=None, d=5)):
        message = Sample(third=third)
        assert decode(Sample, 3, encode_bytes(message, 3)) == message


def test_unknown_tags_are_kept_and_written_back_in_order() -> None:
    message = Sample(first=5)
    message.unknown_tagged_fields = {9: b"new", 2: b""}
    written = encode_bytes(message, 2)
    assert written.endswith(b"\x03" + b"\x01\x04\0\0\0\x05" + b"\x02\0" + b"\x09\x03new")
    assert decode(Sample, 2, written) == message
    message.unknown_tagged_fields = {1: b"mine"}
    with pytest.raises(EncodeError, match="tag 1 is a known field and an unknown one"):
        encode_bytes(message, 2)


def test_a_tag_of_another_version_is_refused() -> None:
    written = encode_bytes(Sample(zeroth=Inner(a=9)), 3)
    with pytest.raises(DecodeError, match=r"Sample\.zeroth: version 2 has no such field"):
        decode(Sample, 2, written)


def test_a_tag_whose_size_lies_is_refused() -> None:
    written = encode_bytes(Sample(first=5), 2)
    for size in (3, 5):
        lying = written.replace(b"\x01\x04\0\0\0\x05", bytes([1, size]) + b"\0\0\0\x05\0")
        with pytest.raises(DecodeError, match=r"Sample\.first: its tag names \d bytes and it ends elsewhere"):
            decode(Sample, 2, lying)


def test_a_field_that_the_version_lacks_needs_its_default_unless_ignorable() -> None:
    assert encode_bytes(Sample(inner=Inner(), first=3), 0) == encode_bytes(Sample(), 0)
    with pytest.raises(EncodeError, match=r"^Sample\.strict: version 0 has no such field, so it cannot carry 8$"):
        encode_bytes(Sample(strict=8), 0)


def test_what_a_version_lacks_reads_as_default() -> None:
    read = decode(Sample, 0, encode_bytes(Sample(), 0))
    assert (read.strict, read.inner, read.first, read.zeroth) == (7, None, -1, Inner())


def test_null_where_there_is_none() -> None:
    with pytest.raises(EncodeError, match=r"Sample\.names: version 0"):
        encode_bytes(Sample(names=None), 0)
    flexible = bytearray(encode_bytes(Sample(), 2))
    flexible[2] = 0
    with pytest.raises(DecodeError, match=r"Sample\.text: null is not allowed here"):
        decode(Sample, 2, flexible)


def a_produce(indexes: int = 2, records: object = b"12345") -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=records) for index in range(indexes)]  # type: ignore[arg-type]
    return ProduceRequest(acks=1, timeout_ms=2, topic_data=[TopicProduceData(name="t", partition_data=partitions)])


def test_errors_lead_to_the_field() -> None:
    message = a_produce()
    message.topic_data[0].partition_data[1].index = 2**31
    with pytest.raises(EncodeError) as failure:
        encode(message, 9)
    assert failure.value.path == "ProduceRequest.topic_data[0].partition_data[1].index"
    frame = encode_bytes(a_produce(), 9)
    with pytest.raises(DecodeError) as refusal:
        decode(ProduceRequest, 9, frame[:-6])
    assert refusal.value.path == "ProduceRequest.topic_data[0].partition_data[1].records"
    assert refusal.value.reason == "5 bytes are named and 2 are left"
    with pytest.raises(DecodeError, match=r"^ProduceRequest\.acks: the bytes end inside it$"):
        decode(ProduceRequest, 9, frame[:2])
    with pytest.raises(DecodeError, match=r"^ProduceRequest\.timeout_ms: the bytes end inside it$"):
        decode(ProduceRequest, 9, frame[:4])
    with pytest.raises(DecodeError, match=r"^ProduceRequest: 1 bytes are left behind its end$"):
        decode(ProduceRequest, 9, frame + b"\0")


@pytest.mark.parametrize(
    ("count", "reason"), [(3, "3 elements of at least 6 bytes are named and 15 bytes are left"), (2**32 - 2, "4294967294 el")]
)
def test_a_count_is_held_against_the_bytes_left(count: int, reason: str) -> None:
    frame = encode_bytes(a_produce(), 9).replace(b"\x02t\x03", b"\x02t" + write_unsigned(count + 1))
    frame = frame[:-9] if count == 3 else frame
    with pytest.raises(DecodeError) as refusal:
        decode(ProduceRequest, 9, frame)
    assert refusal.value.path == "ProduceRequest.topic_data[0].partition_data"
    assert reason in refusal.value.reason


def test_bytes_that_are_no_utf8_are_read_with_marks_in_their_place() -> None:
    """Java reads them so, too: clients with names or offset metadata in other encodings work with Kafka."""
    frame = encode_bytes(a_produce(), 9).replace(b"\x02t", b"\x04a\xffb")
    assert decode(ProduceRequest, 9, frame).topic_data[0].name == "a\ufffdb"
    request = packing.pack(">hhih", 18, 1, 5, 3) + b"af\xe9"
    assert decode_request_header(memoryview(request))[0].client_id == "af\ufffd"


def test_text_that_is_no_utf8_cannot_be_written() -> None:
    message = a_produce()
    message.topic_data[0].name = "\ud800"
    with pytest.raises(EncodeError, match=r"topic_data\[0\]\.name"):
        encode(message, 9)


@pytest.mark.parametrize("version", [3, 9])
def test_text_has_a_longest_length(version: int) -> None:
    message = a_produce()
    message.topic_data[0].name = "x" * 32767
    assert decode(ProduceRequest, version, encode_bytes(message, version)) == message
    message.topic_data[0].name += "x"
    with pytest.raises(EncodeError, match=r"topic_data\[0\]\.name"):
        encode(message, version)
    if version == 9:
        with pytest.raises(DecodeError, match=r"name: 32768 bytes are more than the 32767 allowed"):
            decode(ProduceRequest, 9, b"\0\0\0\0\0\0\0\x02" + write_unsigned(32769) + b"x" * 40_000)


class InMemory:
    def pread(self, size: int, position: int) -> bytes:
        return bytes(range(256))[position : position + size]

    def fileno(self) -> int:
        raise OSError


def test_records_are_parts_of_their_own_by_reference() -> None:
    view, piece = memoryview(b"abc"), FileSlice(InMemory(), 10, 4)
    message = a_produce(3, view)
    message.topic_data[0].partition_data[1].records = piece
    message.topic_data[0].partition_data[2].records = b""
    parts = encode(message, 9)
    assert parts[1] is view
    assert parts[3] is piece
    assert len(parts) == 5
    assert decode(ProduceRequest, 9, encode_bytes(message, 9)).topic_data[0].partition_data[1].records == bytes([10, 11, 12, 13])


def test_records_are_read_as_views_of_the_frame() -> None:
    frame = bytearray(encode_bytes(a_produce(1, b"first"), 9))
    read = decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    frame[frame.index(b"first")] = ord("F")
    assert read == b"First"


def test_a_read_default_is_the_shared_one() -> None:
    partition = PartitionData(partition_index=0, high_watermark=1, aborted_transactions=None, records=None)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    read = decode(FetchResponse, 12, encode_bytes(response, 12)).responses[0].partitions[0]
    assert read.diverging_epoch is partition.diverging_epoch
    partition.diverging_epoch = EpochEndOffset(epoch=3, end_offset=100)
    assert decode(FetchResponse, 12, encode_bytes(response, 12)) == response


def test_the_source_shows_in_tracebacks() -> None:
    assert "def run(data):" in source_of(ProduceRequest, 9)
    with pytest.raises(DecodeError) as refusal:
        decoder(ProduceRequest, 9)(memoryview(b""))
    assert "raise fail(error)" in "".join(traceback.format_exception(refusal.value))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2**31 - 1, 2**32 - 1])
def test_varints(value: int) -> None:
    raw = write_unsigned(value)
    assert read_unsigned(memoryview(b"\xff" + raw), 1) == (value, 1 + len(raw))


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 10])
def test_varints_that_are_too_long(raw: bytes) -> None:
    with pytest.raises(ValueError, match="longer than 32 bits"):
        read_unsigned(memoryview(raw), 0)


def test_bytes_behind_a_request_are_refused_or_left_alone() -> None:
    body = memoryview(encode_bytes(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3) + b"\0\0\0")
    with pytest.raises(DecodeError, match="3 bytes are left behind its end"):
        decode(ApiVersionsRequest, 3, body)
    assert request_decoder(ApiVersionsRequest, 3)(body).client_software_name == "a"
