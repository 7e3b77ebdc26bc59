"""JSON Schema as Confluent's JsonSchemaConverter writes and reads it.  `python -m proof.connect.confluent_data` compares both at random."""

import json
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect import data
from moldau.connect.converters.json_schema_converter import SCHEMA_DRAFT, JsonSchemaConverter
from moldau.connect.data import Field, Schema, Struct, Type
from moldau.connect.errors import DataError
from moldau.connect.registry.client import Registered
from moldau.connect.registry.framing import framed, unframed
from proof.connect.avro_data import Registry

UNION = "io.confluent.connect.json.OneOf"
ENUM = "io.confluent.connect.json.Enum"


def converter(registry: Registry, **options: Any) -> JsonSchemaConverter:
    return JsonSchemaConverter(registry, lambda topic, name: "s", **options)  # type: ignore[arg-type]


def written(schema: Schema, value: Any, **options: Any) -> tuple[dict[str, Any], Any]:
    """The JSON Schema and the JSON."""
    registry = Registry()
    raw = converter(registry, **options).to_bytes("t", schema, value)
    assert raw is not None
    number, body = unframed(raw)
    found = json.loads(registry.known[number].text)
    assert found.pop("$schema") == SCHEMA_DRAFT
    return found, json.loads(body)


def read(schema: Any, value: Any, **options: Any) -> tuple[Schema | None, Any]:
    registry = Registry()
    number, _ = registry.id_of("s", Registered("JSON", json.dumps(schema)))
    return converter(registry, **options).to_data("t", framed(number, json.dumps(value).encode()))


def test_a_map_whose_keys_are_no_texts_is_a_list_of_keys_and_values() -> None:
    schema = Schema(Type.MAP, key_schema=data.INT32, value_schema=data.STRING)
    found, body = written(schema, {5: "five"})
    assert found == {
        "type": "array", "connect.type": "map",
        "items": {
            "type": "object",
            "properties": {
                "key": {"type": "integer", "connect.type": "int32", "connect.index": 0}, "value": {"type": "string", "connect.index": 1},
            },
        },
    }  # fmt: skip
    assert body == [{"key": 5, "value": "five"}]
    assert read(found, body) == (schema, {5: "five"})


def test_what_stands_beside_a_type_has_confluents_names() -> None:
    schema = Schema(Type.INT32, True, "n.N", 3, "a number", (("unit", "ms"),), 7)
    found, _ = written(data.struct({"a": schema}), Struct(data.struct({"a": schema}), {"a": 1}))
    number = {
        "type": "integer", "connect.type": "int32", "title": "n.N", "description": "a number", "connect.version": 3,
        "connect.parameters": {"unit": "ms"}, "default": 7,
    }  # fmt: skip
    assert found["properties"] == {"a": {"oneOf": [{"type": "null"}, number], "connect.index": 0}}
    assert read(found["properties"]["a"], 1) == (schema, 1)


def test_a_choice_is_a_struct_with_one_value_and_is_written_as_the_choice() -> None:
    text = {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"x": {"type": "integer"}}}, {"type": "null"}]}
    schema, value = read(text, {"x": 5})
    assert schema is not None and (schema.name, schema.optional) == (UNION, True)
    assert value.values[f"{UNION}.field.1"].values == {"x": 5}
    assert written(schema, value)[1] == {"x": 5}
    assert read(text, "s")[1].values == {f"{UNION}.field.0": "s"}
    with pytest.raises(DataError, match="no member of the union fits"):
        read(text, {"y": 1})


def test_an_enum_is_a_text_with_its_symbols() -> None:
    schema, value = read({"type": "string", "enum": ["red", "blue"]}, "red")
    assert schema == Schema(Type.STRING, parameters=((ENUM, ""), (f"{ENUM}.red", "red"), (f"{ENUM}.blue", "blue")))
    assert written(schema, value) == ({"enum": ["red", "blue"]}, "red")
    assert read({"const": "fixed"}, "fixed")[0] == Schema(Type.STRING, parameters=((ENUM, ""), (f"{ENUM}.fixed", "fixed")))


def test_the_properties_of_all_of_are_one_struct() -> None:
    text = {
        "allOf": [{"$ref": "#/definitions/base"}, {"type": "object", "properties": {"b": {"type": "string"}}}],
        "definitions": {"base": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    }
    schema, value = read(text, {"a": 1, "b": "x"})
    assert schema == data.struct({"a": data.INT64, "b": data.STRING})
    assert value.values == {"a": 1, "b": "x"}


def test_a_property_that_is_missing_is_null_and_optional_on_request() -> None:
    text = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
    schema, value = read(text, {"a": 1})
    assert schema == data.struct({"a": data.INT64, "b": data.INT64})
    assert value.values == {"a": 1, "b": None}
    assert read(text, {"a": 1}, optional_unless_required=True)[0] == data.struct({"a": data.INT64, "b": data.INT64.as_optional()})


def test_objects_are_closed_on_request_and_decimals_can_be_numbers() -> None:
    schema = Schema(Type.STRUCT, fields=(Field("d", data.decimal(1)),))
    found, body = written(schema, Struct(schema, {"d": Decimal("1.5")}), additional_properties=False, decimal_format="NUMERIC")
    assert (found["additionalProperties"], found["properties"]["d"]["type"], body) == (False, "number", {"d": 1.5})


@pytest.mark.parametrize("text", [{}, {"type": "null"}, {"type": "array"}, {"not": {"type": "string"}}, {"$ref": "#"}])
def test_a_schema_without_a_counterpart_is_an_error(text: Any) -> None:
    with pytest.raises(DataError):
        read(text, 1)
