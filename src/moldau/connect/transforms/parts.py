"""◇ The part of a record that a transform works on, and checks of it.  Source: Requirements, SchemaUtil, `$Key` and `$Value`."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Protocol

from moldau.connect.data import Field, Record, Schema, Struct
from moldau.connect.errors import DataError


class Part(StrEnum):
    KEY = "Key"
    VALUE = "Value"

    def schema_of(self, record: Record) -> Schema | None:
        return record.key_schema if self is Part.KEY else record.value_schema

    def value_of(self, record: Record) -> Any:
        return record.key if self is Part.KEY else record.value

    def replaced(self, record: Record, schema: Schema | None, value: Any) -> Record:
        if self is Part.KEY:
            return replace(record, key_schema=schema, key=value)
        return replace(record, value_schema=schema, value=value)


class Transform(Protocol):
    """Made of its parsed options.  A result of None: the record is dropped.  Errors: DataError, ConnectError."""

    def apply(self, record: Record) -> Record | None: ...


JAVA_NAMES: Mapping[type, str] = {str: "java.lang.String", int: "java.lang.Long", float: "java.lang.Double", bool: "java.lang.Boolean"}


def class_name(value: Any) -> str:
    return "null" if value is None else JAVA_NAMES.get(type(value), type(value).__name__)


def required_map(value: Any, purpose: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {class_name(value)}")
    return value


def required_struct(value: Any, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {class_name(value)}")
    return value


def with_fields(schema: Schema, fields: Mapping[str, Schema]) -> Schema:
    """The same struct with other fields.  As in Kafka it is required, even if the former one was optional (SchemaUtil.copySchemaBasics)."""
    return replace(schema, optional=False, fields=tuple(Field(name, one) for name, one in fields.items()))


def fields_of(schema: Schema) -> dict[str, Schema]:
    return {one.name: one.schema for one in schema.fields}
