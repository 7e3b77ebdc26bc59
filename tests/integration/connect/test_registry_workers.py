"""Rows go through topics as Avro, JSON Schema and Protobuf, in a whole worker with a registry that is away in between."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from moldau.testing.process import BrokerProcess
from proof.connect.own_worker import WorkerProcess
from proof.connect.registry import SchemaRegistry
from tests.integration.connect.test_workers import put, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
CONVERTERS = {
    "avro": "io.confluent.connect.avro.AvroConverter",
    "json": "io.confluent.connect.json.JsonSchemaConverter",
    "protobuf": "io.confluent.connect.protobuf.ProtobufConverter",
}
JDBC = "io.confluent.connect.jdbc.Jdbc"
ROWS = [(1, "one", 0.5, b"\x00\xff"), (2, None, -1e300, b""), (3, "ü", 0.0, None)]


def rows_of(path: Path, table: str) -> list[Any]:
    """No rows while there is no table yet."""
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection, contextlib.suppress(sqlite3.OperationalError):
        return connection.execute(f"SELECT id, name, ratio, raw FROM {table} ORDER BY id").fetchall()
    return []


def test_rows_come_through_each_converter_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, ratio DOUBLE NOT NULL, raw BLOB)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS[:2])
        connection.commit()
    with (
        SchemaRegistry() as registry,
        BrokerProcess() as broker,
        WorkerProcess(broker.bootstrap) as worker,
    ):
        registry.down = True
        for kind, name in CONVERTERS.items():
            converter = {
                "value.converter": name, "value.converter.schema.registry.url": registry.url, "errors.retry.timeout": "60000",
                **({"value.converter.optional.for.nullables": "true"} if kind == "protobuf" else {}),
            }  # fmt: skip
            source = {
                "connector.class": f"{JDBC}SourceConnector", "connection.url": f"jdbc:sqlite:{path}", "table.whitelist": "t",
                "mode": "incrementing", "poll.interval.ms": "200", "topic.prefix": f"{kind}-", **converter,
            }  # fmt: skip
            sink = {
                "connector.class": f"{JDBC}SinkConnector", "connection.url": f"jdbc:sqlite:{tmp_path / kind}", "topics": f"{kind}-t",
                "pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert", "auto.create": "true", "table.name.format": "t",
                **converter,
            }  # fmt: skip
            put(worker.url, f"from-{kind}", source)
            put(worker.url, f"to-{kind}", sink)
        until(lambda: len(registry.asked) > 0, "the registry is asked")
        registry.down = False
        for kind in CONVERTERS:
            until(lambda kind=kind: rows_of(tmp_path / kind, "t") == ROWS[:2], f"{kind}: two rows")
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
            connection.execute("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS[2])
            connection.commit()
        for kind in CONVERTERS:
            until(lambda kind=kind: rows_of(tmp_path / kind, "t") == ROWS, f"{kind}: three rows")
    assert sorted(registry.subjects) == ["avro-t-value", "json-t-value", "protobuf-t-value"]
