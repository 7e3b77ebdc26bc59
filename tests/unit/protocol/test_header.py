"""Frames of requests and responses, byte by byte."""

import pytest

from moldau.protocol.header import RequestHeader, decode_request_header, decode_response, encode_request, encode_response
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.protocol.wire import DecodeError, EncodeError
from moldau.types import FileSlice


def a_heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_request_header_v1_and_v2() -> None:
    (plain,) = encode_request(a_heartbeat(), version=0, correlation_id=7, client_id="me")
    assert plain == b"\0\0\0\x16" + b"\0\x0c\0\0\0\0\0\x07\0\x02me" + b"\0\x01g\0\0\0\x01\0\x01m"
    (flexible,) = encode_request(a_heartbeat(), version=4, correlation_id=7, client_id="me")
    assert flexible == b"\0\0\0\x17" + b"\0\x0c\0\x04\0\0\0\x07\0\x02me\0" + b"\x02g\0\0\0\x01\x02m\0\0"
    for frame in (plain, flexible):
        header, body = decode_request_header(memoryview(frame)[4:])
        assert header == RequestHeader(12, frame[7], 7, "me")
        assert frame.endswith(bytes(body))
        assert len(body) == len(frame) - (16 if header.api_version == 0 else 17)


@pytest.mark.parametrize("length", [-1, -2, -32768])
def test_a_client_id_of_a_negative_length_is_none(length: int) -> None:
    frame = memoryview(b"\0\x12\0\0\0\0\0\5" + length.to_bytes(2, "big", signed=True))
    header, body = decode_request_header(frame)
    assert (header.client_id, bytes(body)) == (None, b"")


def test_no_client_id() -> None:
    (frame,) = encode_request(a_heartbeat(), version=4, correlation_id=7, client_id=None)
    header, body = decode_request_header(memoryview(frame)[4:])
    assert header.client_id is None
    assert frame.endswith(bytes(body))
    assert body[0] == 2


def test_unknown_tags_in_a_header_are_skipped() -> None:
    (frame,) = encode_request(a_heartbeat(), version=4, correlation_id=7, client_id="me")
    tagged = frame[4:].replace(b"me\0", b"me\x02\x05\x01x\x06\0", 1)
    header, body = decode_request_header(memoryview(tagged))
    assert header.client_id == "me"
    assert frame.endswith(bytes(body))


def test_a_version_that_nobody_knows_still_has_a_header() -> None:
    """ApiVersions answers any version, so its header must be read; dispatch refuses unknown APIs."""
    header, body = decode_request_header(memoryview(b"\0\x12\0\x63\0\0\0\x01\0\x01c\0rest"))
    assert (header.api_version, bytes(body)) == (99, b"rest")
    header, body = decode_request_header(memoryview(b"\x03\xe8\0\0\0\0\0\x01\xff\xffrest"))
    assert (header.api_key, bytes(body)) == (1000, b"rest")


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x12\0\x03\0\0\0\x01\0",
        b"\0\x12\0\x03\0\0\0\x01\0\x05c",
        b"\0\x12\0\x03\0\0\0\x01\xff\xfec",
        b"\0\x12\0\x03\0\0\0\x01\0\x01c",
        b"\0\x12\0\x03\0\0\0\x01\0\x01c\x01\x01\x05x",
        b"\0\x12\0\x03\0\0\0\x01\0\x01c\xff\xff\xff\xff\x7f",
        b"\0\x12\0\x03\0\0\0\x01\0\x01c\xff\xff\xff\xff\x0f",
    ],
)
def test_a_header_that_lies_is_refused(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(memoryview(frame))


def test_a_client_id_has_a_longest_length() -> None:
    with pytest.raises(EncodeError, match="client_id"):
        encode_request(a_heartbeat(), version=4, correlation_id=1, client_id="x" * 32768)


def test_response_header_v0_and_v1() -> None:
    response = HeartbeatResponse(error_code=27)
    assert encode_response(response, version=0, correlation_id=7) == [b"\0\0\0\x06\0\0\0\x07\0\x1b"]
    assert encode_response(response, version=4, correlation_id=7) == [b"\0\0\0\x0c\0\0\0\x07\0\0\0\0\0\0\x1b\0"]
    for version in (0, 4):
        (frame,) = encode_response(response, version=version, correlation_id=7)
        assert decode_response(HeartbeatRequest, version, memoryview(frame)[4:]) == (7, response)


def test_api_versions_and_sasl_handshake_never_have_v1() -> None:
    answers = [(ApiVersionsRequest, 3, ApiVersionsResponse(api_keys=[])), (SaslHandshakeRequest, 1, SaslHandshakeResponse(mechanisms=[]))]
    for request, version, response in answers:
        (frame,) = encode_response(response, version=version, correlation_id=7)
        assert frame[8:10] == b"\0\0"  # the error code, at once behind the correlation id
        assert decode_response(request, version, memoryview(frame)[4:]) == (7, response)


class InMemory:
    def pread(self, size: int, position: int) -> bytes:
        return bytes(size)

    def fileno(self) -> int:
        raise OSError


def test_the_length_counts_records_that_were_not_read() -> None:
    piece = FileSlice(InMemory(), 0, 1_000_000)
    partition = PartitionData(partition_index=0, high_watermark=1, aborted_transactions=None, records=piece)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    parts = encode_response(response, version=12, correlation_id=1)
    assert parts[1] is piece
    assert int.from_bytes(parts[0][:4]) == sum(map(len, parts)) - 4  # type: ignore[index]
    frame = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
    _, read = decode_response(FetchRequest, 12, memoryview(frame)[4:])
    assert len(read.responses[0].partitions[0].records or b"") == 1_000_000
