"""● Rows of tables to topics, by polling.

| mode | what is read | what is missed |
|---|---|---|
| bulk | everything, at every poll | nothing |
| incrementing | rows whose number is above the last one | updates, deletions; a row that is committed after one of a higher number |
| timestamp | rows changed after the last time | deletions; rows of the same time as the last one read, that are committed later |
| timestamp+incrementing | rows changed since, by time and number | deletions; rows of an older time that are committed later |

`timestamp.delay.interval.ms` leaves transactions the time to commit.

Promise: rows that a poll finds are written at least once; with exactly.once.source.support=enabled in the worker, once.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sql

from moldau.connect.connectors.connector import Connector, Offset, OffsetReader, OffsetsRefused, Partition, SourceTask
from moldau.connect.connectors.jdbc.database import ADDRESS, engine, in_words, schema_of, to_connect
from moldau.connect.data import EPOCH, Record, Struct, struct
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError

BULK, INCREMENTING, TIMESTAMP, BOTH = "bulk", "incrementing", "timestamp", "timestamp+incrementing"
OPTIONS: Final = Definition(
    *ADDRESS,
    Key("table.whitelist", Kind.LIST, [], "MEDIUM", "The tables to read.", check.unique_aliases),
    Key("query", Kind.STRING, "", "MEDIUM", "Not offered.", check.not_offered("name a view of the query in table.whitelist")),
    Key("table.blacklist", Kind.LIST, [], "MEDIUM", "Not offered.", check.not_offered("name the tables in table.whitelist")),
    Key("mode", Kind.STRING, REQUIRED, "HIGH", "How new rows are told from old ones.", check.one_of(BULK, INCREMENTING, TIMESTAMP, BOTH)),
    Key("incrementing.column.name", Kind.STRING, "", "MEDIUM", "The column whose number grows; the primary key without it."),
    Key("timestamp.column.name", Kind.STRING, "", "MEDIUM", "The column that holds the time of the last change."),
    Key("topic.prefix", Kind.STRING, REQUIRED, "HIGH", "The topic is this and the table's name."),
    Key("poll.interval.ms", Kind.INT, 5000, "HIGH", "How long to wait between polls of a table.", check.at_least(1)),
    Key("batch.max.rows", Kind.INT, 100, "LOW", "How many rows are taken at once.", check.at_least(1)),
    Key("timestamp.delay.interval.ms", Kind.LONG, 0, "HIGH", "Rows younger than this wait, for transactions that are still open."),
    Key("tables", Kind.LIST, [], "LOW", "Set by the connector: the tables of a task."),
)
TABLE: Final = "table"


class _Table:
    """One table, and how far it was read."""

    def __init__(self, name: str, options: Mapping[str, Any], found: Offset | None) -> None:
        self.name = name
        self.partition = {"protocol": "1", TABLE: name}
        self.number: int | None = None if found is None else found.get("incrementing")
        self.time: datetime | None = None
        if found is not None and found.get("timestamp") is not None:
            nanos = found.get("timestamp_nanos") or found["timestamp"] % 1000 * 1_000_000
            self.time = EPOCH + timedelta(seconds=found["timestamp"] // 1000, microseconds=nanos // 1000)
        self.due = 0.0
        self._options = options
        self._table: sql.Table | None = None

    def columns(self, connection: sql.Connection) -> sql.Table:
        """Errors: ConfigError, ConnectError."""
        if self._table is not None:
            return self._table
        schema, _, bare = self.name.rpartition(".")
        try:
            table = sql.Table(bare, sql.MetaData(), schema=schema or None, autoload_with=connection)
        except sql.exc.NoSuchTableError as error:
            raise ConnectError(f"there is no table {self.name}") from error
        mode = self._options["mode"]
        self._number_column = self._time_column = None
        if mode in (INCREMENTING, BOTH):
            name = self._options["incrementing.column.name"] or next((one.name for one in table.primary_key.columns), "")
            self._number_column = self._column(table, name, "incrementing.column.name")
        if mode in (TIMESTAMP, BOTH):
            self._time_column = self._column(table, self._options["timestamp.column.name"], "timestamp.column.name")
        self._schema = struct({one.name: schema_of(one) for one in table.columns}, name=bare)
        self._table = table
        return table

    def _column(self, table: sql.Table, name: str, option: str) -> sql.Column[Any]:
        if name not in table.c:
            raise ConfigError.invalid(option, name, f"table {self.name} has no such column")
        return table.c[name]

    def read(self, connection: sql.Connection, now: datetime, limit: int) -> list[Record]:
        table = self.columns(connection)
        query = sql.select(table)
        number, time = self._number_column, self._time_column
        if time is not None:
            query = query.where(time < self._of_column(time, now - timedelta(milliseconds=self._options["timestamp.delay.interval.ms"])))
            if self.time is not None:
                query = query.where(self._after(time, number))
            query = query.order_by(time, *([number] if number is not None else []))
        elif number is not None:
            query = query.where(number > self.number) if self.number is not None else query
            query = query.order_by(number)
        if number is not None:
            query = query.limit(limit)
        rows = [dict(row) for row in connection.execute(query).mappings()]
        return [self._record(row) for row in rows]

    def _after(self, time: sql.Column[Any], number: sql.Column[Any] | None) -> Any:
        assert self.time is not None
        last = self._of_column(time, self.time)
        if number is None or self.number is None:
            return time > last
        return (time > last) | ((time == last) & (number > self.number))

    @staticmethod
    def _of_column(time: sql.Column[Any], moment: datetime) -> datetime:
        return moment if getattr(time.type, "timezone", False) else moment.replace(tzinfo=None)

    def _record(self, row: Mapping[str, Any]) -> Record:
        values = {one.name: to_connect(one.schema, row[one.name]) for one in self._schema.fields}
        offset: dict[str, Any] = {}
        if self._time_column is not None:
            moment = values[self._time_column.name]
            self.time = moment
            since = moment - EPOCH
            offset["timestamp"] = since // timedelta(milliseconds=1)
            offset["timestamp_nanos"] = moment.microsecond * 1000
        if self._number_column is not None:
            self.number = offset["incrementing"] = values[self._number_column.name]
        return Record(
            self._options["topic.prefix"] + self.name.rpartition(".")[2],
            value_schema=self._schema,
            value=Struct(self._schema, values),
            source_partition=self.partition if offset else None,
            source_offset=offset or None,
        )


class JdbcSourceTask(SourceTask):
    async def start(self, config: Config, offsets: OffsetReader) -> None:
        self._options = OPTIONS.parse(config)
        self._engine = engine(self._options)
        names = self._options["tables"] or self._options["table.whitelist"]
        self._tables = [_Table(name, self._options, offsets.offset({"protocol": "1", TABLE: name})) for name in names]

    async def poll(self) -> Sequence[Record]:
        loop = asyncio.get_running_loop()
        table = min(self._tables, key=lambda one: one.due)
        if table.due > loop.time():
            await asyncio.sleep(min(0.5, table.due - loop.time()))
            return []
        try:
            found = await asyncio.to_thread(self._read, table)
        except sql.exc.SQLAlchemyError as error:
            raise in_words(error) from error
        is_full = self._options["mode"] in (INCREMENTING, BOTH) and len(found) == self._options["batch.max.rows"]
        table.due = loop.time() + (0 if is_full else self._options["poll.interval.ms"] / 1000)
        return found

    def _read(self, table: _Table) -> list[Record]:
        with self._engine.connect() as connection:
            return table.read(connection, datetime.now(UTC), self._options["batch.max.rows"])

    async def stop(self) -> None:
        if hasattr(self, "_engine"):
            await asyncio.to_thread(self._engine.dispose)


class JdbcSource(Connector):
    names = ("io.confluent.connect.jdbc.JdbcSourceConnector",)
    kind = "source"
    definition = OPTIONS
    task = JdbcSourceTask
    task_class = "io.confluent.connect.jdbc.source.JdbcSourceTask"

    def task_configs(self, config: Config, max_tasks: int) -> list[dict[str, str | None]]:
        """Tables are dealt out to tasks."""
        names = OPTIONS.parse(config)["table.whitelist"]
        if not names:
            raise ConfigError.invalid("table.whitelist", "", "name at least one table")
        shares = [names[start::max_tasks] for start in range(min(max_tasks, len(names)))]
        return [{**config, "tables": ",".join(share)} for share in shares]

    def check_offsets(self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]) -> None:
        for partition, offset in offsets:
            if set(partition) != {"protocol", TABLE}:
                raise OffsetsRefused('Partition objects should be as {"protocol": "1", "table": "name"}')
            if offset is not None and not set(offset) <= {"incrementing", "timestamp", "timestamp_nanos"}:
                raise OffsetsRefused("Offset objects may have incrementing, timestamp and timestamp_nanos")
