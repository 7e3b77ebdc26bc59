"""◇ PostgreSQL's types as Connect's types, and texts of the log as values: the same as Debezium's with its default settings.

| PostgreSQL | Connect | |
|---|---|---|
| int2, int4, int8, float4, float8, bool | int16, int32, int64, float32, float64, boolean | |
| numeric(p, s) | Decimal | without a scale: text |
| date | int32, io.debezium.time.Date | days since 1970 |
| time, timestamp | int64, io.debezium.time.MicroTime, MicroTimestamp | microseconds |
| timestamptz | string, io.debezium.time.ZonedTimestamp | in UTC |
| uuid, json, jsonb | string, io.debezium.data.Uuid, Json | |
| bytea | bytes | |
| all others | string | as PostgreSQL prints it |
"""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from moldau.connect import data
from moldau.connect.data import DECIMAL, EPOCH, Schema, Type
from moldau.connect.errors import DataError

MICRO: Final = timedelta(microseconds=1)
DATE: Final = "io.debezium.time.Date"
MICRO_TIME: Final = "io.debezium.time.MicroTime"
MICRO_TIMESTAMP: Final = "io.debezium.time.MicroTimestamp"
ZONED: Final = "io.debezium.time.ZonedTimestamp"
NUMERIC: Final = 1700
MODIFIER_HEADER: Final = 4
_SCHEMAS: Final = {
    16: data.BOOLEAN,
    17: data.BYTES,
    20: data.INT64,
    21: data.INT16,
    23: data.INT32,
    700: data.FLOAT32,
    701: data.FLOAT64,
    1082: Schema(Type.INT32, name=DATE, version=1),
    1083: Schema(Type.INT64, name=MICRO_TIME, version=1),
    1114: Schema(Type.INT64, name=MICRO_TIMESTAMP, version=1),
    1184: Schema(Type.STRING, name=ZONED, version=1),
    2950: Schema(Type.STRING, name="io.debezium.data.Uuid", version=1),
    114: Schema(Type.STRING, name="io.debezium.data.Json", version=1),
    3802: Schema(Type.STRING, name="io.debezium.data.Json", version=1),
}


def schema_of(type_oid: int, modifier: int, *, optional: bool) -> Schema:
    if type_oid == NUMERIC and modifier >= MODIFIER_HEADER:
        return data.decimal((modifier - MODIFIER_HEADER) & 0xFFFF, optional=optional)
    return replace(_SCHEMAS.get(type_oid, data.STRING), optional=optional)


def value_of(schema: Schema, text: str | None) -> Any:
    """Errors: DataError."""
    if text is None:
        return None
    try:
        return _value(schema, text)
    except (ValueError, ArithmeticError) as error:
        raise DataError(f"{text!r} cannot be read as {schema.name or schema.type}") from error


def _value(schema: Schema, text: str) -> Any:
    kind = schema.type
    if schema.name == DECIMAL:
        return Decimal(text)
    if schema.name == DATE:
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    if schema.name == MICRO_TIME:
        at = time.fromisoformat(text)
        return ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond
    if schema.name == MICRO_TIMESTAMP:
        return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // MICRO
    if schema.name == ZONED:
        moment = datetime.fromisoformat(text).astimezone(UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if kind is Type.BOOLEAN:
        return text in ("t", "true")
    if kind is Type.BYTES:
        return bytes.fromhex(text.removeprefix("\\x"))
    if kind in data.INTEGERS:
        return int(text)
    return float(text) if kind in data.FLOATS else text
