"""● Records as rows of Arrow tables, which all three warehouses take.

A schema gives columns their types; without a schema, pyarrow infers them from the values of a batch.  pyarrow is part of the extra
`warehouse`, so it is imported when a task starts.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from moldau.connect import data
from moldau.connect.data import Record, Schema, Struct, Type
from moldau.connect.errors import ConnectError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

INSTALL = 'pip install "moldau[warehouse]"'


def missing(package: str, error: ImportError) -> ConnectError:
    return ConnectError(f"the package {package} is not installed: {INSTALL}").with_traceback(error.__traceback__)


def arrow_type(schema: Schema) -> "pa.DataType":
    import pyarrow as pa

    if schema.name == data.DECIMAL:
        return pa.decimal128(38, int(schema.parameter("scale") or 0))
    logical = {data.DATE: pa.date32(), data.TIME: pa.time64("us"), data.TIMESTAMP: pa.timestamp("us", "UTC")}
    if schema.name in logical:
        return logical[schema.name]
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return pa.list_(arrow_type(schema.value_schema))
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        return pa.map_(arrow_type(schema.key_schema), arrow_type(schema.value_schema))
    if schema.type is Type.STRUCT:
        return pa.struct([pa.field(one.name, arrow_type(one.schema), one.schema.optional) for one in schema.fields])
    names = {Type.FLOAT32: "float", Type.FLOAT64: "double", Type.BOOLEAN: "bool", Type.BYTES: "binary"}
    return pa.type_for_alias(names.get(schema.type, str(schema.type)))


def table_of(schema: Schema | None, rows: Sequence[dict[str, Any]]) -> "pa.Table":
    """The table of at least one row.  Errors: DataError."""
    import pyarrow as pa

    try:
        kind = None if schema is None else arrow_type(schema)
        return pa.Table.from_struct_array(pa.array(rows, kind))
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise DataError(f"values do not fit into columns: {error}") from error


def row_of(record: Record) -> dict[str, Any]:
    """Errors: DataError."""
    found = cell(record.value_schema, record.value)
    if not isinstance(found, dict):
        raise DataError(f"a value of type {type(record.value).__name__} is no row: JsonConverter reads objects")
    if not found:
        raise DataError("a value without fields is no row")
    return found


def cell(schema: Schema | None, value: Any) -> Any:
    """The value in pyarrow's form."""
    if isinstance(value, Struct):
        return {one.name: cell(one.schema, value.get(one.name)) for one in value.schema.fields}
    if isinstance(value, dict):
        if schema is not None and schema.type is Type.MAP:
            return [(cell(schema.key_schema, key), cell(schema.value_schema, one)) for key, one in value.items()]
        return {str(key): cell(None, one) for key, one in value.items()}
    if isinstance(value, list):
        inner = None if schema is None else schema.value_schema
        return [cell(inner, one) for one in value]
    if isinstance(value, datetime) and schema is not None:
        if schema.name == data.DATE:
            return value.date()
        if schema.name == data.TIME:
            return value.timetz().replace(tzinfo=None)
    return value


def key_of(record: Record, columns: Sequence[str]) -> dict[str, Any]:
    """The values of these columns in the record's key.  Errors: DataError."""
    found = cell(record.key_schema, record.key)
    if not isinstance(found, dict):
        if len(columns) == 1 and found is not None:
            return {columns[0]: found}
        raise DataError(f"a key of type {type(record.key).__name__} does not hold the columns {', '.join(columns)}")
    lost = [one for one in columns if found.get(one) is None]
    if lost:
        raise DataError(f"the key has no {', '.join(lost)}")
    return {one: found[one] for one in columns}
