"""◇ PostgreSQL's types as Connect's types, and texts as PostgreSQL prints them as values: the same as Debezium's.

| PostgreSQL | Connect | |
|---|---|---|
| int2, int4, int8, float4, float8, bool, oid | int16, int32, int64, float32, float64, boolean, int64 | |
| numeric(p, s), money | Decimal | `decimal.handling.mode` |
| numeric | struct io.debezium.data.VariableScaleDecimal | `decimal.handling.mode` |
| date | int32, io.debezium.time.Date | days since 1970 |
| time, timestamp | int64, io.debezium.time.MicroTime, MicroTimestamp | with at most 3 places int32 Time and int64 Timestamp: ms |
| timetz, timestamptz | string, io.debezium.time.ZonedTime, ZonedTimestamp | in UTC |
| interval | int64, io.debezium.time.MicroDuration | a month has 30.4375 days; `interval.handling.mode` |
| bit(1), bit(n) and varbit | boolean, bytes io.debezium.data.Bits | the lowest byte first |
| uuid, json, jsonb, xml, ltree, tsvector, enums | string, io.debezium.data.Uuid … | |
| hstore | string, io.debezium.data.Json | `hstore.handling.mode` |
| bytea | bytes | `binary.handling.mode` |
| point | struct io.debezium.data.geometry.Point | |
| arrays | array | of these types |
| texts, addresses, ranges | string | as PostgreSQL prints them |

A domain is its base type.  Columns of other types are left out.
"""

import base64
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final

from moldau.connect import data
from moldau.connect.connectors.postgres import literals, moments
from moldau.connect.connectors.postgres.modes import Modes
from moldau.connect.data import Schema, Struct, Type
from moldau.connect.errors import DataError

MODIFIER_HEADER: Final = 4
MONEY_SCALE: Final = 2
WIDE: Final = Context(prec=200_000)
"""PostgreSQL's numbers have up to 147455 digits."""


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A row of pg_type.  `kind`: its typtype.  `element`: of an array.  `base`, `base_modifier`: of a domain.  `labels`: of an enum."""

    name: str
    kind: str = "b"
    element: "PostgresType | None" = None
    base: "PostgresType | None" = None
    base_modifier: int = -1
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How a column is told.  `zero`: what a required column holds where the log has no value.  `unavailable`: the value of a large column
    that an update left as it was.
    """

    schema: Schema
    read: Callable[[str], Any]
    zero: Any
    unavailable: Any = None

    def value(self, text: str | None) -> Any:
        """Errors: DataError."""
        if text is None:
            return None
        try:
            return self.read(text)
        except (ValueError, ArithmeticError) as error:
            raise DataError(f"{text!r} cannot be read as {self.schema.name or self.schema.type}") from error


def _named(kind: Type, name: str, **parameters: str) -> Schema:
    return Schema(kind, name=name, version=1, parameters=tuple(parameters.items()))


VARIABLE: Final = replace(
    data.struct({"scale": data.INT32, "value": data.BYTES}, name="io.debezium.data.VariableScaleDecimal"),
    version=1,
    doc="Variable scaled decimal",
)
POINT: Final = replace(
    data.struct(
        {"x": data.FLOAT64, "y": data.FLOAT64, "wkb": data.BYTES.as_optional(), "srid": data.INT32.as_optional()},
        name="io.debezium.data.geometry.Point",
    ),
    version=1,
    doc="Geometry (POINT)",
)
_JSON: Final = _named(Type.STRING, "io.debezium.data.Json")
_TEXTS: Final = {
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "name", "citext", "inet", "cidr", "macaddr", "macaddr8"), data.STRING),
    **dict.fromkeys(("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"), data.STRING),
    "uuid": _named(Type.STRING, "io.debezium.data.Uuid"),
    "json": _JSON,
    "jsonb": _JSON,
    "xml": _named(Type.STRING, "io.debezium.data.Xml"),
    "ltree": _named(Type.STRING, "io.debezium.data.Ltree"),
    "tsvector": _named(Type.STRING, "io.debezium.data.Tsvector"),
}
_NUMBERS: Final[dict[str, tuple[Schema, Callable[[str], Any], Any]]] = {
    "bool": (data.BOOLEAN, lambda text: text in ("t", "true"), False),
    "int2": (data.INT16, int, 0),
    "int4": (data.INT32, int, 0),
    "int8": (data.INT64, int, 0),
    "oid": (data.INT64, int, 0),
    "float4": (data.FLOAT32, float, 0.0),
    "float8": (data.FLOAT64, float, 0.0),
}


def column_type(kind: PostgresType, modifier: int, modes: Modes) -> ColumnType | None:
    """None: columns of this type are left out."""
    if kind.base is not None:
        return column_type(kind.base, kind.base_modifier, modes)
    if kind.element is not None:
        return _array(kind.element, modifier, modes)
    if kind.kind == "e":
        return _text(_named(Type.STRING, "io.debezium.data.Enum", allowed=",".join(kind.labels)), modes)
    if kind.name in _TEXTS:
        return _text(_TEXTS[kind.name], modes)
    if kind.name in _NUMBERS:
        return ColumnType(*_NUMBERS[kind.name])
    if kind.name == "bytea":
        return _bytes(modes)
    if kind.name in ("numeric", "money"):
        return _decimal(kind.name, modifier, modes)
    if kind.name in ("bit", "varbit"):
        return _bits(kind.name, modifier)
    if kind.name in moments.MAKERS:
        return ColumnType(*moments.MAKERS[kind.name](modifier, modes))
    if kind.name == "point":
        return ColumnType(POINT, _point, _point("(0,0)"))
    if kind.name == "hstore":
        return _hstore(modes)
    return ColumnType(data.BYTES, str.encode, b"", modes.placeholder.encode()) if modes.unknown else None


def _text(schema: Schema, modes: Modes) -> ColumnType:
    return ColumnType(schema, str, "", modes.placeholder)


def _bytes(modes: Modes) -> ColumnType:
    def raw(text: str) -> bytes:
        return bytes.fromhex(text.removeprefix("\\x"))

    forms: dict[str, Callable[[bytes], str]] = {
        "base64": lambda found: base64.b64encode(found).decode(),
        "base64-url-safe": lambda found: base64.urlsafe_b64encode(found).decode(),
        "hex": bytes.hex,
    }
    if modes.binary == "bytes":
        return ColumnType(data.BYTES, raw, b"", modes.placeholder.encode())
    form = forms[modes.binary]
    return ColumnType(data.STRING, lambda text: form(raw(text)), "", form(modes.placeholder.encode()))


def _decimal(name: str, modifier: int, modes: Modes) -> ColumnType:
    def number(text: str) -> Decimal:
        found = Decimal(re.sub(r"[^0-9.eE+-]", "", text) if name == "money" else text)
        if not found.is_finite():
            raise ValueError(text)
        return found

    if modes.decimal == "string":
        places = Decimal(1).scaleb(-(modifier - MODIFIER_HEADER & 0xFFFF)) if modifier >= MODIFIER_HEADER else None

        def shown(text: str) -> str:
            found = number(text)  # the text of a default may have fewer places than the column
            return f"{found if places is None else found.quantize(places, context=WIDE):f}"

        return ColumnType(data.STRING, shown, "0", modes.placeholder)
    if modes.decimal == "double":
        return ColumnType(data.FLOAT64, lambda text: float(re.sub(r"[$,]", "", text)), 0.0)
    if name == "money":
        return ColumnType(data.decimal(MONEY_SCALE), number, Decimal("0.00"))
    if modifier < MODIFIER_HEADER:
        return ColumnType(VARIABLE, lambda text: variable(number(text)), variable(Decimal(0)))
    precision, scale = (modifier - MODIFIER_HEADER) >> 16, (modifier - MODIFIER_HEADER) & 0xFFFF
    schema = data.decimal(scale)
    schema = replace(schema, parameters=(*schema.parameters, ("connect.decimal.precision", str(precision))))
    return ColumnType(schema, number, Decimal(0).scaleb(-scale))


def variable(number: Decimal) -> Struct:
    """A number of any scale, without zeros at its end."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)))
    while exponent < 0 and unscaled % 10 == 0:
        unscaled, exponent = unscaled // 10, exponent + 1
    plain = data.decimal(max(0, -exponent))
    whole = Decimal((sign, tuple(map(int, str(unscaled * 10 ** max(0, exponent)))), min(0, exponent)))
    return Struct(VARIABLE, {"scale": max(0, -exponent), "value": data.to_primitive(plain, whole)})


def _bits(name: str, modifier: int) -> ColumnType:
    if name == "bit" and modifier in (1, -1):
        return ColumnType(data.BOOLEAN, lambda text: text == "1", False)
    length = modifier if modifier > 0 else (1 << 31) - 1

    def read(text: str) -> bytes:
        return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little").rstrip(b"\0")

    return ColumnType(_named(Type.BYTES, "io.debezium.data.Bits", length=str(length)), read, b"")


def _point(text: str) -> Struct:
    x, y = (float(one) for one in text.strip("()").split(","))
    return Struct(POINT, {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, 1, x, y), "srid": None})


def _hstore(modes: Modes) -> ColumnType:
    if modes.hstore == "map":
        schema = Schema(Type.MAP, key_schema=data.STRING, value_schema=data.OPTIONAL_STRING)
        return ColumnType(schema, literals.hstore, {}, {modes.placeholder: modes.placeholder})
    write = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
    return ColumnType(_JSON, lambda text: write(literals.hstore(text)), "{}", write({modes.placeholder: modes.placeholder}))


def _array(element: PostgresType, modifier: int, modes: Modes) -> ColumnType | None:
    inner = column_type(element, modifier, modes)
    if inner is None:
        return None
    unavailable: Any = []
    if inner.schema.type is Type.STRING:
        unavailable = [modes.placeholder]
    elif inner.schema.type in (Type.INT32, Type.INT64):
        unavailable = list(modes.placeholder.encode())
    kind = inner.schema.as_optional()
    return ColumnType(data.array(kind), lambda text: [fitted(kind, inner.value(one)) for one in literals.array(text)], [], unavailable)


def fitted(schema: Schema, value: Any) -> Any:
    """The value with just this schema: a struct names its own."""
    return Struct(schema, value.values) if isinstance(value, Struct) else value
