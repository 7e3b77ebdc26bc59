"""◇ A changed row as Debezium's event: key, envelope with before and after, tombstone behind a deletion.

An update of the primary key is a deletion of the old key and a creation of the new one; headers name the other key.  The log of a deletion
holds the key alone: other columns are null, and those that must not be null are zero or empty.

Source: Debezium's documentation of its PostgreSQL connector, "Data change events".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.connect import data
from moldau.connect.connectors.postgres.defaults import default_of
from moldau.connect.connectors.postgres.modes import Modes
from moldau.connect.connectors.postgres.pgoutput import Cell, Change, Relation, Unchanged
from moldau.connect.connectors.postgres.types import ColumnType, PostgresType, column_type, fitted
from moldau.connect.data import OPTIONAL_STRING, Header, Schema, Struct, Type, struct
from moldau.connect.errors import DataError

_OPTIONAL_INT64: Final = Schema(Type.INT64, optional=True)
SNAPSHOT: Final = Schema(
    Type.STRING, True, "io.debezium.data.Enum", 1, default="false",
    parameters=(("allowed", "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"),),
)  # fmt: skip
SOURCE: Final = replace(
    struct(
        {
            "version": data.STRING, "connector": data.STRING, "name": data.STRING, "ts_ms": data.INT64, "snapshot": SNAPSHOT,
            "db": data.STRING, "sequence": OPTIONAL_STRING, "ts_us": _OPTIONAL_INT64, "ts_ns": _OPTIONAL_INT64, "schema": data.STRING,
            "table": data.STRING, "txId": _OPTIONAL_INT64, "lsn": _OPTIONAL_INT64, "xmin": _OPTIONAL_INT64,
        },
        name="io.debezium.connector.postgresql.Source",
    ),
    version=1,
)  # fmt: skip
TRANSACTION: Final = replace(
    struct({"id": data.STRING, "total_order": data.INT64, "data_collection_order": data.INT64}, name="event.block", optional=True),
    version=1,
)
_NO_TOPIC: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class Told:
    """One record.  Without `value_schema` it is a tombstone."""

    key_schema: Schema | None
    key: Any
    value_schema: Schema | None
    value: Any
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of an event.  `time_us`: the time of the commit.  `lsn`: of the change itself.  `last_commit`: the end of the transaction
    before.  `snapshot`: None for the log.
    """

    version: str
    prefix: str
    database: str
    snapshot: str | None
    time_us: int
    xid: int | None
    lsn: int
    last_commit: int | None


@dataclass(frozen=True, slots=True)
class Facts:
    """A column in the catalog.  `default`: the text of its expression."""

    type: PostgresType
    is_required: bool = False
    default: str | None = None


class Table:
    """Schemas of one table.  `key`: names of the columns of its primary key, or of the index that is its replica identity."""

    def __init__(self, prefix: str, relation: Relation, key: Sequence[str], facts: Mapping[str, Facts], modes: Modes) -> None:
        """`facts`: those of the columns to tell, by name."""
        self.relation = relation
        self.topic = _NO_TOPIC.sub("_", f"{prefix}.{relation.schema}.{relation.name}")
        self._columns: list[ColumnType | None] = []
        names: dict[str, Schema] = {}
        for one in relation.columns:
            found = facts.get(one.name)
            column = None if found is None else column_type(found.type, one.modifier, modes)
            self._columns.append(column)
            if column is not None and found is not None:
                is_required = found.is_required or one.name in key
                names[one.name] = replace(column.schema, optional=not is_required, default=default_of(found.type, column, found.default))
        self._key = struct({name: names[name] for name in key if name in names}, name=f"{self.topic}.Key") if key else None
        self._row = struct(names, name=f"{self.topic}.Value", optional=True)
        fields = {
            "before": self._row, "after": self._row, "source": SOURCE, "transaction": TRANSACTION, "op": data.STRING,
            "ts_ms": _OPTIONAL_INT64, "ts_us": _OPTIONAL_INT64, "ts_ns": _OPTIONAL_INT64,
        }  # fmt: skip
        self._envelope = replace(struct(fields, name=f"{self.topic}.Envelope"), version=2)

    def events(self, change: Change, origin: Origin, now_ns: int, *, tombstones: bool) -> list[Told]:
        """Errors: DataError."""
        before = None if change.before is None else self._values(change.before)
        after = None if change.after is None else self._values(change.after, before if change.has_whole_before else None)
        if change.op == "u" and before is not None and after is not None and self._key_of(before) != self._key_of(after):
            old, new = self._key_struct(before), self._key_struct(after)
            created = self._event("c", None, after, origin, now_ns, Header("__debezium.oldkey", self._key, old))
            return [*self._gone(before, origin, now_ns, tombstones, Header("__debezium.newkey", self._key, new)), created]
        if change.op == "d":
            return self._gone(before or {}, origin, now_ns, tombstones)
        return [self._event(change.op, before if change.has_whole_before else None, after, origin, now_ns)]

    def truncated(self, origin: Origin, now_ns: int) -> Told:
        return replace(self._event("t", None, None, origin, now_ns), key_schema=None, key=None)

    def _gone(self, before: dict[str, Any], origin: Origin, now_ns: int, tombstones: bool, *headers: Header) -> list[Told]:
        event = self._event("d", before, None, origin, now_ns, *headers)
        return [event, replace(event, value_schema=None, value=None)] if tombstones else [event]

    def _values(self, cells: Sequence[Cell], whole_before: dict[str, Any] | None = None) -> dict[str, Any]:
        """`whole_before`: the values of large columns that the update left as they were."""
        if len(cells) != len(self._columns):
            raise DataError(f"a row of {self.topic} has {len(cells)} columns, and the table {len(self._columns)}")
        found: dict[str, Any] = {}
        for one, column, cell in zip(self.relation.columns, self._columns, cells, strict=True):
            if column is None:
                continue
            if isinstance(cell, Unchanged):
                found[one.name] = column.unavailable if whole_before is None else whole_before.get(one.name)
            else:
                found[one.name] = column.value(cell)
            declared = self._row.field(one.name)
            assert declared is not None
            if found[one.name] is None and not declared.optional:
                found[one.name] = column.zero if declared.default is None else declared.default
            found[one.name] = fitted(declared, found[one.name])
        return found

    def _key_of(self, values: dict[str, Any]) -> list[Any]:
        return [] if self._key is None else [values.get(one.name) for one in self._key.fields]

    def _key_struct(self, row: dict[str, Any]) -> Struct | None:
        return None if self._key is None else Struct(self._key, {one.name: row.get(one.name) for one in self._key.fields})

    def _event(
        self, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, origin: Origin, now_ns: int, *headers: Header
    ) -> Told:
        row = after if after is not None else before
        last = "null" if origin.last_commit is None else f'"{origin.last_commit}"'
        source = {
            "version": origin.version, "connector": "postgresql", "name": origin.prefix, "ts_ms": origin.time_us // 1000,
            "snapshot": origin.snapshot, "db": origin.database, "sequence": f'[{last},"{origin.lsn}"]', "ts_us": origin.time_us,
            "ts_ns": origin.time_us * 1000, "schema": self.relation.schema, "table": self.relation.name, "txId": origin.xid,
            "lsn": origin.lsn,
        }  # fmt: skip
        value = {
            "before": None if before is None else Struct(self._row, before),
            "after": None if after is None else Struct(self._row, after),
            "source": Struct(SOURCE, source),
            "op": op,
            "ts_ms": now_ns // 1_000_000,
            "ts_us": now_ns // 1000,
            "ts_ns": now_ns,
        }
        key = None if row is None else self._key_struct(row)
        return Told(None if key is None else self._key, key, self._envelope, Struct(self._envelope, value), headers)
