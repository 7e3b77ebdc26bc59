"""● Records to rows of a table: insert, upsert or update, and delete by tombstones.

Promise: at least once; with `insert.mode=upsert` a record that comes again changes nothing, so the table ends the same.  With
`offsets.table` set, the offset of each partition is written in the transaction of its rows, and reading begins there: each record once.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sql

from moldau.connect import data
from moldau.connect.connectors.connector import Connector, SinkTask
from moldau.connect.connectors.jdbc.database import ADDRESS, column_of, engine, in_words, to_column
from moldau.connect.data import Record, Schema, Struct, Type
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import Config, Definition, Key, Kind
from moldau.connect.errors import ConnectError, DataError
from moldau.types import TopicPartition

OPTIONS: Final = Definition(
    *ADDRESS,
    Key("table.name.format", Kind.STRING, "${topic}", "MEDIUM", "The table, with ${topic}.", check.non_empty),
    Key("insert.mode", Kind.STRING, "insert", "HIGH", "What a record does.", check.one_of("insert", "upsert", "update")),
    Key(
        "pk.mode", Kind.STRING, "none", "HIGH", "Where the primary key is; kafka: topic, partition and offset.",
        check.one_of("none", "kafka", "record_key", "record_value"),
    ),
    Key("pk.fields", Kind.LIST, [], "MEDIUM", "The fields of the primary key; without it, all of the key."),
    Key("fields.whitelist", Kind.LIST, [], "MEDIUM", "Fields of the value to store; without it, all."),
    Key("delete.enabled", Kind.BOOLEAN, False, "MEDIUM", "Whether a record without a value deletes its row; needs pk.mode=record_key."),
    Key("auto.create", Kind.BOOLEAN, False, "MEDIUM", "Whether a table that is not there is made."),
    Key("auto.evolve", Kind.BOOLEAN, False, "MEDIUM", "Whether columns that are not there are added."),
    Key("offsets.table", Kind.STRING, None, "MEDIUM", "A table for offsets, written in the transaction of the rows: each record once."),
)  # fmt: skip
KAFKA_KEY: Final = ("__connect_topic", "__connect_partition", "__connect_offset")

Row = tuple[dict[str, Schema], dict[str, Any]]
"""Columns and their values."""


class JdbcSinkTask(SinkTask):
    async def start(self, config: Config) -> None:
        self._options = OPTIONS.parse(config)
        self._engine = engine(self._options)
        self._metadata = sql.MetaData()
        self._tables: dict[str, sql.Table] = {}
        self._reported: set[tuple[str, int, int] | None] = set()
        self._name = config.get("name") or ""
        self._offsets: sql.Table | None = None
        if self._options["offsets.table"]:
            self._offsets = sql.Table(
                self._options["offsets.table"],
                self._metadata,
                sql.Column("connector", sql.String(250), primary_key=True),
                sql.Column("topic", sql.String(250), primary_key=True),
                sql.Column("partition", sql.Integer(), primary_key=True, autoincrement=False),
                sql.Column("next_offset", sql.BigInteger()),
            )
            await self._run(lambda: self._metadata.create_all(self._engine))

    async def _run(self, work: Any) -> Any:
        """Errors: ConnectError, RetriableError."""
        try:
            return await asyncio.to_thread(work)
        except sql.exc.SQLAlchemyError as error:
            raise in_words(error) from error

    async def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        offsets = self._offsets
        if offsets is None:
            return {}

        def read() -> dict[TopicPartition, int]:
            with self._engine.connect() as connection:
                rows = connection.execute(sql.select(offsets).where(offsets.c.connector == self._name)).all()
            return {TopicPartition(row.topic, row.partition): row.next_offset for row in rows}

        known: dict[TopicPartition, int] = await self._run(read)
        return {one: known[one] for one in partitions if one in known}

    async def put(self, records: Sequence[Record]) -> None:
        good: list[tuple[Record, Row, Row | None]] = []
        for record in records:
            try:
                good.append((record, *self._rows(record)))
            except DataError as error:
                if record.position not in self._reported:  # records that are tried again are reported once
                    self.report(record, error)
                    self._reported.add(record.position)
        try:
            await self._run(lambda: self._put(records, good))
        except ConnectError:
            self._tables.clear()  # tables that the transaction had made are gone with it
            raise
        self._reported.clear()

    def _rows(self, record: Record) -> tuple[Row, Row | None]:
        """Key and values; no values: the row goes.  Errors: DataError."""
        keys = self._key(record)
        if record.value is not None:
            return keys, self._values(record, keys)
        if not self._options["delete.enabled"]:
            raise DataError(f"a record without a value, at offset {record.offset} of {record.topic}: delete.enabled=true makes it delete")
        return keys, None

    def _put(self, records: Sequence[Record], good: Sequence[tuple[Record, Row, Row | None]]) -> None:
        """Write the rows, and the offsets behind all records, in one transaction."""
        with self._engine.begin() as connection:
            for record, keys, values in good:
                self._store(connection, record, keys, values)
            if self._offsets is not None:
                ends: dict[tuple[str, int], int] = {}
                for record in records:
                    assert record.position is not None
                    topic, partition, offset = record.position
                    ends[topic, partition] = offset + 1
                for (topic, partition), end in ends.items():
                    key = {"connector": self._name, "topic": topic, "partition": partition}
                    upsert(connection, self._offsets, key, {"next_offset": end})

    def _store(self, connection: sql.Connection, record: Record, keys: Row, values: Row | None) -> None:
        name = self._options["table.name.format"].replace("${topic}", record.topic)
        if values is None:
            table = self._table(connection, name, keys, ({}, {}))
            connection.execute(table.delete().where(*(table.c[column] == value for column, value in keys[1].items())))
            return
        table = self._table(connection, name, keys, values)
        mode = self._options["insert.mode"]
        if mode == "insert" or not keys[1]:
            connection.execute(table.insert().values({**values[1], **keys[1]}))
        elif mode == "update":
            connection.execute(table.update().where(*(table.c[column] == value for column, value in keys[1].items())).values(values[1]))
        else:
            upsert(connection, table, keys[1], values[1])

    # ------------------------------------------------------------ rows

    def _key(self, record: Record) -> Row:
        mode, wanted = self._options["pk.mode"], self._options["pk.fields"]
        if mode == "none":
            return {}, {}
        if mode == "kafka":
            names = wanted or KAFKA_KEY
            assert record.position is not None
            return dict(zip(names, (data.STRING, data.INT32, data.INT64), strict=True)), dict(zip(names, record.position, strict=True))
        schema, value = (record.key_schema, record.key) if mode == "record_key" else (record.value_schema, record.value)
        if isinstance(value, Struct) and schema is not None:
            names = wanted or [one.name for one in schema.fields]
            return _columns(value, names)
        if mode == "record_value" or schema is None or value is None or schema.type in (Type.MAP, Type.ARRAY):
            wants = "struct" if mode == "record_value" else "key"
            raise DataError(f"pk.mode={mode} needs a {wants} with a schema, at offset {record.offset} of {record.topic}")
        if len(wanted) != 1:
            raise ConnectError("pk.fields has to name one column for a key that is no struct")
        return {wanted[0]: schema}, {wanted[0]: to_column(schema, value)}

    def _values(self, record: Record, keys: Row) -> Row:
        if not isinstance(record.value, Struct):
            raise DataError(f"a value that is no struct with a schema, at offset {record.offset} of {record.topic}: rows need columns")
        allowed = self._options["fields.whitelist"]
        names = [one.name for one in record.value.schema.fields if one.name not in keys[0] and (not allowed or one.name in allowed)]
        return _columns(record.value, names)

    # ------------------------------------------------------------ tables

    def _table(self, connection: sql.Connection, name: str, keys: Row, values: Row) -> sql.Table:
        """Errors: ConnectError."""
        table = self._tables.get(name)
        needed = {**keys[0], **values[0]}
        if table is None or not set(needed) <= set(table.c.keys()):
            table = self._reflected(connection, name)
            if table is None:
                table = self._created(connection, name, keys, values)
            missing = [column for column in needed if column not in table.c]
            if missing:
                table = self._evolved(connection, table, {column: needed[column] for column in missing})
            self._tables[name] = table
        return table

    def _reflected(self, connection: sql.Connection, name: str) -> sql.Table | None:
        schema, _, bare = name.rpartition(".")
        if not sql.inspect(connection).has_table(bare, schema or None):
            return None
        return sql.Table(bare, sql.MetaData(), schema=schema or None, autoload_with=connection)

    def _created(self, connection: sql.Connection, name: str, keys: Row, values: Row) -> sql.Table:
        if not self._options["auto.create"]:
            raise ConnectError(f"there is no table {name}: make it, or set auto.create=true")
        schema, _, bare = name.rpartition(".")
        columns = [sql.Column(column, column_of(kind), primary_key=True, autoincrement=False) for column, kind in keys[0].items()]
        columns += [sql.Column(column, column_of(kind), nullable=kind.optional) for column, kind in values[0].items()]
        table = sql.Table(bare, sql.MetaData(), *columns, schema=schema or None)
        table.create(connection)
        return table

    def _evolved(self, connection: sql.Connection, table: sql.Table, missing: dict[str, Schema]) -> sql.Table:
        if not self._options["auto.evolve"]:
            raise ConnectError(f"table {table.name} has no column {', '.join(missing)}: add it, or set auto.evolve=true")
        quote = connection.dialect.identifier_preparer
        for column, kind in missing.items():
            declared = column_of(kind).compile(connection.dialect)
            connection.execute(sql.text(f"ALTER TABLE {quote.format_table(table)} ADD COLUMN {quote.quote(column)} {declared}"))
        found = self._reflected(connection, table.fullname)
        assert found is not None
        return found

    async def stop(self) -> None:
        if hasattr(self, "_engine"):
            await asyncio.to_thread(self._engine.dispose)


def _columns(value: Struct, names: Sequence[str]) -> Row:
    kinds: dict[str, Schema] = {}
    for name in names:
        kind = value.schema.field(name)
        if kind is None:
            raise DataError(f"there is no field {name}")
        kinds[name] = kind
    return kinds, {name: to_column(kind, value.get(name)) for name, kind in kinds.items()}


def upsert(connection: sql.Connection, table: sql.Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Insert or update, by the database's own statement if it has one, else by an update and an insert in the same transaction."""
    if connection.dialect.name in ("postgresql", "sqlite"):
        from sqlalchemy.dialects import postgresql, sqlite

        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        statement = insert(table).values({**key, **values})
        connection.execute(
            statement.on_conflict_do_update(index_elements=list(key), set_=dict(values))
            if values
            else statement.on_conflict_do_nothing(index_elements=list(key))
        )
        return
    changed = connection.execute(table.update().where(*(table.c[name] == value for name, value in key.items())).values({**values, **key}))
    if not changed.rowcount:
        connection.execute(table.insert().values({**key, **values}))


class JdbcSink(Connector):
    names = ("io.confluent.connect.jdbc.JdbcSinkConnector",)
    kind = "sink"
    definition = OPTIONS
    task = JdbcSinkTask
    task_class = "io.confluent.connect.jdbc.sink.JdbcSinkTask"
