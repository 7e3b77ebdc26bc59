"""● Changes of PostgreSQL tables: a snapshot first, then every committed change, from a logical replication slot.

The slot is asked by plain SQL (`pg_logical_slot_peek_binary_changes`), which can be repeated.  It advances once the records are written and
their offset is committed, and while only other tables change.  The offset holds the end of the last whole transaction, how many changes of
the next transaction were told, and where that one commits: the slot may have left it behind when reading begins again.
Snapshot and slot overlap: transactions that the snapshot has seen are left out of the log, by their number.  A snapshot that was cut off
begins again.  Then the log is told from the slot's beginning: rows that were deleted since the first snapshot have to be told as deleted.
Promise: at least once; with exactly.once.source.support=enabled in the worker, once, but for a snapshot that is cut off.
"""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import psycopg
from psycopg import sql

from moldau.connect import data
from moldau.connect.connectors.connector import Connector, OffsetReader, SourceTask
from moldau.connect.connectors.postgres.envelope import Origin, Table
from moldau.connect.connectors.postgres.pgoutput import Begin, Change, Column, Commit, Relation, parse
from moldau.connect.data import Record, Struct
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError, RetriableError
from moldau.version import __version__

OPTIONS: Final = Definition(
    Key("database.hostname", Kind.STRING, REQUIRED, "HIGH", "The server's host, or the folder of its socket."),
    Key("database.port", Kind.INT, 5432, "HIGH", "The server's port."),
    Key("database.user", Kind.STRING, REQUIRED, "HIGH", "The user, who needs REPLICATION."),
    Key("database.password", Kind.PASSWORD, None, "HIGH", "The user's password."),
    Key("database.dbname", Kind.STRING, REQUIRED, "HIGH", "The database."),
    Key("topic.prefix", Kind.STRING, REQUIRED, "HIGH", "Topics are this, the schema and the table, with dots.", check.non_empty),
    Key("table.include.list", Kind.LIST, [], "HIGH", "Regular expressions of schema.table; without it, all tables."),
    Key("slot.name", Kind.STRING, "debezium", "MEDIUM", "The replication slot; made when it is not there."),
    Key("publication.name", Kind.STRING, "dbz_publication", "MEDIUM", "The publication; made for the tables when it is not there."),
    Key("plugin.name", Kind.STRING, "pgoutput", "MEDIUM", "pgoutput, the plug-in that PostgreSQL has.", check.one_of("pgoutput")),
    Key(
        "snapshot.mode",
        Kind.STRING,
        "initial",
        "MEDIUM",
        "Whether rows that are there come first.",
        check.one_of("initial", "no_data", "never"),
    ),
    Key("tombstones.on.delete", Kind.BOOLEAN, True, "MEDIUM", "Whether a record without a value follows a deletion."),
    Key("max.batch.size", Kind.INT, 2048, "MEDIUM", "How many messages one poll takes.", check.at_least(1)),
    Key(
        "heartbeat.interval.ms",
        Kind.INT,
        0,
        "MEDIUM",
        "How often a record tells how far the log was read; 0: never.",
        check.at_least(0),
    ),
    Key("heartbeat.topics.prefix", Kind.STRING, "__debezium-heartbeat", "LOW", "Before the dot and topic.prefix: the topic of heartbeats."),
    Key("heartbeat.action.query", Kind.STRING, None, "LOW", "A statement that is run with each heartbeat."),
    Key("poll.interval.ms", Kind.INT, 500, "MEDIUM", "How long to wait when there was nothing.", check.at_least(1)),
)
KEY_COLUMNS: Final = """
    SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
    WHERE i.indrelid = format('%%I.%%I', %s::text, %s::text)::regclass AND i.indisprimary ORDER BY array_position(i.indkey, a.attnum)"""
COLUMNS: Final = """
    SELECT attname, atttypid::int8, atttypmod FROM pg_attribute
    WHERE attrelid = format('%%I.%%I', %s::text, %s::text)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
PEEK: Final = """
    SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1', 'publication_names', %s)"""
XID: Final = 1 << 32
IDLE_ADVANCE_S: Final = 10.0
"""How often the slot advances while only other tables change.  PostgreSQL keeps its log from the slot on."""
BEAT_KEY: Final = data.struct({"serverName": data.STRING}, name="io.debezium.connector.common.ServerNameKey")
BEAT: Final = data.struct({"ts_ms": data.INT64}, name="io.debezium.connector.common.Heartbeat")


class PostgresTask(SourceTask):
    async def start(self, config: Config, offsets: OffsetReader) -> None:
        self._options = OPTIONS.parse(config)
        self._partition = {"server": self._options["topic.prefix"]}
        found = offsets.offset(self._partition)
        self._lsn, self._within, self._told, self._seen = 0, 0, 0, ""
        if found is not None and "lsn" in found:
            self._lsn, self._seen = int(found["lsn"]), str(found.get("snapshot_seen", ""))
            self._within, self._told = int(found.get("transaction", 0)), int(found.get("changes", 0))
        self._tables: dict[int, Table] = {}
        self._messages: Iterator[Record | None] | None = None
        self._given = self._committed = self._lsn
        self._connection: psycopg.Connection[Any] | None = None
        self._begins = found is None or "lsn" not in found
        self._is_all_committed = True
        self._advanced_at = self._beat_at = asyncio.get_running_loop().time()
        await self._asked(self._prepare)

    async def _asked(self, work: Any) -> Any:
        """Errors: ConnectError, RetriableError."""
        try:
            return await asyncio.to_thread(work)
        except psycopg.OperationalError as error:
            self._forget()
            raise RetriableError(f"the database cannot be asked: {error}") from error
        except psycopg.Error as error:
            self._forget()
            raise ConnectError(f"the database refuses: {error}") from error

    def _forget(self) -> None:
        """Forget records of the log that were read but not given out.  They are read again."""
        self._messages = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> psycopg.Connection[Any]:
        options = self._options
        connection = psycopg.connect(
            host=options["database.hostname"],
            port=options["database.port"],
            user=options["database.user"],
            password=options["database.password"],
            dbname=options["database.dbname"],
            autocommit=True,
        )
        connection.execute("SET datestyle = ISO")
        connection.execute("SET timezone = 'UTC'")
        return connection

    # ------------------------------------------------------------ slot, publication, snapshot

    def _prepare(self) -> None:
        connection, options = self._connected(), self._options
        names = self._included(connection)
        if not connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [options["publication.name"]]).fetchone():
            listed = sql.SQL(", ").join(sql.Identifier(*name) for name in names)
            connection.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(options["publication.name"]), listed))
        slot = connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [options["slot.name"]]).fetchone()
        self._is_first = slot is None
        if slot is None:
            if not self._begins:
                raise ConnectError(
                    f"replication slot {options['slot.name']} is gone, and changes with it: delete the offsets to begin anew"
                )
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [options["slot.name"]])
        if self._begins and options["snapshot.mode"] == "initial":
            self._messages = self._snapshot(names)

    def _included(self, connection: psycopg.Connection[Any]) -> list[tuple[str, str]]:
        """Errors: ConfigError."""
        patterns = [re.compile(one) for one in self._options["table.include.list"]]
        query = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
        found = [(schema, table) for schema, table in connection.execute(query)]
        names = [one for one in found if not patterns or any(pattern.fullmatch(".".join(one)) for pattern in patterns)]
        if not names:
            raise ConfigError.invalid("table.include.list", self._options["table.include.list"], "no table matches")
        return names

    def _snapshot(self, names: list[tuple[str, str]]) -> Iterator[Record | None]:
        """The rows as they were at one moment.  The last row's offset tells where the log goes on."""
        with self._connect() as connection:
            connection.autocommit = False
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            row = connection.execute("SELECT pg_current_snapshot()::text, (pg_current_wal_lsn() - '0/0')::int8").fetchone()
            assert row is not None
            seen, lsn = row
            last: Record | None = None
            now_ms = _now_ms()
            origin = Origin(__version__, self._options["topic.prefix"], self._options["database.dbname"], "true", now_ms, None, lsn)
            for schema, name in names:
                columns = tuple(Column(one, oid, modifier, False) for one, oid, modifier in connection.execute(COLUMNS, [schema, name]))
                table = self._table(connection, Relation(0, schema, name, columns))
                texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(column.name)) for column in columns)
                with connection.cursor(name=f"snapshot_{name}"[:60]) as cursor:
                    cursor.execute(sql.SQL("SELECT {} FROM {}").format(texts, sql.Identifier(schema, name)))
                    for cells in cursor:
                        if last is not None:
                            yield last
                        change = Change("r", 0, None, tuple(cells))
                        last = self._records(table, change, origin, {"snapshot": True})[0]
        self._seen, self._begins = seen if self._is_first else "", False
        if last is not None:
            yield replace(last, source_offset=self._offset())

    def _table(self, connection: psycopg.Connection[Any], relation: Relation) -> Table:
        key = [name for (name,) in connection.execute(KEY_COLUMNS, [relation.schema, relation.name])]
        return Table(self._options["topic.prefix"], relation, key)

    # ------------------------------------------------------------ the log

    def _offset(self) -> dict[str, Any]:
        return {"lsn": self._lsn, "transaction": self._within, "changes": self._told, "snapshot_seen": self._seen}

    def _records(self, table: Table, change: Change, origin: Origin, offset: dict[str, Any]) -> list[Record]:
        tombstones = self._options["tombstones.on.delete"]
        events = table.events(change, origin, _now_ms(), tombstones=tombstones)
        return [Record(table.topic, None, *event, source_partition=self._partition, source_offset=offset) for event in events]

    def _log(self) -> Iterator[Record | None]:
        """The records of all whole transactions that the slot has now.  None: a message that gives no record."""
        connection = self._connected()
        options = self._options
        skipped = number = 0
        origin: Origin | None = None
        is_known, is_empty = False, True
        row = connection.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8").fetchone()
        assert row is not None
        with connection.transaction(), connection.cursor(name="log") as cursor:
            cursor.execute(PEEK, [options["slot.name"], options["max.batch.size"], options["publication.name"]])
            for (message,) in cursor:
                is_empty = False
                event = parse(bytes(message))
                if isinstance(event, Relation):
                    self._tables[event.id] = self._table(connection, event)
                elif isinstance(event, Begin):
                    number, skipped = 0, self._told if event.final_lsn == self._within else 0
                    is_known = event.final_lsn < self._lsn or _is_seen(event.xid, self._seen)
                    names = options["topic.prefix"], options["database.dbname"]
                    origin = Origin(__version__, *names, "false", event.time_us // 1000, event.xid, event.final_lsn)
                elif isinstance(event, Commit):
                    self._lsn = max(self._lsn, event.end_lsn)
                    self._within = self._told = 0
                    yield None
                elif isinstance(event, Change):
                    number += 1
                    if is_known or number <= skipped:
                        continue
                    assert origin is not None
                    self._within, self._told = origin.lsn or 0, number
                    yield from self._records(self._tables[event.relation], event, origin, self._offset())

        if is_empty:
            self._lsn = max(self._lsn, row[0])  # all that was committed until then concerns other tables

    async def poll(self) -> Sequence[Record]:
        found: list[Record] = await self._asked(self._next)
        now = asyncio.get_running_loop().time()
        beat_s = self._options["heartbeat.interval.ms"] / 1000
        if beat_s and self._messages is None and now - self._beat_at >= beat_s:
            self._beat_at = now
            found = [*found, await self._asked(self._heartbeat)]
        if found:
            self._is_all_committed = False
        elif self._messages is None:
            if self._is_all_committed and now - self._advanced_at >= IDLE_ADVANCE_S:
                await self.commit()
            await asyncio.sleep(self._options["poll.interval.ms"] / 1000)
        return found

    def _heartbeat(self) -> Record:
        """A record that carries the offset on while no change does."""
        if self._options["heartbeat.action.query"]:
            self._connected().execute(self._options["heartbeat.action.query"])
        prefix = self._options["topic.prefix"]
        topic = f"{self._options['heartbeat.topics.prefix']}.{prefix}"
        key, value = Struct(BEAT_KEY, {"serverName": prefix}), Struct(BEAT, {"ts_ms": _now_ms()})
        offset = self._offset()
        return Record(topic, None, BEAT_KEY, key, BEAT, value, source_partition=self._partition, source_offset=offset)

    def _next(self) -> list[Record]:
        """Up to `max.batch.size` records."""
        begin = self._lsn, self._within, self._told
        if self._messages is None:
            self._messages = self._log()
        found: list[Record] = []
        try:
            for one in self._messages:
                if one is not None:
                    found.append(one)
                if len(found) >= self._options["max.batch.size"]:
                    return found
        except Exception:
            self._lsn, self._within, self._told = begin  # records that were not given out are read again
            raise
        self._messages = None
        self._given = self._lsn
        return found

    async def commit(self) -> None:
        """Advance the slot behind the changes that are safe."""
        self._is_all_committed = True
        self._advanced_at = asyncio.get_running_loop().time()
        if self._messages is None and self._given > self._committed:
            await self._asked(self._advance)
            self._committed = self._given

    def _advance(self) -> None:
        query = "SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)"
        self._connected().execute(query, [self._options["slot.name"], self._given])

    async def stop(self) -> None:
        if hasattr(self, "_connection"):
            await asyncio.to_thread(self._forget)


def _is_seen(xid: int, snapshot: str) -> bool:
    """Whether a snapshot, `xmin:xmax:xip,xip`, has seen this transaction.  The snapshot's numbers have 64 bits, the log's have 32."""
    if not snapshot:
        return False
    _, high, running = snapshot.split(":")
    own = xid % XID
    if own in {int(one) % XID for one in running.split(",") if one}:
        return False
    return (int(high) - own - 1) % XID < XID // 2


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class PostgresSource(Connector):
    names = ("io.debezium.connector.postgresql.PostgresConnector",)
    kind = "source"
    definition = OPTIONS
    task = PostgresTask
    task_class = "io.debezium.connector.postgresql.PostgresConnectorTask"
