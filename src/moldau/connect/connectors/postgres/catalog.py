"""● Reads tables of PostgreSQL from its catalog: their names, keys, columns and types."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import psycopg

from moldau.connect.connectors.postgres.envelope import Facts
from moldau.connect.connectors.postgres.pgoutput import Column, Relation
from moldau.connect.connectors.postgres.types import PostgresType

TABLES: Final = """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence = 'p'
    AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' ORDER BY 1, 2"""
KEY: Final = """
    SELECT a.attname FROM (
        SELECT indexrelid, indrelid, indkey FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        WHERE i.indrelid = to_regclass(format('%%I.%%I', %s::text, %s::text))
        AND (i.indisprimary OR i.indisreplident AND c.relreplident = 'i')
        ORDER BY indisprimary DESC LIMIT 1) i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) ORDER BY array_position(i.indkey::int2[], a.attnum)"""
COLUMNS: Final = """
    SELECT attname, atttypid::int8, atttypmod, attnotnull, CASE WHEN attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE attrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
TYPE: Final = """
    SELECT typname, typtype, CASE WHEN typcategory = 'A' THEN typelem::int8 ELSE 0 END, typbasetype::int8, typtypmod,
        ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)
    FROM pg_type t WHERE oid = %s"""
Connection = psycopg.Connection[Any]


class Chosen:
    """The tables and columns that options choose.  A pattern has to match the whole name, in upper or lower case, as with Debezium."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Errors: re.error."""
        compiled = partial(re.compile, flags=re.IGNORECASE)
        self._lists = {
            kind: tuple([compiled(one) for one in options[f"{kind}.{way}.list"]] for way in ("include", "exclude"))
            for kind in ("schema", "table", "column")
        }

    def _has(self, kind: str, name: str) -> bool:
        included, excluded = self._lists[kind]
        return (not included or any(one.fullmatch(name) for one in included)) and not any(one.fullmatch(name) for one in excluded)

    def table(self, schema: str, table: str) -> bool:
        return self._has("schema", schema) and self._has("table", f"{schema}.{table}")

    def column(self, schema: str, table: str, column: str) -> bool:
        return self._has("column", f"{schema}.{table}.{column}")


def tables(connection: Connection, chosen: Chosen) -> list[tuple[str, str]]:
    return [(schema, name) for schema, name in connection.execute(TABLES) if chosen.table(schema, name)]


def key_columns(connection: Connection, relation: Relation) -> list[str]:
    """The columns that name a row.  Of a table that is gone they are those by which the log names it."""
    schema, name = relation.schema, relation.name
    if connection.execute("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))", [schema, name]).fetchone() == (None,):
        return [column.name for column in relation.columns if column.is_key]
    return [column for (column,) in connection.execute(KEY, [schema, name])]


def columns(connection: Connection, schema: str, name: str) -> tuple[Column, ...]:
    """The columns as a Relation of the log holds them."""
    return tuple(Column(column, oid, modifier, False) for column, oid, modifier, *_ in connection.execute(COLUMNS, [schema, name]))


def facts(connection: Connection, schema: str, name: str, wanted: Sequence[Column]) -> dict[str, Facts]:
    """A column that the table has no longer is optional."""
    known = {column: (required, default) for column, _, _, required, default in connection.execute(COLUMNS, [schema, name]).fetchall()}
    types: dict[int, PostgresType] = {}
    return {
        one.name: Facts(_type(connection, one.type_oid, types), *known.get(one.name, (False, None)))
        for one in wanted
    }  # fmt: skip


def _type(connection: Connection, oid: int, known: dict[int, PostgresType]) -> PostgresType:
    if oid not in known:
        row = connection.execute(TYPE, [oid]).fetchone()
        if row is None:
            return PostgresType("")
        name, kind, element, base, modifier, labels = row
        known[oid] = PostgresType(
            name, kind, _type(connection, element, known) if element else None, _type(connection, base, known) if base else None,
            modifier, tuple(labels),
        )  # fmt: skip
    return known[oid]
