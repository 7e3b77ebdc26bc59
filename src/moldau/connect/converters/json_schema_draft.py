"""◇ Connect's schemas as JSON Schema (draft 7).  Source: JsonSchemaData; `json_schema_reading` goes the other way.

struct     object, its properties with connect.index       int8 … int64      integer with connect.type
map        object with additionalProperties; with other    float32, float64  number with connect.type
           keys an array of objects with key and value     bytes             string with connect.type bytes
optional   oneOf null and the type                         union, enum       oneOf, enum
"""

from dataclasses import replace
from typing import Any, Final

from moldau.connect.converters.json_schema_values import UNION, JsonSchemaValues, is_object
from moldau.connect.data import DECIMAL, Schema, Type

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
NULL: Final = "<NULL>"
"""The symbol of an enum that stands for null."""
_DRAFT: Final = {
    Type.INT8: "integer", Type.INT16: "integer", Type.INT32: "integer", Type.INT64: "integer", Type.FLOAT32: "number",
    Type.FLOAT64: "number", Type.BOOLEAN: "boolean", Type.STRING: "string", Type.BYTES: "string",
}  # fmt: skip


class Drafts:
    """`values` writes defaults.  `is_open`: whether objects may have properties that their schema does not name."""

    def __init__(self, values: JsonSchemaValues, *, is_open: bool = True) -> None:
        self._values = values
        self._is_open = is_open

    def draft(self, schema: Schema, index: int | None = None) -> dict[str, Any]:
        """`index`: the place of a struct's field."""
        place = {} if index is None else {"connect.index": index}
        if schema.name == UNION:
            members = [self.draft(replace(one.schema, optional=False), number) for number, one in enumerate(schema.fields)]
            return {"oneOf": [{"type": "null"}, *members] if schema.optional else members, **place}
        found = {**self._body(schema), **self._marks(schema)}
        return {"oneOf": [{"type": "null"}, found], **place} if schema.optional else {**found, **place}

    def _marks(self, schema: Schema) -> dict[str, Any]:
        given = {name: value for name, value in schema.parameters if not name.startswith(NAMESPACE)}
        default = None if schema.default is None else self._values.to_json(replace(schema, default=None), schema.default)
        marks: dict[str, Any] = {
            "title": schema.name, "description": schema.doc, "connect.version": schema.version, "connect.parameters": given or None,
            "default": default,
        }  # fmt: skip
        return {name: value for name, value in marks.items() if value is not None}

    def _body(self, schema: Schema) -> dict[str, Any]:
        if schema.type is Type.STRUCT:
            properties = {one.name: self.draft(one.schema, index) for index, one in enumerate(schema.fields)}
            return {"type": "object", "properties": properties, **({} if self._is_open else {"additionalProperties": False})}
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            return {"type": "array", "items": self.draft(schema.value_schema)}
        if schema.type is Type.MAP:
            assert schema.key_schema is not None and schema.value_schema is not None
            if is_object(schema):
                return {"type": "object", "additionalProperties": self.draft(schema.value_schema), "connect.type": "map"}
            entry = {"key": self.draft(schema.key_schema, 0), "value": self.draft(schema.value_schema, 1)}
            return {"type": "array", "items": {"type": "object", "properties": entry}, "connect.type": "map"}
        if schema.type is Type.STRING and schema.parameter(ENUM) is not None:
            symbols = [name.removeprefix(f"{ENUM}.") for name, _ in schema.parameters if name.startswith(f"{ENUM}.")]
            return {"enum": [None if one == NULL else one for one in symbols]}
        found: dict[str, Any] = {"type": _DRAFT[schema.type]}
        if schema.type not in (Type.BOOLEAN, Type.STRING):
            found["connect.type"] = str(schema.type)
        if schema.name == DECIMAL and self._values.has_decimals_as_numbers:
            found["type"] = "number"
        return found
