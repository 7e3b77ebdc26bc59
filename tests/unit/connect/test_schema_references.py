"""Schemas that refer to other schemas of the registry are read: Avro, JSON Schema and Protobuf, over two steps."""

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import httpx
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from moldau.connect.converters import protobuf_types
from moldau.connect.errors import DataError
from proof.connect.registry import SchemaRegistry
from tests.unit.connect.test_registry_converters import AVRO, JSON, converter, plain, settled

PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
CITY = {"type": "record", "name": "City", "namespace": "geo", "fields": [{"name": "name", "type": "string"}]}
ADDRESS = {"type": "record", "name": "Address", "namespace": "geo", "fields": [{"name": "city", "type": "geo.City"}]}
PERSON = {"type": "record", "name": "Person", "fields": [{"name": "home", "type": ["null", "geo.Address"]}]}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as one:
        yield one


def register(registry: SchemaRegistry, kind: str, subject: str, schema: str, **references: str) -> int:
    """`references`: subjects by the names of the references, a dot for each two underlines."""
    listed = [{"name": name.replace("__", "."), "subject": one, "version": 1} for name, one in references.items()]
    body = {"schemaType": kind, "schema": schema, "references": listed}
    answer = httpx.post(f"{registry.url}/subjects/{subject}/versions", json=body)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


def read(registry: SchemaRegistry, name: str, schema_id: int, body: bytes) -> Any:
    one = converter(name, registry)
    schema, value = settled(lambda: one.to_data("t", b"\0" + schema_id.to_bytes(4, "big") + body))
    assert schema is not None
    return plain(value)


def test_avros_names_of_other_schemas(registry: SchemaRegistry) -> None:
    register(registry, "AVRO", "city", json.dumps(CITY))
    register(registry, "AVRO", "address", json.dumps(ADDRESS), geo__City="city")
    schema_id = register(registry, "AVRO", "person", json.dumps(PERSON), geo__City="city", geo__Address="address")
    named: dict[str, Any] = {}
    for one in (CITY, ADDRESS):
        fastavro.parse_schema(one, named_schemas=named)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(PERSON, named_schemas=named), {"home": {"city": {"name": "Prag"}}})
    assert read(registry, AVRO, schema_id, out.getvalue()) == {"home": {"city": {"name": "Prag"}}}


def test_json_schemas_references_to_other_documents_and_to_parts_of_them(registry: SchemaRegistry) -> None:
    city = {"definitions": {"name": {"type": "string"}}, "type": "object", "properties": {"name": {"$ref": "#/definitions/name"}}}
    address = {"type": "object", "properties": {"city": {"$ref": "city.json"}, "alias": {"$ref": "city.json#/definitions/name"}}}
    person = {"type": "object", "properties": {"home": {"$ref": "address.json"}}}
    register(registry, "JSON", "jcity", json.dumps(city))
    register(registry, "JSON", "jaddress", json.dumps(address), city__json="jcity")
    schema_id = register(registry, "JSON", "jperson", json.dumps(person), address__json="jaddress")
    value = {"home": {"city": {"name": "Prag"}, "alias": "Praha"}}
    assert read(registry, JSON, schema_id, json.dumps(value).encode()) == value
    alone = register(registry, "JSON", "jalone", json.dumps({"type": "object", "properties": {"home": {"$ref": "nowhere.json"}}}))
    with pytest.raises(DataError, match=r"nowhere\.json"):
        read(registry, JSON, alone, b"{}")


def file(name: str, message: str, field: str, kind: str = "", *, imports: tuple[str, ...] = ()) -> FileDescriptorProto:
    made = FieldDescriptorProto(name=field, number=1, label=FieldDescriptorProto.LABEL_OPTIONAL)
    made.type = FieldDescriptorProto.TYPE_MESSAGE if kind else FieldDescriptorProto.TYPE_STRING
    if kind:
        made.type_name = kind
    message_type = [DescriptorProto(name="Other"), DescriptorProto(name=message, field=[made])]
    return FileDescriptorProto(name=name, package=message.lower(), syntax="proto3", dependency=imports, message_type=message_type)


def test_protobufs_imports_and_a_message_that_is_not_the_first(registry: SchemaRegistry) -> None:
    city = file("geo/city.proto", "City", "name")
    address = file("geo/address.proto", "Address", "city", ".city.City", imports=("geo/city.proto",))
    person = file("person.proto", "Person", "home", ".address.Address", imports=("geo/address.proto",))

    def text(one: FileDescriptorProto) -> str:
        return base64.b64encode(one.SerializeToString()).decode()

    register(registry, "PROTOBUF", "pcity", text(city))
    register(registry, "PROTOBUF", "paddress", text(address), **{"geo/city__proto": "pcity"})
    schema_id = register(registry, "PROTOBUF", "pperson", text(person), **{"geo/address__proto": "paddress"})
    pool = protobuf_types.pool_of({one.name: one for one in (city, address, person)})
    made: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("person.Person"))()
    made.home.city.name = "Prag"
    assert read(registry, PROTOBUF, schema_id, b"\x02\x02" + made.SerializeToString()) == {"home": {"city": {"name": "Prag"}}}


def test_references_that_go_in_a_circle_are_an_error(registry: SchemaRegistry) -> None:
    schema_id = register(registry, "JSON", "round", json.dumps({"type": "object"}))
    registry.schemas[schema_id - 1]["references"] = [{"name": "round.json", "subject": "round", "version": 1}]
    with pytest.raises(DataError, match="circle"):
        read(registry, JSON, schema_id, b"{}")
