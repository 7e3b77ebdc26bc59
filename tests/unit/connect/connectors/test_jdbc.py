"""Tables are read by polling, and records are stored in tables: on SQLite, which is a file."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from moldau.connect import data
from moldau.connect.connectors.jdbc.database import address
from moldau.connect.connectors.jdbc.sink import JdbcSinkTask
from moldau.connect.connectors.jdbc.source import JdbcSourceTask
from moldau.connect.data import Record, Schema, Struct
from moldau.connect.errors import ConnectError
from moldau.types import TopicPartition

ROW = data.struct({"id": data.INT32, "name": data.OPTIONAL_STRING})
KEY = data.struct({"id": data.INT32})


class Committed:
    """The offsets that a source has committed, by table."""

    def __init__(self) -> None:
        self.offsets: dict[str, Mapping[str, Any]] = {}

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.offsets.get(partition["table"])

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            assert record.source_partition is not None and record.source_offset is not None
            self.offsets[record.source_partition["table"]] = record.source_offset


def execute(path: Path, *statements: str) -> list[Any]:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            found = connection.execute(statement).fetchall()
    connection.close()
    return found


def url(path: Path) -> dict[str, str]:
    return {"connection.url": f"jdbc:sqlite:{path}", "name": "c"}


async def polled(path: Path, committed: Committed, **options: str) -> list[Record]:
    task = JdbcSourceTask()
    await task.start({**url(path), "table.whitelist": "t", "topic.prefix": "db-", "poll.interval.ms": "1", **options}, committed)
    try:
        records = list(await task.poll())
        committed.take(records)
        return records
    finally:
        await task.stop()


async def test_new_rows_are_read_once_by_their_number(tmp_path: Path) -> None:
    path, committed = tmp_path / "db", Committed()
    execute(path, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'one'), (2, NULL)")
    first = await polled(path, committed, mode="incrementing")
    assert [(record.topic, record.value.values) for record in first] == [
        ("db-t", {"id": 1, "name": "one"}),
        ("db-t", {"id": 2, "name": None}),
    ]
    assert first[-1].source_offset == {"incrementing": 2}
    assert await polled(path, committed, mode="incrementing") == []
    execute(path, "INSERT INTO t VALUES (7, 'seven')")
    assert [record.value.values["id"] for record in await polled(path, committed, mode="incrementing")] == [7]


async def test_changed_rows_are_read_by_their_time_and_number(tmp_path: Path) -> None:
    path, committed = tmp_path / "db", Committed()
    rows = "(1, '2024-01-01 00:00:00.000000'), (2, '2024-01-01 00:00:00.000000'), (3, NULL)"
    execute(path, "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME)", f"INSERT INTO t VALUES {rows}")
    options = {"mode": "timestamp+incrementing", "timestamp.column.name": "at", "batch.max.rows": "1"}
    assert [record.value.values["id"] for record in await polled(path, committed, **options)] == [1]
    assert [record.value.values["id"] for record in await polled(path, committed, **options)] == [2], "both have the same time"
    execute(path, "UPDATE t SET at = '2024-01-02 00:00:00.250000' WHERE id = 1")
    changed = await polled(path, committed, **options)
    assert [record.source_offset for record in changed] == [{"timestamp": 1704153600250, "timestamp_nanos": 250_000_000, "incrementing": 1}]
    assert await polled(path, committed, **options) == []


async def test_a_column_that_is_not_there_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    execute(tmp_path / "db", "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    with pytest.raises(ConnectError, match=r"timestamp\.column\.name: table t has no such column"):
        await polled(tmp_path / "db", Committed(), mode="timestamp", **{"timestamp.column.name": "at"})


def record(offset: int, value: dict[str, Any] | None, schema: Schema = ROW, *, key: int = 1) -> Record:
    struct = None if value is None else Struct(schema, value)
    return Record("t", 0, KEY, Struct(KEY, {"id": key}), schema, struct, offset=offset, position=("t", 0, offset))


async def sink(path: Path, *batches: list[Record], **options: str) -> dict[TopicPartition, int]:
    """Returns where reading would begin after these batches were put."""
    task = JdbcSinkTask()
    await task.start({**url(path), "insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true", **options})
    try:
        for batch in batches:
            await task.put(batch)
        return dict(await task.open([TopicPartition("t", 0)]))
    finally:
        await task.stop()


async def test_records_become_rows_change_and_go(tmp_path: Path) -> None:
    path = tmp_path / "db"
    await sink(path, [record(0, {"id": 1, "name": "a"}), record(1, {"id": 2, "name": "b"}, key=2)])
    await sink(path, [record(2, {"id": 1, "name": "c"}), record(3, None, key=2)], **{"delete.enabled": "true"})
    assert execute(path, "SELECT id, name FROM t") == [(1, "c")]


async def test_with_a_table_of_offsets_rows_and_offset_are_one_transaction(tmp_path: Path) -> None:
    path, options = tmp_path / "db", {"offsets.table": "offsets", "insert.mode": "insert"}
    assert await sink(path, [record(0, {"id": 1, "name": "a"})], **options) == {TopicPartition("t", 0): 1}
    with pytest.raises(ConnectError):
        await sink(path, [record(1, {"id": 2, "name": "b"}, key=2), record(2, {"id": 1, "name": "again"})], **options)
    assert execute(path, "SELECT id FROM t") == [(1,)]
    assert await sink(path, **options) == {TopicPartition("t", 0): 1}


async def test_a_table_grows_columns_only_when_it_may(tmp_path: Path) -> None:
    path = tmp_path / "db"
    wider = data.struct({"id": data.INT32, "name": data.OPTIONAL_STRING, "price": Schema(data.Type.FLOAT64, optional=True)})
    await sink(path, [record(0, {"id": 1, "name": "a"})])
    with pytest.raises(ConnectError, match=r"no column price: add it, or set auto\.evolve=true"):
        await sink(path, [record(1, {"id": 1, "name": "a", "price": 1.5}, wider)])
    await sink(path, [record(1, {"id": 1, "name": "a", "price": 1.5}, wider)], **{"auto.evolve": "true"})
    assert execute(path, "SELECT id, name, price FROM t") == [(1, "a", 1.5)]


async def test_a_tombstone_is_an_error_unless_it_may_delete(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"delete\.enabled=true"):
        await sink(tmp_path / "db", [record(0, None)])


async def test_records_that_are_no_rows_are_reported_and_the_others_stored_with_the_offset_behind_all(tmp_path: Path) -> None:
    path, reported = tmp_path / "db", list[int | None]()
    task = JdbcSinkTask()
    task.report = lambda record, _: reported.append(record.offset)
    await task.start({**url(path), "insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true", "offsets.table": "o"})
    plain = Record("t", 0, KEY, Struct(KEY, {"id": 2}), None, "no struct", offset=1, position=("t", 0, 1))
    await task.put([record(0, {"id": 1, "name": "a"}), plain, record(2, None)])
    assert (reported, await task.open([TopicPartition("t", 0)])) == ([1, 2], {TopicPartition("t", 0): 3})
    await task.stop()
    assert execute(path, "SELECT id, name FROM t") == [(1, "a")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("jdbc:sqlite:/x/y.db", "sqlite:////x/y.db"),
        ("jdbc:postgresql://h:5432/d?user=u&password=p", "postgresql+psycopg://u:***@h:5432/d"),
        ("mysql+pymysql://u@h/d", "mysql+pymysql://u@h/d"),
    ],
)
def test_addresses_of_jdbc_and_of_sqlalchemy_are_taken(given: str, expected: str) -> None:
    assert str(address({"connection.url": given, "connection.user": None, "connection.password": None})) == expected
