"""◇ Connect's data: schemas, structs and records.

Source: org.apache.kafka.connect.data, ConnectRecord.

| type | Python | type | Python |
|---|---|---|---|
| int8 … int64 | int | string | str |
| float32, float64 | float | bytes | bytes |
| boolean | bool | array, map, struct | list, dict, Struct |
| Decimal (bytes) | decimal.Decimal | Date, Time, Timestamp (int32, int32, int64) | datetime, in UTC |

A value without a schema is whatever JSON can hold, or bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from moldau.connect.errors import DataError


class Type(StrEnum):
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


INTEGERS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
FLOATS: Final = (Type.FLOAT32, Type.FLOAT64)
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    schema: "Schema"


@dataclass(frozen=True, slots=True)
class Schema:
    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: Any = None
    fields: tuple[Field, ...] = ()
    key_schema: "Schema | None" = None
    value_schema: "Schema | None" = None
    """The schema of a map's values, or of an array's elements."""

    def field(self, name: str) -> "Schema | None":
        return next((one.schema for one in self.fields if one.name == name), None)

    def as_optional(self) -> "Schema":
        return replace(self, optional=True)

    def parameter(self, name: str) -> str | None:
        return dict(self.parameters).get(name)


def of(kind: Type, *, optional: bool = False) -> Schema:
    return Schema(kind, optional)


STRING: Final = of(Type.STRING)
OPTIONAL_STRING: Final = of(Type.STRING, optional=True)
INT8: Final = of(Type.INT8)
INT16: Final = of(Type.INT16)
INT32: Final = of(Type.INT32)
INT64: Final = of(Type.INT64)
FLOAT32: Final = of(Type.FLOAT32)
FLOAT64: Final = of(Type.FLOAT64)
BOOLEAN: Final = of(Type.BOOLEAN)
BYTES: Final = of(Type.BYTES)


def timestamp(*, optional: bool = False) -> Schema:
    return Schema(Type.INT64, optional, TIMESTAMP, 1)


def date(*, optional: bool = False) -> Schema:
    return Schema(Type.INT32, optional, DATE, 1)


def time_of_day(*, optional: bool = False) -> Schema:
    return Schema(Type.INT32, optional, TIME, 1)


def decimal(scale: int, *, optional: bool = False) -> Schema:
    return Schema(Type.BYTES, optional, DECIMAL, 1, parameters=(("scale", str(scale)),))


def array(elements: Schema, *, optional: bool = False) -> Schema:
    return Schema(Type.ARRAY, optional, value_schema=elements)


def struct(fields: Mapping[str, Schema], *, name: str | None = None, optional: bool = False) -> Schema:
    return Schema(Type.STRUCT, optional, name, fields=tuple(Field(key, one) for key, one in fields.items()))


@dataclass(slots=True)
class Struct:
    """Values of a struct's fields by name.  A field that was not given has its default, or null."""

    schema: Schema
    values: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, *, with_default: bool = True) -> Any:
        found = self.values.get(name)
        if found is None and with_default:
            declared = self.schema.field(name)
            return None if declared is None else declared.default
        return found


def to_millis(value: datetime) -> int:
    return (value - EPOCH) // timedelta(milliseconds=1)


def from_millis(value: int) -> datetime:
    """Errors: DataError for a time that no calendar here holds (years 1 to 9999)."""
    try:
        return EPOCH + timedelta(milliseconds=value)
    except OverflowError as error:
        raise DataError(f"{value} ms since 1970 is outside the years 1 to 9999") from error


def to_primitive(schema: Schema, value: Any) -> Any:
    """A logical value as its base type; other values stay."""
    if value is None:
        return None
    if schema.name == DECIMAL and isinstance(value, Decimal):
        unscaled = _unscaled(value, int(schema.parameter("scale") or 0))
        return unscaled.to_bytes((unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()) // 8 + 1, "big", signed=True)
    if isinstance(value, datetime):
        millis = to_millis(value)
        if schema.name == DATE:
            return millis // DAY_MS
        return millis
    return value


def _unscaled(value: Decimal, scale: int) -> int:
    """The unscaled integer, computed by digits: arithmetic with decimals rounds to 28 digits.  Errors: DataError."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise DataError(f"{value} is no number that a decimal can hold")
    shift = scale + exponent
    whole = int("".join(map(str, digits)))
    if shift < 0 and whole % 10**-shift:
        raise DataError(f"{value} has more places than its schema's scale of {scale}")
    whole = whole * int(10**shift) if shift >= 0 else whole // int(10**-shift)
    return -whole if sign else whole


def to_logical(schema: Schema, value: Any) -> Any:
    """The reverse of `to_primitive`."""
    if value is None:
        return None
    if schema.name == DECIMAL and isinstance(value, bytes):
        unscaled = Decimal(int.from_bytes(value, "big", signed=True)).as_tuple()
        return Decimal((unscaled.sign, unscaled.digits, -int(schema.parameter("scale") or 0)))
    if schema.name == DATE and isinstance(value, int):
        return from_millis(value * DAY_MS)
    if schema.name in (TIME, TIMESTAMP) and isinstance(value, int):
        return from_millis(value)
    return value


@dataclass(frozen=True, slots=True)
class Header:
    key: str
    schema: Schema | None
    value: Any


@dataclass(frozen=True, slots=True)
class Record:
    """One record on its way through a task.  A source's record has `source_partition` and `source_offset`, a sink's record has `offset`.

    `timestamp`: milliseconds.  `position`: the consumed record's place, which error reports name, whatever transforms do to the topic.
    """

    topic: str
    partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()
    source_partition: Mapping[str, Any] | None = None
    source_offset: Mapping[str, Any] | None = None
    offset: int | None = None
    position: tuple[str, int, int] | None = None

    def with_headers(self, headers: Sequence[Header]) -> "Record":
        return replace(self, headers=tuple(headers))
