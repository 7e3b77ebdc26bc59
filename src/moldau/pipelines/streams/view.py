"""● A table kept beside the cluster, in a SQLite file, to be asked from outside: Spark has no interactive queries.

    with View("spent.db") as view:
        view.follow("localhost:9092", "spent-by-customer")        # what is new since last time
        view.get("spent-by-customer", b"anna")

The table is a compacted topic.  Rows and the offsets that they come from are written in one transaction of the database, so a view that is
killed goes on where it was and no row is older than its offsets say.  Deleting the file builds the view anew.
"""

import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from moldau.sync import Consumer
from moldau.types import TopicPartition

SCHEMA: Final = """
create table if not exists rows (
    topic text not null, key blob not null, value blob not null, timestamp integer not null, partition integer not null,
    "offset" integer not null, primary key (topic, key)) without rowid;
create table if not exists positions (
    topic text not null, partition integer not null, "offset" integer not null, primary key (topic, partition));
"""
POLL_S: Final = 0.5
WAIT_S: Final = 60.0
"""The longest wait for the end that the topic had when the view began to follow."""


class ViewError(Exception):
    """The view cannot be brought up to date; the message says why, and what to do."""


class Kept(NamedTuple):
    """A row of a view."""

    value: bytes
    timestamp: int
    partition: int
    offset: int


class View:
    """One SQLite file; several tables by the names of their topics.  Several processes may ask, one may follow."""

    def __init__(self, path: str | Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.executescript(SCHEMA)

    def get(self, topic: str, key: bytes) -> Kept | None:
        found = self._database.execute(
            'select value, timestamp, partition, "offset" from rows where topic = ? and key = ?', (topic, key)
        ).fetchone()
        return None if found is None else Kept(*found)

    def rows(self, topic: str) -> dict[bytes, bytes]:
        """All rows of a table."""
        return dict(self._database.execute("select key, value from rows where topic = ? order by key", (topic,)))

    def positions(self, topic: str) -> dict[int, int]:
        """The next offset of each partition."""
        return dict(self._database.execute('select partition, "offset" from positions where topic = ?', (topic,)))

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
                raise ViewError(f"{lost[0].topic}-{lost[0].partition} ends at {ends[lost[0]]}, and the view has more: delete its file")
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
        """Records without a key are no rows.  Positions pass the markers of transactions, which are no records."""
        with _transaction(self._database):
            for record in records:
                if record.key is None:
                    continue
                if record.value is None:
                    self._database.execute("delete from rows where topic = ? and key = ?", (topic, record.key))
                else:
                    row = (topic, record.key, record.value, record.timestamp, record.partition, record.offset)
                    self._database.execute("insert or replace into rows values (?, ?, ?, ?, ?, ?)", row)
            for one, offset in positions.items():
                self._database.execute("insert or replace into positions values (?, ?, ?)", (topic, one.partition, offset))
        return len(records)

    def _forget(self, topic: str, begins: Mapping[TopicPartition, int]) -> None:
        """Delete the rows that the topic itself no longer has, because it deletes old records."""
        with _transaction(self._database):
            for one, offset in begins.items():
                self._database.execute(
                    'delete from rows where topic = ? and partition = ? and "offset" < ?', (topic, one.partition, offset)
                )

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _transaction:
    """Write all changes of the block, or none."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("begin immediate")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._database.execute("commit" if kind is None else "rollback")
