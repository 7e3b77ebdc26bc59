"""Lengths and counts that lie: every one of every message, in every version, ends in a DecodeError and makes nothing big.

The bytes come from a second encoder, written here the slow and plain way, that also says where each length lies; it is an oracle for
the compiled one, too.
"""

import contextlib
import importlib
import os
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from moldau.protocol import consumer_protocol
from moldau.protocol.codegen import SCALARS
from moldau.protocol.compiler import Codecs, decode, decoder, encode_bytes, request_decoder
from moldau.protocol.decoding import RequestDecoding
from moldau.protocol.header import decode_request_header
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.varint import write_unsigned
from moldau.protocol.wire import DecodeError, Field, Message, Struct, blank

ROOMS = ("metadata.records", "raft.records", "coordinator.group.records", "coordinator.share.records", "coordinator.txn.records")
REQUESTS_AND_RESPONSES = [one for request in REQUESTS.values() for one in (request, request.RESPONSE)]
STORED = [
    one
    for room in (*(importlib.import_module(f"moldau.{room}") for room in ROOMS), consumer_protocol)
    for one in vars(room).values()
    if hasattr(one, "RECORD_TYPE") and one.__module__ == room.__name__
]
ALL_VERSIONS = os.environ.get("HYPOTHESIS_PROFILE", "desk") != "desk"

MOST_BYTES = 64 * 1024
"""No lie may make a decoder take more than this; the frames here have a few hundred bytes."""

Segment = tuple[str, bytes]
"""The kind of a segment ("compact", "int16", "int32" for a length in that form, "" for anything else) and its bytes."""


def reference(message: Struct, version: int, flexible: bool) -> Iterator[Segment]:
    """A message in segments: fields one by one, lengths apart."""
    for field in message.FIELDS:
        if field.is_in(version) and field.tag is None:
            yield from reference_field(field, getattr(message, field.name), version, flexible)
    if flexible:
        tagged = [field for field in message.FIELDS if field.is_in(version) and field.tag is not None]
        given = [field for field in tagged if getattr(message, field.name) != field.default]
        yield "tags", write_unsigned(len(given))
        for field in sorted(given, key=lambda field: field.tag or 0):
            value = getattr(message, field.name)
            segments = list(reference_field(field, value, version, flexible))
            if field.kind == "struct" and field.is_nullable(version):
                segments = [("", b"\0")] if value is None else [("", b"\1"), *segments[1:]]
            yield "", write_unsigned(field.tag or 0)
            yield "size", write_unsigned(sum(len(raw) for _, raw in segments))
            yield from segments


def reference_field(field: Field, value: Any, version: int, flexible: bool) -> Iterator[Segment]:
    kind = field.kind
    if kind == "struct":
        if field.is_nullable(version):
            yield "", b"\xff" if value is None else b"\x01"
        if value is not None:
            yield from reference(value, version, flexible)
    elif kind == "array":
        yield length(None if value is None else len(value), "int32", flexible)
        for item in value or ():
            if field.struct is not None:
                yield from reference(item, version, flexible)
            else:
                assert isinstance(field.element, str)
                yield from reference_plain(field.element, item, flexible)
    else:
        yield from reference_plain(kind, value, flexible)


def reference_plain(kind: str, value: Any, flexible: bool) -> Iterator[Segment]:
    if kind in SCALARS:
        yield "", struct.pack(">" + SCALARS[kind], value)
    elif kind == "uuid":
        yield "", value.bytes
    else:
        raw = value.encode() if isinstance(value, str) else value
        yield length(None if raw is None else len(raw), "int16" if kind == "string" else "int32", flexible)
        yield "", bytes(raw or b"")


def length(count: int | None, form: str, flexible: bool) -> Segment:
    number = -1 if count is None else count
    if flexible:
        return "compact", write_unsigned(number + 1)
    return form, struct.pack(">h" if form == "int16" else ">i", number)


def filled(declared: type[Any], version: int) -> Any:
    """An instance with something everywhere: one item in each list, no nulls, no defaults."""
    instance = blank(declared)
    for field in declared.FIELDS:
        if not field.is_in(version):
            continue
        value = getattr(instance, field.name)
        if field.struct is not None:
            inner = filled(field.struct, version)
            value = [inner] if field.kind == "array" else inner
        else:
            one = {"string": "text", "uuid": UUID(int=7), "bytes": b"bytes", "records": b"batch", "boolean": True, "float64": 0.5}
            kind = field.element if isinstance(field.element, str) else field.kind
            value = [one.get(kind, 3)] if field.kind == "array" else one.get(kind, 3)
        setattr(instance, field.name, value)
    return instance


def lies(form: str, left: int) -> Iterator[bytes]:
    """Lengths that a peer may claim when `left` bytes follow."""
    for count in (-2, -1, 0, 1, left, left + 1, 2**15, 2**31 - 1):
        if form == "int32":
            yield struct.pack(">i", count)
        elif form == "int16":
            yield struct.pack(">h", min(count, 2**15 - 1))
        elif form == "compact":
            yield write_unsigned((count + 1) & 0xFFFFFFFF)
        else:
            yield write_unsigned(count & 0xFFFFFFFF)
    if form in ("compact", "tags", "size"):
        yield b"\xff\xff\xff\xff\x0f"
        yield b"\xff\xff\xff\xff\x1f"
        yield b"\x80" * 9 + b"\x01"
        yield b"\xff" * 20


def versions(declared: type[Message]) -> list[int]:
    """All versions where time allows, otherwise the last one and the last one that is not flexible."""
    known, plain = declared.VERSIONS, declared.FLEXIBLE.start - 1
    return list(known) if ALL_VERSIONS else sorted({known[-1], plain if plain in known else known[-1]})


@pytest.mark.parametrize("declared", [*REQUESTS_AND_RESPONSES, *STORED], ids=lambda declared: declared.__name__)
def test_a_length_that_lies_is_refused_and_costs_nothing(declared: type[Message]) -> None:
    for version in versions(declared):
        message = filled(declared, version)
        segments = list(reference(message, version, version in declared.FLEXIBLE))
        honest = b"".join(raw for _, raw in segments)
        assert encode_bytes(message, version) == honest
        assert decode(declared, version, honest) == message
        run = decoder(declared, version)
        tracemalloc.start()
        try:
            for number, (form, raw) in enumerate(segments):
                if not form:
                    continue
                before = b"".join(one for _, one in segments[:number])
                after = b"".join(one for _, one in segments[number + 1 :])
                for lie in lies(form, len(after)):
                    if lie != raw:
                        assert_refused(run, memoryview(before + lie + after), (number, form, lie))
        finally:
            tracemalloc.stop()


def assert_refused(run: Any, frame: memoryview, which: Any) -> None:
    """A shorter list or text may leave bytes that happen to fit the fields behind it; anything else must be refused."""
    tracemalloc.reset_peak()
    start, _ = tracemalloc.get_traced_memory()
    with contextlib.suppress(DecodeError):
        run(frame)
    _, peak = tracemalloc.get_traced_memory()
    assert peak - start < MOST_BYTES, which


@pytest.mark.parametrize("declared", REQUESTS_AND_RESPONSES, ids=lambda declared: declared.__name__)
def test_a_frame_cut_anywhere_is_refused(declared: type[Message]) -> None:
    version = declared.VERSIONS[-1]
    frame = memoryview(encode_bytes(filled(declared, version), version))
    run = decoder(declared, version)
    for size in range(len(frame)):
        with pytest.raises(DecodeError):
            run(frame[:size])


def _list_offsets(topics: int, partitions: int) -> bytes:
    """A request of version 6, which has tags: so many topics, each with so many partitions."""
    partition = bytes(16) + b"\0"
    topic = b"\2a" + write_unsigned(partitions + 1) + partition * partitions + b"\0"
    return bytes(4) + b"\0" + write_unsigned(topics + 1) + topic * topics + b"\0"


@pytest.mark.parametrize(("topics", "partitions"), [(10, 0), (2, 4), (1, 9), (5, 1)])
def test_a_request_has_no_more_elements_than_a_server_can_bear(monkeypatch: pytest.MonkeyPatch, topics: int, partitions: int) -> None:
    monkeypatch.setattr(RequestDecoding, "most_elements", 10)
    monkeypatch.setattr("moldau.protocol.compiler.REQUEST_DECODERS", Codecs("request decoder", RequestDecoding))
    read = request_decoder(ListOffsetsRequest, 6)
    taken = read(memoryview(_list_offsets(topics, partitions)))
    assert [len(topic.partitions) for topic in taken.topics] == [partitions] * topics
    with pytest.raises(DecodeError, match="more than 10 elements are named in one message"):
        read(memoryview(_list_offsets(topics + 1, partitions)))


@pytest.mark.parametrize(
    "raw",
    [
        _list_offsets(1, 1)[:-1] + write_unsigned(200) + b"\7\0" * 200,
        _list_offsets(1, 3)[:-1] + b"\7" + b"\7\0" * 7,
        bytes(4) + b"\0" + write_unsigned(8 + 1) + (b"\2a\1" + b"\1" + b"\7\0") * 8 + b"\0",
    ],
    ids=["more than one byte can say", "with the lists", "a few in each of many structs"],
)
def test_tagged_fields_count_as_elements(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(RequestDecoding, "most_elements", 10)
    monkeypatch.setattr("moldau.protocol.compiler.REQUEST_DECODERS", Codecs("request decoder", RequestDecoding))
    with pytest.raises(DecodeError, match="more than 10 elements are named in one message"):
        request_decoder(ListOffsetsRequest, 6)(memoryview(raw))


def test_numbers_in_lists_count_as_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestDecoding, "most_elements", 10)
    monkeypatch.setattr("moldau.protocol.compiler.REQUEST_DECODERS", Codecs("request decoder", RequestDecoding))
    request = DescribeProducersRequest(topics=[TopicRequest(name="a", partition_indexes=list(range(9)))])
    read = request_decoder(DescribeProducersRequest, 0)
    assert read(memoryview(encode_bytes(request, 0))) == request
    request.topics[0].partition_indexes.append(9)
    with pytest.raises(DecodeError, match="more than 10 elements"):
        read(memoryview(encode_bytes(request, 0)))


def test_a_header_has_few_tagged_fields() -> None:
    head = bytes.fromhex("0012 0003 00000001 ffff")
    assert decode_request_header(memoryview(head + b"\x7f" + b"\7\0" * 127))[1] == b""
    with pytest.raises(DecodeError, match="128 tagged fields are more than the 127 allowed"):
        decode_request_header(memoryview(head + b"\x80\1" + b"\7\0" * 128))


def test_what_a_server_does_not_know_is_not_kept() -> None:
    raw = _list_offsets(1, 1)[:-1] + b"\1\7\3abc"
    assert decoder(ListOffsetsRequest, 6)(memoryview(raw)).unknown_tagged_fields == {7: b"abc"}
    assert request_decoder(ListOffsetsRequest, 6)(memoryview(raw)).unknown_tagged_fields is None
