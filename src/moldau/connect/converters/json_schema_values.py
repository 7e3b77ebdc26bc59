"""◇ Values in JSON as Confluent's JsonSchemaConverter writes them: as JsonConverter's, but for maps, unions and missing properties.

A map whose keys are no texts, or may be null, is a list of objects with `key` and `value`.  A union is the value of its one member.
A property that is missing is null, also where null is not allowed.  Source: JsonSchemaData.
"""

from typing import Any, Final

from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.data import FLOATS, INTEGERS, Schema, Struct, Type
from moldau.connect.errors import DataError, shown

UNION: Final = "io.confluent.connect.json.OneOf"
_ENTRY: Final = {"key", "value"}
_MISSING: Final = object()


def is_object(schema: Schema) -> bool:
    """Whether the values of this map are objects in JSON."""
    assert schema.key_schema is not None
    return schema.key_schema.type is Type.STRING and not schema.key_schema.optional


class JsonSchemaValues(JsonConverter):
    """See the module.  Errors: DataError."""

    def __init__(self, *, decimal_format: str = "BASE64", replace_null_with_default: bool = True) -> None:
        super().__init__(schemas_enable=False, decimal_format=decimal_format, replace_null_with_default=replace_null_with_default)

    def to_json(self, schema: Schema | None, value: Any) -> Any:
        if schema is not None and schema.name == UNION and isinstance(value, Struct):
            chosen = next((one for one in schema.fields if value.get(one.name, with_default=self.fills_in) is not None), None)
            return None if chosen is None else self.to_json(chosen.schema, value.get(chosen.name, with_default=self.fills_in))
        return super().to_json(schema, value)

    def struct_to_json(self, schema: Schema, value: Struct) -> dict[str, Any]:
        found = {}
        for one in schema.fields:
            given = value.get(one.name, with_default=self.fills_in)
            if given is not None or one.schema.optional or one.schema.default is not None:
                found[one.name] = self.to_json(one.schema, given)
        return found

    def map_to_json(self, schema: Schema, value: dict[Any, Any]) -> Any:
        pairs = [(self.to_json(schema.key_schema, key), self.to_json(schema.value_schema, one)) for key, one in value.items()]
        return dict(pairs) if is_object(schema) else [{"key": key, "value": one} for key, one in pairs]

    def from_json(self, schema: Schema | None, found: Any) -> Any:
        if schema is None or found is None:
            return super().from_json(schema, found)
        if schema.type is Type.MAP:
            return self._map_from_json(schema, found)
        if schema.name == UNION and schema.type is Type.STRUCT:
            return self._union_from_json(schema, found)
        if schema.type is Type.STRUCT and isinstance(found, dict):
            return Struct(schema, {one.name: self._property(one.schema, found.get(one.name, _MISSING)) for one in schema.fields})
        return super().from_json(schema, found)

    def _property(self, schema: Schema, found: Any) -> Any:
        return schema.default if found is _MISSING else self.from_json(schema, found)

    def _map_from_json(self, schema: Schema, found: Any) -> dict[Any, Any]:
        if is_object(schema):
            if not isinstance(found, dict):
                raise DataError(f"a map with texts as keys is an object in JSON, not {shown(found)}")
            return {key: self.from_json(schema.value_schema, one) for key, one in found.items()}
        if not isinstance(found, list) or not all(isinstance(one, dict) and set(one) == _ENTRY for one in found):
            raise DataError(f"a map is an array of objects with key and value in JSON, not {shown(found)}")
        return {self.from_json(schema.key_schema, one["key"]): self.from_json(schema.value_schema, one["value"]) for one in found}

    def _union_from_json(self, schema: Schema, found: Any) -> Struct:
        """In the first member whose type is the value's; an object is in the one that names most of its properties."""
        chosen = next((one for one in schema.fields if _is_of(one.schema, found)), None)
        if chosen is None:
            matching = [(_matching(one.schema, found), one) for one in schema.fields]
            most, chosen = max(matching, key=lambda one: one[0], default=(0, None))
            if most == 0 or chosen is None:
                raise DataError(f"no member of the union fits {shown(found)}")
        return Struct(schema, {chosen.name: self.from_json(chosen.schema, found)})


def _is_of(schema: Schema, found: Any) -> bool:
    kind = schema.type
    if isinstance(found, bool):
        return kind is Type.BOOLEAN
    if isinstance(found, int):
        return kind in INTEGERS or kind in FLOATS
    if isinstance(found, float):
        return kind in FLOATS
    if isinstance(found, str):
        return kind is Type.STRING
    return kind is Type.MAP or (kind is Type.ARRAY and isinstance(found, list))


def _matching(schema: Schema, found: Any) -> int:
    """How many properties of an object a struct has, with those of the objects within."""
    if schema.type is not Type.STRUCT or not isinstance(found, dict):
        return 0
    shared = [one for one in schema.fields if one.name in found]
    return len(shared) + sum(_matching(one.schema, found[one.name]) for one in shared)
