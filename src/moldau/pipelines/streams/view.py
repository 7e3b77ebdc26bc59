"""● A table kept beside the cluster, in SQLite or PostgreSQL, to be asked from outside: Spark has no interactive queries.

    with View("spent.db") as view:                                # or View("postgresql://me@host/database")
        view.follow("localhost:9092", "spent-by-customer")        # what is new since last time
        view.get("spent-by-customer", b"anna")

The table is a compacted topic.  Rows and the offsets that they come from are written in one transaction of the database, so a view that is
killed goes on where it was and no row is older than its offsets say.  Deleting the rows and positions of a topic builds its view anew.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url

from moldau.sync import Consumer
from moldau.types import TopicPartition

POLL_S: Final = 0.5
WAIT_S: Final = 60.0
"""The longest wait for the end that the topic had when the view began to follow."""
INSERT: Final[dict[str, Callable[[sql.Table], sqlite.Insert | postgresql.Insert]]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
LOCK: Final = 0x6D6F6C646175
"""The number of the lock that writers of views take in PostgreSQL."""
DRIVERS: Final = {"postgresql": "postgresql+psycopg"}


class ViewError(Exception):
    """The view cannot be asked or brought up to date; the message says why, and what to do."""


class Kept(NamedTuple):
    """A row of a view."""

    value: bytes
    timestamp: int
    partition: int
    offset: int


class View:
    """Several tables by the names of their topics.  Several processes may ask and follow: a row never goes back to an older record."""

    def __init__(self, place: str | Path) -> None:
        """`place`: a SQLite file, or the address of a PostgreSQL database (`postgresql://user@host:5432/name`), where the tables
        `moldau_rows` and `moldau_positions` are made.  Errors: ViewError.
        """
        with _in_words():
            url = _address(place)
            self._engine = sql.create_engine(url, poolclass=sql.NullPool)
            self._is_file = url.get_backend_name() == "sqlite"
            self._insert = INSERT[url.get_backend_name()]
            self._rows, self._positions = _tables("" if self._is_file else "moldau_")
            # Transactions are begun by hand, because SQLite's must take the lock when they begin.
            self._database = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if self._is_file:
                self._database.exec_driver_sql("pragma journal_mode = wal")
            with self._transaction():
                self._rows.metadata.create_all(self._database)

    def get(self, topic: str, key: bytes) -> Kept | None:
        """Errors: ViewError."""
        rows = self._rows.c
        chosen = sql.select(rows.value, rows.timestamp, rows.partition, rows.offset)
        with _in_words():
            found = self._database.execute(chosen.where(rows.topic == topic, rows.key == key)).fetchone()
        return None if found is None else Kept(bytes(found[0]), *found[1:])

    def rows(self, topic: str) -> dict[bytes, bytes]:
        """All rows of a table.  Errors: ViewError."""
        rows = self._rows.c
        with _in_words():
            found = self._database.execute(sql.select(rows.key, rows.value).where(rows.topic == topic).order_by(rows.key))
            return {bytes(key): bytes(value) for key, value in found}

    def positions(self, topic: str) -> dict[int, int]:
        """The next offset of each partition.  Errors: ViewError."""
        positions = self._positions.c
        with _in_words():
            found = self._database.execute(sql.select(positions.partition, positions.offset).where(positions.topic == topic))
            return {row.partition: row.offset for row in found}

    def follow(
        self, bootstrap_servers: str, topic: str, *, options: Mapping[str, Any] | None = None, is_stopped: Callable[[], bool] | None = None
    ) -> int:
        """Bring the table up to the end that its topic has now; with `is_stopped`, go on until it says so.  Returns the number of records.

        Only committed records count.  Errors: ViewError, and those of a `Consumer`.
        """
        given = {**(options or {}), "isolation.level": "read_committed", "auto.offset.reset": "none", "enable.auto.commit": "false"}
        count = 0
        with Consumer(bootstrap_servers, given) as consumer:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
            ends, begins = consumer.end_offsets(partitions), consumer.beginning_offsets(partitions)
            known = self.positions(topic)
            lost = [one for one in partitions if known.get(one.partition, 0) > ends[one]]
            if lost:
                raise ViewError(
                    f"{lost[0].topic}-{lost[0].partition} ends at {ends[lost[0]]}, and the view has more: delete its rows and positions"
                )
            self._forget(topic, begins)
            consumer.assign({one: max(known.get(one.partition, 0), begins[one]) for one in partitions})
            deadline = time.monotonic() + WAIT_S
            while is_stopped is None or not is_stopped():
                places = consumer.positions
                if is_stopped is None and all(places.get(one, 0) >= end for one, end in ends.items()):
                    break
                if is_stopped is None and time.monotonic() > deadline:
                    raise ViewError(f"topic {topic} was not read to its end within {WAIT_S:.0f} s: ask again, it goes on from there")
                polled = consumer.poll(POLL_S)
                count += self._take(topic, [record for records in polled for record in records], consumer.positions)
                if polled:
                    deadline = time.monotonic() + WAIT_S
        return count

    def _take(self, topic: str, records: list[Any], positions: Mapping[TopicPartition, int]) -> int:
        """Records without a key are no rows.  Positions pass the markers of transactions, which are no records.

        Another process may have taken the same records, and more: what it has taken stays.
        """
        with _in_words(), self._transaction():
            known = self.positions(topic)
            taken = [record for record in records if record.offset >= known.get(record.partition, 0)]
            newest = {record.key: record for record in taken if record.key is not None}
            gone = [{"gone": key} for key, record in newest.items() if record.value is None]
            rows = [
                {
                    "topic": topic,
                    "key": key,
                    "value": one.value,
                    "timestamp": one.timestamp,
                    "partition": one.partition,
                    "offset": one.offset,
                }
                for key, one in newest.items()
                if one.value is not None
            ]
            if gone:
                columns = self._rows.c
                self._database.execute(self._rows.delete().where(columns.topic == topic, columns.key == sql.bindparam("gone")), gone)
            self._put(self._rows, rows)
            moved = {one.partition: offset for one, offset in positions.items() if offset > known.get(one.partition, -1)}
            self._put(self._positions, [{"topic": topic, "partition": number, "offset": offset} for number, offset in moved.items()])
        return len(taken)

    def _put(self, table: sql.Table, rows: list[dict[str, Any]]) -> None:
        """Insert the rows, or update the rows with their primary keys."""
        if rows:
            insert = self._insert(table)
            values = {column.name: insert.excluded[column.name] for column in table.c if not column.primary_key}
            self._database.execute(insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=values), rows)

    def _forget(self, topic: str, begins: Mapping[TopicPartition, int]) -> None:
        """Delete the rows that the topic itself no longer has, because it deletes old records."""
        rows = self._rows.c
        with _in_words(), self._transaction():
            for one, offset in begins.items():
                old = sql.and_(rows.topic == topic, rows.partition == one.partition, rows.offset < offset)
                self._database.execute(self._rows.delete().where(old))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All changes of the block, or none, and no other writer meanwhile."""
        self._database.exec_driver_sql("begin immediate" if self._is_file else "begin")
        try:
            if not self._is_file:
                self._database.exec_driver_sql(f"select pg_advisory_xact_lock({LOCK})")
            yield
        except BaseException:
            self._database.exec_driver_sql("rollback")
            raise
        self._database.exec_driver_sql("commit")

    def close(self) -> None:
        self._database.close()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def is_address(place: str | Path) -> bool:
    """Whether the place of a view is the address of a database, and no file."""
    return "://" in str(place)


def _address(place: str | Path) -> URL:
    """Errors: ViewError."""
    if not is_address(place):
        return URL.create("sqlite", database=str(place))
    url = make_url(str(place))
    backend = url.get_backend_name()
    if backend not in INSERT:
        raise ViewError(f"a view is a SQLite file or a PostgreSQL database, and {backend} is neither: give a path, or postgresql://…")
    return url.set(drivername=DRIVERS.get(url.drivername, url.drivername))


def _tables(prefix: str) -> tuple[sql.Table, sql.Table]:
    """The rows, and the next offsets of the partitions that they come from."""
    known = sql.MetaData()
    rows = sql.Table(
        prefix + "rows",
        known,
        sql.Column("topic", sql.Text, primary_key=True),
        sql.Column("key", sql.LargeBinary, primary_key=True),
        sql.Column("value", sql.LargeBinary, nullable=False),
        sql.Column("timestamp", sql.BigInteger, nullable=False),
        sql.Column("partition", sql.Integer, nullable=False),
        sql.Column("offset", sql.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    positions = sql.Table(
        prefix + "positions",
        known,
        sql.Column("topic", sql.Text, primary_key=True),
        sql.Column("partition", sql.Integer, primary_key=True),
        sql.Column("offset", sql.BigInteger, nullable=False),
    )
    return rows, positions


@contextmanager
def _in_words() -> Iterator[None]:
    """The database's errors as ViewError.  An address is never told, since it may have a password."""
    try:
        yield
    except (sql.exc.SQLAlchemyError, ModuleNotFoundError) as error:
        raise ViewError(f"the view's database: {str(getattr(error, 'orig', None) or error).strip()}") from error
