"""◇ Connect's schemas as JSON Schema (draft 7), and back.  Source: JsonSchemaData, as Confluent documents it.

    struct     object, its properties with connect.index       int8 … int64      integer with connect.type
    map        object with additionalProperties; with other    float32, float64  number with connect.type
               keys an array of pairs                          bytes             string with connect.type bytes
    optional   oneOf null and the type

A schema that was written by others has no connect.type: integers are int64, numbers float64, and a property that is not required is
optional.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from moldau.connect import data
from moldau.connect.converters.avro_schema import is_plain_map
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.data import Field, Schema, Type
from moldau.connect.errors import DataError

_DRAFT: Final = {
    Type.INT8: "integer", Type.INT16: "integer", Type.INT32: "integer", Type.INT64: "integer", Type.FLOAT32: "number",
    Type.FLOAT64: "number", Type.BOOLEAN: "boolean", Type.STRING: "string", Type.BYTES: "string",
}  # fmt: skip
_CONNECT: Final = {"integer": Type.INT64, "number": Type.FLOAT64, "boolean": Type.BOOLEAN, "string": Type.STRING}


def draft(schema: Schema, values: JsonConverter, index: int | None = None) -> dict[str, Any]:
    """`values` writes defaults."""
    found = _body(schema, values)
    marks: dict[str, Any] = {
        "title": schema.name, "connect.version": schema.version, "connect.doc": schema.doc,
        "connect.parameters": dict(schema.parameters) or None, "connect.index": index,
        "default": None if schema.default is None else values.to_json(replace(schema, default=None), schema.default),
    }  # fmt: skip
    given = {name: value for name, value in marks.items() if value is not None}
    if not schema.optional:
        return {**found, **given}
    outer: dict[str, Any] = {name: given.pop(name) for name in ("connect.index", "default") if name in given}
    return {"oneOf": [{"type": "null"}, {**found, **given}], **outer}


def _body(schema: Schema, values: JsonConverter) -> dict[str, Any]:
    if schema.type is Type.STRUCT:
        return {"type": "object", "properties": {one.name: draft(one.schema, values, index) for index, one in enumerate(schema.fields)}}
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return {"type": "array", "items": draft(schema.value_schema, values)}
    if schema.type is Type.MAP:
        assert schema.key_schema is not None and schema.value_schema is not None
        inner = draft(schema.value_schema, values)
        if is_plain_map(schema):
            return {"type": "object", "additionalProperties": inner, "connect.type": "map"}
        pair = {"type": "array", "items": [draft(schema.key_schema, values), inner]}
        return {"type": "array", "items": pair, "connect.type": "map"}
    found: dict[str, Any] = {"type": _DRAFT[schema.type]}
    if schema.type not in (Type.BOOLEAN, Type.STRING):
        found["connect.type"] = str(schema.type)
    return found


class Root:
    """The document that references of a schema are resolved in.  `imported`: other documents, by the names that references have."""

    def __init__(self, document: Any, imported: Mapping[str, Any]) -> None:
        self.document, self.imported = document, imported

    def referenced(self, reference: str) -> "tuple[dict[str, Any], Root]":
        """The schema, and the document that it stands in.  Errors: DataError."""
        name, _, path = reference.partition("#")
        known = next((one for one in (name, name.rpartition("/")[2]) if one in self.imported), None)
        if name and known is None:
            raise DataError(f"the JSON schema refers to {reference}, which the registry does not name as a reference of it")
        root = self if known is None else Root(self.imported[known], self.imported)
        current: Any = root.document
        for part in path.split("/")[1:]:
            if not isinstance(current, dict) or part not in current:
                raise DataError(f"the JSON schema has no {reference}")
            current = current[part]
        if not isinstance(current, dict):
            raise DataError(f"{reference} is no JSON schema")
        return current, root


def connect_schema(
    found: dict[str, Any], values: JsonConverter, root: Root | None = None, depth: int = 0, *, imported: Mapping[str, Any] | None = None
) -> Schema:
    """`imported`: the documents that the schema may refer to.  Errors: DataError."""
    root = Root(found, imported or {}) if root is None else root
    if depth > 64:
        raise DataError("the JSON schema holds itself")
    if "$ref" in found:
        referenced, there = root.referenced(str(found["$ref"]))
        return connect_schema(referenced, values, there, depth + 1)
    choices = found.get("oneOf") or found.get("anyOf")
    kinds = found.get("type")
    if isinstance(kinds, list):
        choices = [{**found, "type": kind} for kind in kinds]
    if choices:
        others = [one for one in choices if one.get("type") != "null"]
        if len(others) != 1:
            raise DataError("a JSON schema with a choice of several types has no counterpart in Connect")
        inner = connect_schema(others[0], values, root, depth + 1)
        return _with_default(replace(inner, optional=len(others) < len(choices) or inner.optional), found, values)
    schema = _of_type(found, values, root, depth)
    schema = replace(
        schema, name=found.get("title"), version=found.get("connect.version"), doc=found.get("connect.doc"),
        parameters=tuple(sorted(found.get("connect.parameters", {}).items())),
    )  # fmt: skip
    return _with_default(schema, found, values)


def _of_type(found: dict[str, Any], values: JsonConverter, root: Root, depth: int) -> Schema:
    kind, connect_type = found.get("type"), found.get("connect.type")
    if connect_type == "map" and kind == "object":
        inner = connect_schema(found["additionalProperties"], values, root, depth + 1)
        return Schema(Type.MAP, key_schema=data.STRING, value_schema=inner)
    if connect_type == "map":
        key, value = (connect_schema(one, values, root, depth + 1) for one in found["items"]["items"])
        return Schema(Type.MAP, key_schema=key, value_schema=value)
    if kind == "array":
        return data.array(connect_schema(found.get("items", {"type": "string"}), values, root, depth + 1))
    if kind == "object" or (kind is None and "properties" in found):
        return Schema(Type.STRUCT, fields=_fields(found, values, root, depth))
    if connect_type is not None:
        return Schema(Type(connect_type))
    if kind in _CONNECT:
        return Schema(_CONNECT[kind])
    if "enum" in found:
        return data.STRING
    raise DataError(f"a JSON schema of type {kind} has no counterpart in Connect")


def _fields(found: dict[str, Any], values: JsonConverter, root: Root, depth: int) -> tuple[Field, ...]:
    required = set(found.get("required", ()))
    fields = []
    listed = sorted(found.get("properties", {}).items(), key=lambda one: one[1].get("connect.index", 0))
    for name, one in listed:
        schema = connect_schema(one, values, root, depth + 1)
        if "connect.index" not in one and name not in required:
            schema = schema.as_optional()
        fields.append(Field(name, schema))
    return tuple(fields)


def _with_default(schema: Schema, found: dict[str, Any], values: JsonConverter) -> Schema:
    return schema if found.get("default") is None else replace(schema, default=values.from_json(schema, found["default"]))
