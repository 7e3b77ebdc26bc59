"""Every declared field against Kafka's own definitions, as kafka-python carries them (JSON) and kio was generated from them."""

import dataclasses
import importlib.resources
import json
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

from moldau.protocol import consumer_protocol
from moldau.protocol.declared import REQUIRED, version_range
from moldau.protocol.messages import REQUESTS
from moldau.protocol.wire import Field, Message, Struct, blank
from moldau.raft import records as raft_records
from moldau.types import ZERO_UUID

MESSAGES: dict[str, type[Message]] = {one.__name__: one for request in REQUESTS.values() for one in (request, request.RESPONSE)}
STORED = {name: one for room in (consumer_protocol, raft_records) for name, one in vars(room).items() if hasattr(one, "RECORD_TYPE")}
KINDS = {"bool": "boolean", "error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
SIZED = ("string", "bytes", "records", "array", "struct")


def json_definitions() -> Iterator[dict[str, Any]]:
    folder = importlib.resources.files("kafka.protocol.schemas.resources")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".json"):
            yield json.loads(re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE))


DEFINITIONS = [one for one in json_definitions() if one["name"] in MESSAGES | STORED]


def squeezed(name: str) -> str:
    return name.replace("_", "").lower()


def differences(declared: type[Struct], definition: dict[str, Any], version: int, common: dict[str, Any]) -> Iterator[str]:
    theirs = {squeezed(one["name"]): one for one in definition if version in version_range(one.get("versions", one.get("taggedVersions")))}
    ours = {squeezed(field.name): field for field in declared.FIELDS if field.is_in(version)}
    where = f"{declared.__name__} v{version}"
    if list(theirs) != list(ours):
        yield f"{where}: theirs are {list(theirs)}, ours {list(ours)}"
        return
    for name, one in theirs.items():
        field = ours[name]
        expected = expectations(one, version)
        found = (type_of(field), field.is_nullable(version), field.tag)
        if found != expected:
            yield f"{where}.{field.name} is {found}, theirs {expected}"
        if not default_fits(field, one):
            yield f"{where}.{field.name} has default {field.default!r}, theirs {one.get('default')!r}"
        if field.struct is not None:
            inner = one.get("fields") or common[one["type"].removeprefix("[]")]
            yield from differences(field.struct, inner, version, common)


def expectations(one: dict[str, Any], version: int) -> tuple[str, bool, int | None]:
    element = one["type"].removeprefix("[]")
    kind = "struct" if element[0].isupper() else KINDS.get(element, element)
    nullable = version in version_range(one.get("nullableVersions", "none"))
    tagged = version in version_range(one.get("taggedVersions", "none"))
    return ("[]" if one["type"].startswith("[]") else "") + kind, nullable, one["tag"] if tagged else None


def type_of(field: Field) -> str:
    if field.kind == "array":
        return "[]" + ("struct" if field.struct else str(field.element))
    return field.kind


def default_fits(field: Field, one: dict[str, Any]) -> bool:
    """Our default equals theirs.  Where they leave it empty, ours may be required, zero or a null message."""
    theirs = one.get("default")
    if field.default is REQUIRED:
        return theirs is None
    if theirs is None:
        empty: Any = {"string": "", "bytes": b"", "uuid": ZERO_UUID}.get(field.kind, 0)
        if field.struct is not None and field.kind == "struct":
            empty = blank(field.struct)
        return field.default == ([] if field.kind == "array" else empty) or (field.name == "error_message" and field.default is None)
    if theirs == "null":
        return field.default is None
    if field.kind == "string":
        return bool(field.default == theirs)
    return bool(field.default == (str(theirs).lower() == "true" if field.kind == "boolean" else int(str(theirs), 0)))


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one["name"])
def test_declared_as_kafka_python_carries_it(definition: dict[str, Any]) -> None:
    declared = (MESSAGES | STORED)[definition["name"]]
    common = {one["name"]: one["fields"] for one in definition.get("commonStructs", ())}
    theirs = version_range(definition["validVersions"])
    assert declared.VERSIONS[-1] == theirs[-1]
    assert version_range(definition["flexibleVersions"]) == declared.FLEXIBLE
    found = [line for version in declared.VERSIONS for line in differences(declared, definition["fields"], version, common)]
    assert not found, "\n".join(found)


def test_it_carries_most() -> None:
    assert len(DEFINITIONS) >= 100


def kio_pairs() -> Iterator[tuple[type[Message], int, Any]]:
    known = MESSAGES | STORED
    for name, versions in schema_name_map.items():
        for version, kinds in versions.items():
            for kind in kinds:
                camel = name.replace("_", "") + {EntityType.request: "request", EntityType.response: "response"}.get(kind, "")
                declared = next((one for ours, one in known.items() if ours.lower() == camel), None)
                if declared is not None and version == declared.VERSIONS[-1]:
                    yield declared, version, load_entity_schema(name, version, kind)


def kio_differences(declared: type[Struct], entity: Any, version: int) -> Iterator[str]:
    theirs = {squeezed(field.name): field for field in dataclasses.fields(entity)}
    hints = typing.get_type_hints(entity)
    for field in (field for field in declared.FIELDS if field.is_in(version)):
        name = squeezed(field.name)
        one = theirs.get(name) or theirs[name.removesuffix("ms")]
        hint, nullable = without_none(hints[one.name])
        array = typing.get_origin(hint) is tuple
        inner = typing.get_args(hint)[0] if array else hint
        kafka_type = one.metadata.get("kafka_type")
        kind = KINDS.get(kafka_type, kafka_type) if kafka_type else "struct"
        found = (type_of(field), field.tag)
        if found != (("[]" if array else "") + kind, one.metadata.get("tag")):
            yield f"{declared.__name__}.{field.name} is {found}, theirs {hint} {one.metadata}"
        if field.kind in SIZED and nullable != field.is_nullable(version):
            yield f"{declared.__name__}.{field.name}: nullable there is {nullable}"
        if field.struct is not None:
            yield from kio_differences(field.struct, without_none(inner)[0], version)


def without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        return rest[0], len(rest) < len(typing.get_args(hint))
    return hint, False


@pytest.mark.parametrize(("declared", "version", "entity"), list(kio_pairs()), ids=lambda value: getattr(value, "__name__", value))
def test_declared_as_kio_was_generated(declared: type[Message], version: int, entity: Any) -> None:
    found = list(kio_differences(declared, entity, version))
    assert not found, "\n".join(found)
