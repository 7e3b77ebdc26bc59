"""◇ A schema as JSON, as JsonConverter writes it into `schema`.  Source: JsonConverter.java, JsonSchema.java."""

from dataclasses import replace
from typing import Any, Final

from moldau.connect.data import Field, Schema, Type
from moldau.connect.errors import DataError

_NAMES: Final = {Type.FLOAT32: "float", Type.FLOAT64: "double"}
_TYPES: Final = {_NAMES.get(kind, str(kind)): kind for kind in Type}


def schema_to_json(schema: Schema | None, default_to_json: Any) -> dict[str, Any] | None:
    """`default_to_json(schema, value)`: how a default value is written."""
    if schema is None:
        return None
    found: dict[str, Any] = {"type": _NAMES.get(schema.type, str(schema.type))}
    if schema.type is Type.ARRAY:
        found["items"] = schema_to_json(schema.value_schema, default_to_json)
    elif schema.type is Type.MAP:
        found["keys"] = schema_to_json(schema.key_schema, default_to_json)
        found["values"] = schema_to_json(schema.value_schema, default_to_json)
    elif schema.type is Type.STRUCT:
        found["fields"] = [{**(schema_to_json(one.schema, default_to_json) or {}), "field": one.name} for one in schema.fields]
    found["optional"] = schema.optional
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            found[name] = getattr(schema, name)
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        found["default"] = default_to_json(schema, schema.default)
    return found


def schema_from_json(found: Any, default_from_json: Any) -> Schema | None:
    """Errors: DataError."""
    if found is None:
        return None
    kind = found.get("type") if isinstance(found, dict) else None
    if not isinstance(kind, str):
        raise DataError("Schema must contain 'type' field")
    if kind not in _TYPES:
        raise DataError(f"Unknown schema type: {kind}")
    fields: tuple[Field, ...] = ()
    key_schema = value_schema = None
    if kind == "array":
        value_schema = _part(found, "items", "Array schema did not specify the element type", default_from_json)
    elif kind == "map":
        key_schema = _part(found, "keys", "Map schema did not specify the key type", default_from_json)
        value_schema = _part(found, "values", "Map schema did not specify the value type", default_from_json)
    elif kind == "struct":
        fields = _fields(found, default_from_json)
    parameters = found.get("parameters") or {}
    if not isinstance(parameters, dict) or not all(isinstance(one, str) for one in parameters.values()):
        raise DataError("Schema parameters must have string values.")
    version = found.get("version")
    if version is not None and not isinstance(version, int):
        raise DataError("Invalid Schema version, must be integer")
    bare = Schema(
        _TYPES[kind],
        bool(found.get("optional", False)),
        _text(found, "name"),
        version,
        _text(found, "doc"),
        tuple(parameters.items()),
        None,
        fields,
        key_schema,
        value_schema,
    )
    if found.get("default") is None:
        return bare
    return replace(bare, default=default_from_json(bare, found["default"]))


def _text(found: dict[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise DataError(f"Invalid schema {name}, must be a string")
    return value


def _part(found: dict[str, Any], name: str, missing: str, default_from_json: Any) -> Schema:
    if found.get(name) is None:
        raise DataError(missing)
    schema = schema_from_json(found[name], default_from_json)
    assert schema is not None
    return schema


def _fields(found: dict[str, Any], default_from_json: Any) -> tuple[Field, ...]:
    listed = found.get("fields")
    if not isinstance(listed, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields = []
    for one in listed:
        if not isinstance(one, dict) or not isinstance(one.get("field"), str):
            raise DataError("Struct schema's field name not specified properly")
        schema = schema_from_json(one, default_from_json)
        assert schema is not None
        fields.append(Field(one["field"], schema))
    return tuple(fields)
