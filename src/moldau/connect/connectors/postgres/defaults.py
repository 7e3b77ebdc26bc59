"""◇ A column's default as its schema's default, as Debezium takes it from the text of the expression.

A literal is the default.  For an expression that is computed, such as `now()`, the default is zero or empty.
"""

import re
from typing import Any, Final

from moldau.connect.connectors.postgres.types import ColumnType, PostgresType
from moldau.connect.data import Type
from moldau.connect.errors import DataError

HAVE_DEFAULTS: Final = {
    "bit", "bool", "bpchar", "char", "date", "float4", "float8", "int2", "int4", "int8", "interval", "json", "jsonb", "name", "numeric",
    "text", "time", "timestamp", "timestamptz", "uuid", "varbit", "varchar", "xml",
}  # fmt: skip
COMPUTED: Final = {"uuid": "00000000-0000-0000-0000-000000000000", "timestamptz": "1970-01-01 00:00:00+00"}
"""What stands for a computed default, where that is not the zero of the type."""
_LITERAL: Final = re.compile(r"^\(?[Bb]?'((?:[^']|'')*)'(?:::[\w\s\".\[\]()]+)?$", re.DOTALL)
_BARE: Final = re.compile(r"^\(?(-?[0-9.]+|true|false)\)?(?:::[\w\s\".()]+)?$")
_COMPUTED: Final = re.compile(r"^\(?(?:[A-Za-z0-9_.]+\(.*\)|CURRENT_\w+|LOCALTIME\w*)", re.DOTALL)


def default_of(kind: PostgresType, column: ColumnType, expression: str | None) -> Any:
    """None: no default."""
    if expression is None or (kind.name not in HAVE_DEFAULTS and kind.kind != "e") or column.schema.type is Type.STRUCT:
        return None
    found = _LITERAL.match(expression)
    text = found[1].replace("''", "'") if found else None
    if text is None and (bare := _BARE.match(expression)):
        text = bare[1]
    if text is not None:
        try:
            return column.value(text)
        except DataError:
            return None
    if _COMPUTED.match(expression):
        return column.value(COMPUTED[kind.name]) if kind.name in COMPUTED else column.zero
    return None
