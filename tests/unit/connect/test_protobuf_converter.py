"""Protobuf: what is written is read again, by Confluent's Python client too; bytes are the same as its bytes."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from moldau.connect import data
from moldau.connect.converters import protobuf_types
from moldau.connect.converters.protobuf_schema import ENUM, TAG, UNION
from moldau.connect.data import Field, Schema, Struct, Type
from moldau.connect.errors import DataError
from proof.connect.registry import SchemaRegistry
from tests.unit.connect.test_registry_converters import NOON, converter, plain, settled

PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
INNER = data.struct({"x": data.INT32}, name="t.Inner", optional=True)
COLOUR = Schema(Type.STRING, parameters=((ENUM, "Colour"), (f"{ENUM}.RED", "0"), (f"{ENUM}.GREEN", "1")))
CHOICE = Schema(
    Type.STRUCT, True, f"{UNION}.choice", fields=(Field("number", data.INT64.as_optional()), Field("text", data.OPTIONAL_STRING))
)
ROW = data.struct(
    {
        "id": data.INT64, "small": data.INT8, "short_": data.INT16, "ratio": data.FLOAT64, "single": data.FLOAT32, "yes": data.BOOLEAN,
        "name": data.OPTIONAL_STRING, "raw": data.BYTES, "price": data.decimal(2), "at": data.timestamp(optional=True), "day": data.date(),
        "clock": data.time_of_day(), "tags": data.array(data.STRING), "inner": INNER, "again": INNER, "inners": data.array(INNER),
        "some_counts": Schema(Type.MAP, key_schema=data.STRING, value_schema=data.INT32),
        "by_number": Schema(Type.MAP, key_schema=data.INT32, value_schema=INNER), "colour": COLOUR, "choice": CHOICE,
    },
    name="shop.t.Row",
)  # fmt: skip
VALUES: dict[str, Any] = {
    "id": 7, "small": -3, "short_": 300, "ratio": 0.5, "single": 1.5, "yes": True, "name": "ü", "raw": b"\x00\xff",
    "price": Decimal("-12345678901234567890.50"), "at": NOON, "day": datetime(2024, 2, 29, tzinfo=UTC),
    "clock": datetime(1970, 1, 1, 1, 2, 3, 4000, tzinfo=UTC), "tags": ["a", ""], "inner": Struct(INNER, {"x": 1}), "again": None,
    "inners": [Struct(INNER, {"x": 2}), Struct(INNER, {"x": 0})], "some_counts": {"a": 1}, "by_number": {5: Struct(INNER, {"x": 5})},
    "colour": "GREEN", "choice": Struct(CHOICE, {"text": "t"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as one:
        yield one


def written(registry: SchemaRegistry, schema: Schema | None, value: Any, topic: str = "t", **options: str) -> bytes:
    one = converter(PROTOBUF, registry, **options)
    found = settled(lambda: one.to_bytes(topic, schema, value))
    assert found is not None
    return found


def read(registry: SchemaRegistry, raw: bytes, **options: str) -> tuple[Schema | None, Any]:
    one = converter(PROTOBUF, registry, **options)
    return settled(lambda: one.to_data("t", raw))


def values_of(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: values_of(one) for key, one in found.items()}
    return [values_of(one) for one in found] if isinstance(found, list) else plain(found)


def test_a_row_of_all_types_comes_back(registry: SchemaRegistry) -> None:
    schema, value = read(registry, written(registry, ROW, Struct(ROW, VALUES)))
    assert schema is not None
    expected = {name: values_of(one) for name, one in VALUES.items() if name != "choice"}
    found = {name: values_of(one) for name, one in value.values.items()}
    assert found.pop("choice_0") == {"text": "t"}
    assert found == expected
    assert schema.name == "Row"
    kinds = {one.name: (one.schema.type, one.schema.name) for one in schema.fields}
    assert kinds["small"] == (Type.INT8, None)
    assert kinds["price"] == (Type.BYTES, data.DECIMAL)
    assert kinds["inner"] == (Type.STRUCT, "Inner")
    assert [one.schema.parameter(TAG) for one in schema.fields][:4] == [None, "1", "2", "3"]


def test_the_schema_that_was_read_is_written_as_the_same_schema(registry: SchemaRegistry) -> None:
    options = {"enhanced.protobuf.schema.support": "true", "generate.index.for.unions": "false"}
    first = written(registry, ROW, Struct(ROW, VALUES), **options)
    schema, value = read(registry, first, **options)
    second = written(registry, schema, value, **options)
    third_schema, third = read(registry, second, **options)
    assert (third_schema, values_of(third)) == (schema, values_of(value))
    assert second[5:] == first[5:]


@pytest.mark.parametrize("option", [None, "optional.for.nullables", "wrapper.for.nullables"])
def test_null_differs_from_zero_only_on_request(registry: SchemaRegistry, option: str | None) -> None:
    schema = data.struct(
        {"n": data.INT32.as_optional(), "s": data.OPTIONAL_STRING, "z": data.INT16.as_optional()},
        name=f"N{(option or '').replace('.', '_')}",
    )
    options = {} if option is None else {option: "true"}
    _, value = read(registry, written(registry, schema, Struct(schema, {"n": None, "s": None, "z": 0}), f"n{option}", **options), **options)
    nothing: Any = 0 if option is None else None
    assert value.values == {"n": nothing, "s": "" if option is None else None, "z": 0}


@pytest.mark.parametrize(("schema", "value"), [(data.STRING, "text"), (data.INT32, -5), (data.BOOLEAN, True), (data.BYTES, b"\x00")])
def test_a_value_that_is_no_struct_is_wrapped(registry: SchemaRegistry, schema: Schema, value: Any) -> None:
    found_schema, found = read(registry, written(registry, schema, value, f"p{schema.type}"))
    assert (found_schema, found) == (schema, value)


def test_debeziums_envelope_has_its_row_once(registry: SchemaRegistry) -> None:
    row = data.struct({"id": data.INT32}, name="db.t.Value", optional=True)
    envelope = data.struct({"before": row, "after": row, "op": data.STRING}, name="db.t.Envelope")
    raw = written(registry, envelope, Struct(envelope, {"before": None, "after": Struct(row, {"id": 1}), "op": "c"}), "envelope")
    assert plain(read(registry, raw)[1]) == {"before": None, "after": {"id": 1}, "op": "c"}
    file = FileDescriptorProto.FromString(base64.b64decode(registry.schemas[int.from_bytes(raw[1:5], "big") - 1]["schema"]))
    assert [one.name for one in file.message_type[0].nested_type] == ["Value"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (data.array(data.array(data.INT32)), [[1]]),
        (Schema(Type.MAP, key_schema=data.array(data.INT32), value_schema=data.INT32), {}),
        (data.array(data.OPTIONAL_STRING), ["a", None]),
        (data.INT32, 1 << 40),
        (data.INT32, "no number"),
        (data.INT32, True),
    ],
)
def test_a_value_that_protobuf_cannot_hold_is_an_error(registry: SchemaRegistry, kind: Schema, value: Any) -> None:
    schema = data.struct({"f": kind}, name="Odd")
    with pytest.raises(DataError):
        written(registry, schema, Struct(schema, {"f": value}), f"odd{value}"[:7])


@pytest.mark.parametrize("raw", [b"", b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01\x80", b"\x00\x00\x00\x00\x01\x02\x08\x00"])
def test_hostile_bytes_are_errors(registry: SchemaRegistry, raw: bytes) -> None:
    written(registry, ROW, Struct(ROW, VALUES))
    with pytest.raises(DataError):
        read(registry, raw)


def message_class(registry: SchemaRegistry, raw: bytes) -> Any:
    """The class of the message, made of the registered schema."""
    file = FileDescriptorProto.FromString(base64.b64decode(registry.schemas[int.from_bytes(raw[1:5], "big") - 1]["schema"]))
    pool = protobuf_types.pool_of({file.name: file})
    descriptor = next(iter(pool.FindFileByName(file.name).message_types_by_name.values()))
    return message_factory.GetMessageClass(descriptor)


@pytest.mark.filterwarnings("ignore")
def test_confluents_python_client_reads_it_and_writes_the_same_bytes(registry: SchemaRegistry) -> None:
    client = pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
    protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf", exc_type=ImportError)
    from confluent_kafka.serialization import MessageField, SerializationContext

    raw = written(registry, ROW, Struct(ROW, VALUES), "theirs")
    kind, context = message_class(registry, raw), SerializationContext("theirs", MessageField.VALUE)
    asked = client.SchemaRegistryClient({"url": registry.url})
    found = protobuf.ProtobufDeserializer(kind, {"use.deprecated.format": False}, asked)(raw, context)
    assert (found.id, found.name, found.choice_text if hasattr(found, "choice_text") else found.text) == (7, "ü", "t")
    options = {"auto.register.schemas": False, "use.latest.version": True, "use.deprecated.format": False, "skip.known.types": True}
    again = protobuf.ProtobufSerializer(kind, asked, options)(found, context)
    assert again == raw
