"""◇ Converters of one type: strings, bytes, numbers, booleans.  Source: StringConverter, ByteArrayConverter, NumberConverter."""

import math
import struct
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from moldau.connect import data
from moldau.connect.data import Schema, Type
from moldau.connect.errors import DataError, shown


class StringConverter:
    """Writes any value as text, as Java prints it.  Reads bytes as text, always with the schema of an optional string."""

    def __init__(self, encoding: str = "UTF-8") -> None:
        try:
            "".encode(encoding)
        except LookupError as error:
            raise DataError(f"converter.encoding cannot be {encoding!r}: no such encoding is known here") from error
        self._encoding = encoding

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        return java_text(value).encode(self._encoding, "replace")

    def to_data(self, topic: str, data_: bytes | None) -> tuple[Schema | None, Any]:
        return data.OPTIONAL_STRING, None if data_ is None else data_.decode(self._encoding, "replace")


def java_text(value: Any) -> str:
    """The value's text, as Java's toString."""
    if isinstance(value, data.Struct):
        given = ((one.name, value.values.get(one.name)) for one in value.schema.fields)
        return "Struct{" + ",".join(f"{name}={java_text(one)}" for name, one in given if one is not None) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{java_text(key)}={java_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(java_text, value)) + "]"
    if isinstance(value, datetime):
        return value.strftime("%a %b %d %H:%M:%S UTC %Y")
    return _double(value) if isinstance(value, float) else shown(value)


def _double(value: float) -> str:
    """The number's text, as Double.toString: with an exponent from 10^7 on and below 10^-3."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{value:f}" if "e" in repr(value) else repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    assert isinstance(exponent, int)
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent + len(digits) - 1}"


class ByteArrayConverter:
    """Bytes as they are."""

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is not None and not isinstance(value, bytes):
            raise DataError(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")
        return value

    def to_data(self, topic: str, data_: bytes | None) -> tuple[Schema | None, Any]:
        return Schema(Type.BYTES, optional=True), data_


class NumberConverter:
    """One kind of number, big-endian, as Kafka's serializers write it."""

    def __init__(self, kind: Type, layout: str, accepts: Callable[[Any], bool]) -> None:
        self._schema = Schema(kind, optional=True)
        self._layout = struct.Struct(layout)
        self._accepts = accepts

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if not self._accepts(value) or (schema is not None and schema.type is not self._schema.type):
            raise DataError(f"Failed to serialize to {self._schema.type}: {java_text(value)}")
        try:
            return self._layout.pack(value)
        except struct.error as error:
            raise DataError(f"Failed to serialize to {self._schema.type}: {java_text(value)}") from error

    def to_data(self, topic: str, data_: bytes | None) -> tuple[Schema | None, Any]:
        if data_ is None:
            return self._schema, None
        try:
            return self._schema, self._layout.unpack(data_)[0]
        except struct.error as error:
            raise DataError(f"Failed to deserialize {self._schema.type}: {len(data_)} bytes are not {self._layout.size}") from error


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def integers(kind: Type) -> NumberConverter:
    return NumberConverter(kind, {Type.INT16: ">h", Type.INT32: ">i", Type.INT64: ">q"}[kind], is_integer)


def floats(kind: Type) -> NumberConverter:
    return NumberConverter(kind, {Type.FLOAT32: ">f", Type.FLOAT64: ">d"}[kind], lambda value: isinstance(value, float))


def booleans() -> NumberConverter:
    return NumberConverter(Type.BOOLEAN, ">?", lambda value: isinstance(value, bool))
