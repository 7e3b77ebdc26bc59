"""Our bytes against kio, which is generated from Kafka's own definitions: it reads what we write, sees our values, writes our bytes."""

import dataclasses
import datetime
import io
from enum import Enum
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from moldau.protocol import consumer_protocol
from moldau.protocol.compiler import encode_bytes
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.envelope import DefaultPrincipalData
from moldau.protocol.wire import Field, Message, Struct
from moldau.raft import records as raft_records
from moldau.types import ZERO_UUID
from proof.arbitrary import arbitrary, plain

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

STORED = {
    "ConsumerProtocolAssignment": consumer_protocol.ConsumerProtocolAssignment,
    "ConsumerProtocolSubscription": consumer_protocol.ConsumerProtocolSubscription,
    "DefaultPrincipalData": DefaultPrincipalData,
    "KRaftVersionRecord": raft_records.KRaftVersionRecord,
    "LeaderChangeMessage": raft_records.LeaderChangeMessage,
    "SnapshotFooterRecord": raft_records.SnapshotFooterRecord,
    "SnapshotHeaderRecord": raft_records.SnapshotHeaderRecord,
    "VotersRecord": raft_records.VotersRecord,
}
OURS: dict[str, type[Message]] = {
    **{one.__name__: one for request in REQUESTS.values() for one in (request, request.RESPONSE)},
    **STORED,
}


def theirs() -> list[tuple[type[Message], int, Any]]:
    """Every message and version that both know."""
    found = []
    for name, versions in schema_name_map.items():
        for version, kinds in versions.items():
            for kind in kinds:
                if kind is not EntityType.header:
                    entity = load_entity_schema(name, version, kind)
                    ours = OURS.get(entity.__name__)
                    if ours is not None and version in ours.VERSIONS:
                        found.append((ours, version, entity))
    return found


PAIRS = theirs()
TRIED = [pair for pair in PAIRS if settings.default.max_examples > 50 or pair[1] in (pair[0].FLEXIBLE.start, pair[0].VERSIONS[-1])]
"""At a developer's desk only the first flexible and the last version of each message are tried: kio takes a while to make its readers."""


def modest(kind: str, field: Field) -> st.SearchStrategy[Any]:
    """Values that kio's types can hold: known error codes, times after 1970 and before the year 9999."""
    if "error_code" in field.name:
        return st.integers(-1, 110)
    if kind == "int64":
        return st.integers(0, 2**40)
    return plain(kind, field)


@cache
def names(ours: type[Struct], entity: type[Any], version: int) -> dict[str, str]:
    """The name of each of our fields in kio, which drops `_ms`, since it has types for times, and splits some words elsewhere."""
    there = {field.name.replace("_", ""): field.name for field in dataclasses.fields(entity)}
    here = {field.name: field.name.replace("_", "") for field in ours.FIELDS if field.is_in(version)}
    found = {name: there.get(plain) or there[plain.removesuffix("ms")] for name, plain in here.items()}
    assert sorted(found.values()) == sorted(there.values()), "kio has a field that ours lacks"
    return found


def assert_same(value: Any, ours: Any, version: int, path: str) -> None:
    """A value that kio read is the one that we wrote."""
    if isinstance(ours, list):
        assert len(value) == len(ours), path
        for index, (one, mine) in enumerate(zip(value, ours, strict=True)):
            assert_same(one, mine, version, f"{path}[{index}]")
    elif isinstance(ours, Struct):
        for mine, name in names(type(ours), type(value), version).items():
            assert_same(getattr(value, name), getattr(ours, mine), version, f"{path}.{mine}")
    else:
        assert as_plain(value, ours) == ours, path


def as_plain(value: Any, ours: Any) -> Any:
    """A plain value of kio's in the form of ours."""
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, Enum):
        return value.value
    return ours if value is None and ours in (ZERO_UUID, -1) else value


def test_kio_knows_nearly_all_of_it() -> None:
    known = {(ours.__name__, version) for ours, version, _ in PAIRS}
    ours = {(name, version) for name, one in OURS.items() for version in one.VERSIONS}
    assert ours - known == set()


@pytest.mark.parametrize(("ours", "version", "entity"), TRIED, ids=lambda value: getattr(value, "__name__", value))
@given(data=st.data())
@settings(max_examples=max(1, settings.default.max_examples // 25))
def test_kio_reads_and_writes_our_bytes(ours: type[Message], version: int, entity: Any, data: st.DataObject) -> None:
    message = data.draw(arbitrary(ours, version, plain=modest, unknown_tags=False))
    written = encode_bytes(message, version)
    seen, read_bytes = entity_reader(entity)(written, 0)
    assert read_bytes == len(written)
    assert_same(seen, message, version, ours.__name__)
    out = io.BytesIO()
    entity_writer(entity)(out, seen)
    assert out.getvalue() == written
