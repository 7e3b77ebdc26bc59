"""● Changes of PostgreSQL tables: a snapshot first, then every committed change, from a logical replication slot.

The slot is asked by plain SQL (`pg_logical_slot_peek_binary_changes`), which can be repeated.  It advances once the records are written and
their offset is committed, and while only other tables change.  The offset holds the end of the last whole transaction, how many changes of
the next transaction were told, how many records of the change behind them, and where that transaction commits: the slot may have left it
behind when reading begins again.
Snapshot and slot overlap: transactions that the snapshot has seen are left out of the log, by their number.  A snapshot that was cut off
begins again.  Then the log is told from the slot's beginning: rows that were deleted since the first snapshot have to be told as deleted.
Promise: at least once; with exactly.once.source.support=enabled in the worker, once, but for a snapshot that is cut off.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import psycopg
from psycopg import sql

from moldau.connect import data
from moldau.connect.connectors.connector import Connector, OffsetReader, SourceTask
from moldau.connect.connectors.postgres import catalog
from moldau.connect.connectors.postgres.envelope import Origin, Table, Told
from moldau.connect.connectors.postgres.modes import modes_of
from moldau.connect.connectors.postgres.options import OPTIONS
from moldau.connect.connectors.postgres.pgoutput import Begin, Change, Commit, Relation, Truncate, parse
from moldau.connect.data import Header, Record, Struct
from moldau.connect.declare.definition import Config
from moldau.connect.errors import ConfigError, ConnectError, RetriableError
from moldau.version import __version__

PEEK: Final = """
    SELECT (lsn - '0/0')::int8, data
    FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1', 'publication_names', %s)"""
XID: Final = 1 << 32
IDLE_ADVANCE_S: Final = 10.0
"""How often the slot advances while only other tables change.  PostgreSQL keeps its log from the slot on."""
CONTEXT: Final = "__debezium.context."
CURSOR_ROWS: Final = 2000
BEAT_KEY: Final = data.struct({"serverName": data.STRING}, name="io.debezium.connector.common.ServerNameKey")
BEAT: Final = data.struct({"ts_ms": data.INT64}, name="io.debezium.connector.common.Heartbeat")


class PostgresTask(SourceTask):
    async def start(self, config: Config, offsets: OffsetReader) -> None:
        self._options = OPTIONS.parse(config)
        self._partition = {"server": self._options["topic.prefix"]}
        found = offsets.offset(self._partition)
        self._lsn, self._within, self._told, self._part, self._seen = 0, 0, 0, 0, ""
        self._last_commit: int | None = None
        if found is not None and "lsn" in found:
            self._lsn, self._seen = int(found["lsn"]), str(found.get("snapshot_seen", ""))
            self._within, self._told = int(found.get("transaction", 0)), int(found.get("changes", 0))
            self._part = int(found.get("records", 0))
            self._last_commit = found.get("lsn_commit")
        self._chosen = catalog.Chosen(self._options)
        self._modes = modes_of(self._options)
        self._skipped = set(self._options["skipped.operations"])
        names = {"connectorName": "postgresql", "connectorLogicalName": self._options["topic.prefix"], "taskId": "0"}
        is_extended = self._options["extended.headers.enabled"]
        self._headers = tuple(Header(f"{CONTEXT}{name}", data.STRING, value) for name, value in names.items() if is_extended)
        self._tables: dict[int, Table | None] = {}
        self._messages: Iterator[Record | None] | None = None
        self._given = self._committed = self._lsn
        self._connection: psycopg.Connection[Any] | None = None
        self._begins = found is None or "lsn" not in found
        self._is_all_committed = True
        self._has_more = self._has_only_known = False
        """Whether the log's next part was told before.  The slot has to advance for more to come: a server that was killed may have it
        as it was at an older checkpoint.
        """
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
            sslmode=options["database.sslmode"],
            application_name="moldau connect",
            autocommit=True,
        )
        connection.execute("SET datestyle = ISO")
        connection.execute("SET intervalstyle = postgres")
        connection.execute("SET extra_float_digits = 1")
        connection.execute("SET bytea_output = hex")
        connection.execute("SET timezone = 'UTC'")
        return connection

    # ------------------------------------------------------------ slot, publication, snapshot

    def _prepare(self) -> None:
        connection, options = self._connected(), self._options
        self._publish(connection, self._included(connection))
        slot = connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [options["slot.name"]]).fetchone()
        self._is_first = slot is None
        if slot is None:
            if not self._begins:
                raise ConnectError(
                    f"replication slot {options['slot.name']} is gone, and changes with it: delete the offsets to begin anew"
                )
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [options["slot.name"]])

    def _included(self, connection: psycopg.Connection[Any]) -> list[tuple[str, str]]:
        """Errors: ConfigError."""
        names = catalog.tables(connection, self._chosen)
        if not names:
            raise ConfigError.invalid("table.include.list", self._options["table.include.list"], "no table matches")
        return names

    def _publish(self, connection: psycopg.Connection[Any], names: list[tuple[str, str]]) -> None:
        """Make the publication, or add tables that it does not have.  Errors: ConfigError."""
        name, mode = self._options["publication.name"], self._options["publication.autocreate.mode"]
        found = connection.execute("SELECT puballtables FROM pg_publication WHERE pubname = %s", [name]).fetchone()
        publication = sql.Identifier(name)
        if found is None and mode == "disabled":
            raise ConfigError.invalid("publication.name", name, "there is no such publication, and publication.autocreate.mode is disabled")
        if found is None and mode == "all_tables":
            connection.execute(sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(publication))
            return
        query = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s"
        published = set() if found is None else set(connection.execute(query, [name]).fetchall())
        listed = sql.SQL(", ").join(sql.Identifier(*one) for one in names if one not in published)
        if found is None:
            connection.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(publication, listed))
        elif mode == "filtered" and not found[0] and not published.issuperset(names):
            connection.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(publication, listed))

    def _snapshot(self) -> Iterator[Record | None]:
        """The rows as they were at one moment.  The last row's offset tells where the log goes on."""
        is_first, self._is_first = self._is_first, False  # behind a snapshot that breaks off, the log is told from the slot's beginning
        names = self._included(self._connected())
        with self._connect() as connection:
            connection.autocommit = False
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            _hold(connection, names)
            query = (
                "SELECT pg_current_snapshot()::text, (pg_current_wal_lsn() - '0/0')::int8, txid_current() %% %s, "
                "(extract(epoch FROM now()) * 1000000)::int8"
            )
            row = connection.execute(query, [XID]).fetchone()
            assert row is not None
            seen, lsn, xid, time_us = row
            origin = Origin(__version__, self._options["topic.prefix"], self._options["database.dbname"], "true", time_us, xid, lsn, None)
            last: tuple[Table, Change, str] | None = None
            for number, (schema, name) in enumerate(names):
                relation = Relation(0, schema, name, catalog.columns(connection, schema, name))
                table = self._table(connection, relation)
                place = "first_in_data_collection" if number else "first"
                for change in _rows(connection, relation):
                    if last is not None:
                        yield from self._snapshot_row(*last, origin)
                    last = table, change, place
                    place = "true"
                if last is not None and last[0] is table and last[2] != "first":
                    last = *last[:2], "last_in_data_collection"
        self._seen, self._begins = seen if is_first else "", False
        if last is not None:
            for record in self._snapshot_row(*last[:2], "last", origin):
                yield replace(record, source_offset=self._offset())

    def _snapshot_row(self, table: Table, change: Change, place: str, origin: Origin) -> list[Record]:
        events = table.events(change, replace(origin, snapshot=place), time.time_ns(), tombstones=False)
        return [self._record(table, event, {"snapshot": True}) for event in events]

    def _table(self, connection: psycopg.Connection[Any], relation: Relation) -> Table:
        schema, name = relation.schema, relation.name
        wanted = [one for one in relation.columns if self._chosen.column(schema, name, one.name)]
        facts = catalog.facts(connection, schema, name, wanted)
        return Table(self._options["topic.prefix"], relation, catalog.key_columns(connection, relation), facts, self._modes)

    # ------------------------------------------------------------ the log

    def _offset(self) -> dict[str, Any]:
        return {
            "lsn": self._lsn, "transaction": self._within, "changes": self._told, "records": self._part, "snapshot_seen": self._seen,
            "lsn_commit": self._last_commit,
        }  # fmt: skip

    def _record(self, table: Table, event: Told, offset: dict[str, Any]) -> Record:
        schemas = event.key_schema, event.key, event.value_schema, event.value
        headers = event.headers + self._headers
        return Record(table.topic, None, *schemas, headers=headers, source_partition=self._partition, source_offset=offset)

    def _log(self) -> Iterator[Record | None]:
        """The records of all whole transactions that the slot has now.  None: a message that gives no record."""
        connection = self._connected()
        options = self._options
        skipped = skipped_part = number = 0
        origin: Origin | None = None
        is_known, is_empty = False, True
        row = connection.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8").fetchone()
        assert row is not None
        with connection.transaction(), connection.cursor(name="log") as cursor:
            cursor.itersize = CURSOR_ROWS
            cursor.execute(PEEK, [options["slot.name"], options["max.batch.size"], options["publication.name"]])
            for lsn, message in cursor:
                is_empty = False
                event = parse(bytes(message))
                if isinstance(event, Relation):
                    is_chosen = self._chosen.table(event.schema, event.name)
                    self._tables[event.id] = self._table(connection, event) if is_chosen else None
                elif isinstance(event, Begin):
                    within, number = event.final_lsn, 0
                    skipped, skipped_part = (self._told, self._part) if within == self._within else (0, 0)
                    is_known = within < self._lsn or _is_seen(event.xid, self._seen)
                    names = options["topic.prefix"], options["database.dbname"]
                    origin = Origin(__version__, *names, None, event.time_us, event.xid, 0, self._last_commit)
                elif isinstance(event, Commit):
                    self._lsn = max(self._lsn, event.end_lsn)
                    if not is_known:  # else the transaction that was told in part may still come
                        self._within = self._told = self._part = 0
                        self._last_commit = event.end_lsn
                    yield None
                elif isinstance(event, Change | Truncate):
                    number += 1
                    if is_known or number <= skipped:
                        continue
                    assert origin is not None
                    events = self._told_of(event, replace(origin, lsn=lsn))
                    self._within = within
                    for position, (table, told) in enumerate(events, 1):
                        if number == skipped + 1 and position <= skipped_part:
                            continue
                        is_last = position == len(events)
                        self._told, self._part = (number, 0) if is_last else (number - 1, position)
                        yield self._record(table, told, self._offset())

        self._has_more = not is_empty
        if is_empty:
            self._lsn = max(self._lsn, row[0])  # all that was committed until then concerns other tables

    def _told_of(self, event: Change | Truncate, origin: Origin) -> list[tuple[Table, Told]]:
        """The records of one change, each with its table.  Errors: DataError."""
        now_ns = time.time_ns()
        if isinstance(event, Truncate):
            tables = [] if "t" in self._skipped else [self._tables[one] for one in event.relations]
            return [(table, table.truncated(origin, now_ns)) for table in tables if table is not None]
        found = self._tables[event.relation]
        if found is None:
            return []
        kept = []
        is_skipped = False
        for told in found.events(event, origin, now_ns, tombstones=self._options["tombstones.on.delete"]):
            if told.value is not None:  # a tombstone goes with its deletion
                is_skipped = told.value.values["op"] in self._skipped
            if not is_skipped:
                kept.append((found, told))
        return kept

    async def poll(self) -> Sequence[Record]:
        found: list[Record] = await self._asked(self._next)
        now = asyncio.get_running_loop().time()
        beat_s = self._options["heartbeat.interval.ms"] / 1000
        if beat_s and self._messages is None and now - self._beat_at >= beat_s:
            try:
                found = [*found, await self._asked(self._heartbeat)]
                self._beat_at = now
            except ConnectError:
                if not found:  # else the records go first, since they are not read again
                    raise
        if found:
            self._is_all_committed = False
        elif self._messages is None:
            is_due = self._has_only_known or now - self._advanced_at >= IDLE_ADVANCE_S
            if self._is_all_committed and is_due:
                await self.commit()
            await asyncio.sleep(self._options["poll.interval.ms"] / 1000)
        return found

    def _heartbeat(self) -> Record:
        """A record that carries the offset on while no change does."""
        if self._options["heartbeat.action.query"]:
            self._connected().execute(self._options["heartbeat.action.query"])
        prefix = self._options["topic.prefix"]
        topic = f"{self._options['heartbeat.topics.prefix']}.{prefix}"
        key, value = Struct(BEAT_KEY, {"serverName": prefix}), Struct(BEAT, {"ts_ms": time.time_ns() // 1_000_000})
        offset = self._offset()
        return Record(topic, None, BEAT_KEY, key, BEAT, value, source_partition=self._partition, source_offset=offset)

    def _next(self) -> list[Record]:
        """Up to `max.batch.size` records."""
        begin = self._lsn, self._within, self._told, self._part, self._last_commit
        if self._messages is None:
            is_snapshot = self._begins and self._options["snapshot.mode"] == "initial"
            self._messages = self._snapshot() if is_snapshot else self._log()
        found: list[Record] = []
        try:
            for one in self._messages:
                if one is not None:
                    found.append(one)
                if len(found) >= self._options["max.batch.size"]:
                    return found
        except Exception:
            self._lsn, self._within, self._told, self._part, self._last_commit = begin  # records that were not given out are read again
            raise
        self._messages = None
        self._given = self._lsn
        self._has_only_known = not found and self._has_more
        return found

    async def commit(self) -> None:
        """Advance the slot behind the changes that are safe."""
        self._is_all_committed = True
        self._advanced_at = asyncio.get_running_loop().time()
        if self._messages is None and (self._given > self._committed or self._has_only_known):
            await self._asked(self._advance)
            self._committed, self._has_only_known = self._given, False

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


def _hold(connection: psycopg.Connection[Any], names: Sequence[tuple[str, str]]) -> None:
    """Keep the tables from being truncated or written anew, before the moment of the snapshot is chosen.

    A snapshot finds a table empty that was truncated or written anew behind its moment: its rows would be lost.
    Source: PostgreSQL 15, 13.6, Caveats.
    """
    for name in names:
        connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(sql.Identifier(*name)))


def _rows(connection: psycopg.Connection[Any], relation: Relation) -> Iterator[Change]:
    """The rows of a table, in the texts that the log has, too."""
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in relation.columns)
    query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(columns, sql.Identifier(relation.schema, relation.name))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for cells in copy.rows():
            yield Change("r", 0, None, tuple(cells))


class PostgresSource(Connector):
    names = ("io.debezium.connector.postgresql.PostgresConnector",)
    kind = "source"
    definition = OPTIONS
    task = PostgresTask
    task_class = "io.debezium.connector.postgresql.PostgresConnectorTask"
