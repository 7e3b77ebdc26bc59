"""◇ A changed row as Debezium's event: key, envelope with before and after, tombstone behind a deletion.

An update of the primary key is a deletion of the old key and a creation of the new one.  Columns that are no part of the key are optional:
the log of a deletion holds the key alone.

Source: Debezium's documentation of its PostgreSQL connector, "Data change events".
"""

from dataclasses import dataclass
from typing import Any, Final

from moldau.connect import data
from moldau.connect.connectors.postgres.pgoutput import UNCHANGED, Cell, Change, Relation
from moldau.connect.connectors.postgres.types import schema_of, value_of
from moldau.connect.data import OPTIONAL_STRING, Schema, Struct, Type, struct

UNAVAILABLE: Final = "__debezium_unavailable_value"
_OPTIONAL_INT64: Final = Schema(Type.INT64, optional=True)
SOURCE: Final = struct(
    {
        "version": data.STRING, "connector": data.STRING, "name": data.STRING, "ts_ms": data.INT64, "snapshot": OPTIONAL_STRING,
        "db": data.STRING, "schema": data.STRING, "table": data.STRING, "txId": _OPTIONAL_INT64, "lsn": _OPTIONAL_INT64,
    },
    name="io.debezium.connector.postgresql.Source",
)  # fmt: skip
Keyed = tuple[Schema | None, Any, Schema | None, Any]
"""Key schema, key, value schema, value."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of an event.  `time_ms`: the time of the commit."""

    version: str
    prefix: str
    database: str
    snapshot: str
    time_ms: int
    xid: int | None
    lsn: int | None


class Table:
    """Schemas of one table.  `key`: names of the columns of its primary key."""

    def __init__(self, prefix: str, relation: Relation, key: list[str]) -> None:
        self.relation = relation
        self.topic = f"{prefix}.{relation.schema}.{relation.name}"
        self._columns = {one.name: schema_of(one.type_oid, one.modifier, optional=one.name not in key) for one in relation.columns}
        self._key = struct({name: self._columns[name] for name in key if name in self._columns}, name=f"{self.topic}.Key") if key else None
        self._row = struct(self._columns, name=f"{self.topic}.Value", optional=True)
        fields = {"before": self._row, "after": self._row, "source": SOURCE, "op": data.STRING, "ts_ms": _OPTIONAL_INT64}
        self._envelope = struct(fields, name=f"{self.topic}.Envelope")

    def events(self, change: Change, origin: Origin, now_ms: int, *, tombstones: bool) -> list[Keyed]:
        """Errors: DataError."""
        after = None if change.after is None else self._values(change.after)
        before = None if change.before is None else self._values(change.before)
        if change.op == "u" and before is not None and after is not None and self._key_of(before) != self._key_of(after):
            return [*self._gone(before, origin, now_ms, tombstones), self._event("c", None, after, origin, now_ms)]
        if change.op == "d":
            return self._gone(before or {}, origin, now_ms, tombstones)
        return [self._event(change.op, before if change.has_whole_before else None, after, origin, now_ms)]

    def _gone(self, before: dict[str, Any], origin: Origin, now_ms: int, tombstones: bool) -> list[Keyed]:
        event = self._event("d", before, None, origin, now_ms)
        return [event, (event[0], event[1], None, None)] if tombstones and event[1] is not None else [event]

    def _values(self, cells: tuple[Cell, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for (name, kind), cell in zip(self._columns.items(), cells, strict=True):
            if isinstance(cell, type(UNCHANGED)):
                found[name] = UNAVAILABLE if kind.type is Type.STRING else UNAVAILABLE.encode() if kind.type is Type.BYTES else None
            else:
                assert cell is None or isinstance(cell, str)
                found[name] = value_of(kind, cell)
        return found

    def _key_of(self, values: dict[str, Any]) -> list[Any]:
        return [] if self._key is None else [values.get(one.name) for one in self._key.fields]

    def _event(self, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, origin: Origin, now_ms: int) -> Keyed:
        row = after if after is not None else before
        assert row is not None
        key = None if self._key is None else Struct(self._key, {one.name: row.get(one.name) for one in self._key.fields})
        source = {
            "version": origin.version, "connector": "postgresql", "name": origin.prefix, "ts_ms": origin.time_ms,
            "snapshot": origin.snapshot, "db": origin.database, "schema": self.relation.schema, "table": self.relation.name,
            "txId": origin.xid, "lsn": origin.lsn,
        }  # fmt: skip
        value = {
            "before": None if before is None else Struct(self._row, before),
            "after": None if after is None else Struct(self._row, after),
            "source": Struct(SOURCE, source),
            "op": op,
            "ts_ms": now_ms,
        }
        return self._key, key, self._envelope, Struct(self._envelope, value)
