"""◇ Cast: fields, or the whole key or value, become another primitive type.  Source: Cast.java.

Numbers are narrowed as Java does it: whole numbers lose their upper bits, fractions their places; a text must fit.
"""

import math
import re
import struct
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from moldau.connect.converters.header_values import moment_text
from moldau.connect.converters.simple import java_text
from moldau.connect.data import FLOATS, INTEGERS, Record, Schema, Struct, Type, to_millis, to_primitive
from moldau.connect.errors import ConfigError, DataError
from moldau.connect.transforms.parts import Part, class_name, required_map, required_struct, with_fields

CASTABLE: Final = {*INTEGERS, *FLOATS, Type.BOOLEAN, Type.STRING}
CAN_BE_READ: Final = {*CASTABLE, Type.BYTES}
_INTEGER: Final = re.compile(r"[+-]?\d+")
INT32_BITS: Final = 32
INT64_BITS: Final = 64


def parse_spec(entries: list[str]) -> tuple[Type | None, dict[str, Type]]:
    """The type for the whole, and the types for fields.  Errors: ConfigError."""
    whole: Type | None = None
    fields: dict[str, Type] = {}
    for entry in entries:
        parts = [part.strip() for part in entry.split(":")]
        if len(parts) > 2:
            raise ConfigError.invalid("spec", entries, f"Invalid rename mapping: {entry}")
        kind = parts[-1]
        try:
            wanted = Type(kind.lower())
        except ValueError:
            why = f"java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type.{kind.upper()}"
            raise ConfigError.invalid(f"Invalid type found in casting spec: {entry}", why, "") from None
        if wanted not in CASTABLE:
            raise ConfigError("Cast transformation does not support casting to/from " + f"{wanted}; supported types are {sorted(CASTABLE)}")
        if len(parts) == 1:
            whole = wanted
        else:
            fields[parts[0]] = wanted
    if whole is not None and len(entries) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may ony specify a single cast in their spec"
        )
    return whole, fields


def check_spec(name: str, value: Any) -> None:
    if value is None:
        raise ConfigError(f"Configuration '{name}' values must not be null.")
    if not value:
        raise ConfigError("Must specify at least one field to cast.")
    try:
        parse_spec(value)
    except ConfigError as error:
        raise ConfigError(str(error).removesuffix(": ")) from error


class Cast:
    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._whole, self._fields = parse_spec(options["spec"])
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if value is None:
            return record
        if schema is None:
            if self._whole is not None:
                return self._part.replaced(record, None, cast(None, value, self._whole))
            found = required_map(value, "cast types")
            wanted = {name: cast(None, found.get(name), kind) for name, kind in self._fields.items()}
            return self._part.replaced(record, None, {**found, **wanted})
        if self._whole is not None:
            if isinstance(value, datetime):
                raise DataError(f"Cast transformation does not support casting a whole {schema.name}")
            return self._part.replaced(record, _cast_schema(schema, self._whole), cast(schema, value, self._whole))
        old = required_struct(value, "cast types")
        kinds = {one.name: self._kind(one.name, one.schema) for one in schema.fields}
        values = {one.name: old.get(one.name, with_default=self._fills_in) for one in schema.fields}
        for one in schema.fields:
            if one.name in self._fields:
                values[one.name] = cast(one.schema, values[one.name], self._fields[one.name])
        other = replace(with_fields(schema, kinds), optional=schema.optional)
        return self._part.replaced(record, other, Struct(other, values))

    def _kind(self, name: str, schema: Schema) -> Schema:
        return _cast_schema(schema, self._fields[name]) if name in self._fields else schema


def _cast_schema(schema: Schema, wanted: Type) -> Schema:
    default = None if schema.default is None else cast(schema, schema.default, wanted)
    return replace(Schema(wanted, schema.optional), default=default)


def cast(schema: Schema | None, value: Any, wanted: Type) -> Any:
    """Errors: DataError."""
    if value is None:
        return None
    if schema is not None and schema.type not in CAN_BE_READ:
        raise DataError(f"Cast transformation does not support casting to/from {schema.type}")
    if isinstance(value, list | dict | Struct):
        raise DataError(f"Cast transformation does not support casting from {class_name(value)}")
    if isinstance(value, datetime) and wanted is not Type.STRING:
        value = to_primitive(schema, value) if schema is not None else to_millis(value)
    try:
        if wanted is Type.STRING:
            return _text(value)
        if wanted is Type.BOOLEAN:
            return _truth(value)
        if wanted in FLOATS:
            return _single(float(value)) if wanted is Type.FLOAT32 else float(value)
        return _integer(value, INTEGERS[wanted])
    except (ValueError, TypeError, ArithmeticError) as error:
        raise DataError(
            f"Value ({java_text(value)}) was out of range for requested data type, or is of type {class_name(value)}"
        ) from error


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        raise TypeError("bytes")
    if isinstance(value, datetime):
        return moment_text(value)
    return java_text(value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float | Decimal):
        return int(value) != 0
    if isinstance(value, str):
        return value.lower() == "true"
    raise TypeError(class_name(value))


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value) or not -(1 << bits - 1) <= int(value) < 1 << bits - 1:
            raise ValueError(value)
        return int(value)
    if isinstance(value, float):
        value = _saturated(value, INT64_BITS if bits == INT64_BITS else INT32_BITS)
    if not isinstance(value, int | Decimal):
        raise TypeError(class_name(value))
    low = int(value) & ((1 << bits) - 1)
    return low - (1 << bits) if low >> bits - 1 else low


def _single(value: float) -> float:
    """The shortest decimal that names the nearest number of 32 bits."""
    try:
        nearest = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return next(
        (short for places in range(6, 10) if struct.pack(">f", short := float(f"{nearest:.{places}g}")) == struct.pack(">f", nearest)),
        nearest,
    )


def _saturated(value: float, bits: int) -> int:
    """A fraction as Java's whole number: NaN becomes 0, and a value that is too large the largest number."""
    if math.isnan(value):
        return 0
    limit = 1 << bits - 1
    return max(-limit, min(limit - 1, int(max(-(2.0**70), min(2.0**70, value)))))
