"""◇ JSON, with the schema beside the data or without.  Source: JsonConverter.java.

    schemas.enable=true      {"schema": {"type": "string", "optional": false}, "payload": "hello"}
    schemas.enable=false     "hello"

Without a schema, whole numbers are int64 and other numbers float64.  A map whose keys are no strings is a list of pairs.
"""

import base64
import binascii
import json
from decimal import Decimal
from typing import Any, Final

from moldau.connect.converters.json_schema import schema_from_json, schema_to_json
from moldau.connect.data import DECIMAL, FLOATS, INTEGERS, Schema, Struct, Type, to_logical, to_primitive
from moldau.connect.errors import ConfigError, DataError

ENVELOPE: Final = {"schema", "payload"}
NEEDS_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)


class JsonConverter:
    """See the module.  Errors: ConfigError when made; DataError."""

    def __init__(
        self,
        *,
        schemas_enable: bool = True,
        decimal_format: str = "BASE64",
        replace_null_with_default: bool = True,
        schema_content: str | None = None,
    ) -> None:
        if decimal_format.upper() not in ("BASE64", "NUMERIC"):
            raise ConfigError.invalid("decimal.format", decimal_format, "String must be one of (case insensitive): NUMERIC, BASE64")
        self._has_schemas = schemas_enable
        self.has_decimals_as_numbers = decimal_format.upper() == "NUMERIC"
        self.fills_in = replace_null_with_default
        self._schema = schema_from_json(_loads(schema_content.encode()), self.from_json) if schema_content else None
        self._written: dict[Schema | None, Any] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None and value is None:
            return None
        found = self.to_json(schema, value)
        if self._has_schemas:
            found = {"schema": self._schema_json(schema), "payload": found}
        try:
            return json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_decimal).encode()
        except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
            raise DataError(f"Converting Kafka Connect data to byte[] failed due to serialization error: {error}") from error

    def to_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        found = _loads(data)
        if not self._has_schemas:
            return None, self.from_json(None, found)
        if self._schema is not None:
            return self._schema, self.from_json(self._schema, found)
        if not isinstance(found, dict) or set(found) != ENVELOPE:
            raise DataError(NEEDS_ENVELOPE)
        schema = schema_from_json(found["schema"], self.from_json)
        return schema, self.from_json(schema, found["payload"])

    def _schema_json(self, schema: Schema | None) -> Any:
        try:
            if schema not in self._written:
                if len(self._written) >= 1000:
                    self._written.clear()
                self._written[schema] = schema_to_json(schema, self.to_json)
            return self._written[schema]
        except TypeError:  # a default that cannot be hashed, such as a list
            return schema_to_json(schema, self.to_json)

    # ------------------------------------------------------------ data to JSON

    def to_json(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            if schema is None:
                return None
            if schema.default is not None and (self.fills_in or not schema.optional):
                return self.to_json(schema, schema.default)
            if schema.optional:
                return None
            raise DataError("Conversion error: null value for field that is required and has no default value")
        if schema is None:
            return self._plain(value)
        if schema.name == DECIMAL and isinstance(value, Decimal) and self.has_decimals_as_numbers:
            return value
        value = to_primitive(schema, value)
        kind = schema.type
        try:
            if kind is Type.BYTES:
                return base64.b64encode(value).decode()
            if kind is Type.ARRAY:
                return [self.to_json(schema.value_schema, one) for one in value]
            if kind is Type.MAP:
                return self.map_to_json(schema, value)
            if kind is Type.STRUCT:
                if value.schema != schema:
                    raise DataError("Mismatching schema.")
                return self.struct_to_json(schema, value)
        except (TypeError, AttributeError) as error:
            raise DataError(f"Invalid type for {kind.name}: {type(value).__name__}") from error
        if not _fits(kind, value):
            raise DataError(f"Invalid type for {kind.name}: {type(value).__name__}")
        return float(value) if kind in FLOATS else value

    def struct_to_json(self, schema: Schema, value: Struct) -> dict[str, Any]:
        return {one.name: self.to_json(one.schema, value.get(one.name, with_default=self.fills_in)) for one in schema.fields}

    def map_to_json(self, schema: Schema, value: dict[Any, Any]) -> Any:
        pairs = [(self.to_json(schema.key_schema, key), self.to_json(schema.value_schema, one)) for key, one in value.items()]
        keys = schema.key_schema
        if keys is not None and keys.type is Type.STRING:
            if None in value:
                raise DataError("JSON has no object with null as a name, and a map of strings is an object")
            return dict(pairs)
        return [list(pair) for pair in pairs]

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            if all(isinstance(key, str) for key in value):
                return {key: self._plain(one) for key, one in value.items()}
            return [[self._plain(key), self._plain(one)] for key, one in value.items()]
        if isinstance(value, list):
            return [self._plain(one) for one in value]
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, Struct):
            return self.to_json(value.schema, value)
        if isinstance(value, Decimal):
            return value
        if value is None or isinstance(value, str | int | float):
            return value
        raise DataError(f"Couldn't convert {value} to JSON: type {type(value).__name__} has no counterpart")

    # ------------------------------------------------------------ JSON to data

    def from_json(self, schema: Schema | None, found: Any) -> Any:
        if schema is None:
            return found
        if found is None:
            if schema.default is not None and self.fills_in:
                return schema.default
            if schema.optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type.name} field")
        kind = schema.type
        if schema.name == DECIMAL and isinstance(found, int | float) and not isinstance(found, bool):
            return Decimal(str(found))
        if kind is Type.ARRAY and isinstance(found, list):
            return [self.from_json(schema.value_schema, one) for one in found]
        if kind is Type.MAP and isinstance(found, dict):
            return {key: self.from_json(schema.value_schema, one) for key, one in found.items()}
        if kind is Type.MAP and isinstance(found, list) and all(isinstance(one, list) and len(one) == 2 for one in found):
            return {self.from_json(schema.key_schema, key): self.from_json(schema.value_schema, one) for key, one in found}
        if kind is Type.STRUCT and isinstance(found, dict):
            return Struct(schema, {one.name: self.from_json(one.schema, found.get(one.name)) for one in schema.fields})
        if kind is Type.BYTES and isinstance(found, str):
            try:
                return to_logical(schema, base64.b64decode(found, validate=True))
            except binascii.Error as error:
                raise DataError(f"Invalid bytes field: {error}") from error
        if not _fits(kind, found):
            raise DataError(f"Invalid type for {kind.name}: {found!r}")
        return to_logical(schema, float(found) if kind in FLOATS else found)


def _fits(kind: Type, value: Any) -> bool:
    if kind is Type.BOOLEAN:
        return isinstance(value, bool)
    if kind is Type.STRING:
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if kind in INTEGERS:
        return isinstance(value, int) and -(1 << INTEGERS[kind] - 1) <= value < 1 << INTEGERS[kind] - 1
    return kind in FLOATS and isinstance(value, int | float)


def _decimal(value: Any) -> Any:
    if isinstance(value, Decimal):
        as_float = float(value)
        return int(value) if value == value.to_integral_value() else as_float
    raise TypeError(f"{type(value).__name__} is not JSON")


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"Converting byte[] to Kafka Connect data failed due to serialization error: {error}") from error


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
