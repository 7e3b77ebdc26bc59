"""Workers as processes: they share connectors, one is killed and another goes on, one takes over a Kafka worker's connectors."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from kafka_connect import KafkaConnect

from moldau.clients.consumer import Consumer
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition
from proof.connect.java_worker import JavaWorker
from proof.connect.own_worker import WorkerProcess
from proof.kafka.apache import ApacheKafka

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WITHIN_S = 60.0
SOON = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "500"}
STRINGS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
PLAIN_JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
LINES = 3000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties={"num.partitions": "2", "group.min.session.timeout.ms": "1000"}) as process:
        yield process


def cluster_of(name: str, **more: str) -> dict[str, str]:
    """Properties of workers that have topics and a group of their own."""
    topics = {f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")}
    return {"group.id": name, **topics, **SOON, **more}


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WITHIN_S
    last: object = None
    while time.monotonic() < deadline:
        try:
            if last := holds():
                return last
        except (httpx.HTTPError, LookupError) as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"{what} within {WITHIN_S:.0f} s; last: {last}")


def running_on(url: str, name: str) -> set[str]:
    """Workers that run a connector's tasks, once all of it runs."""
    status = httpx.get(f"{url}/connectors/{name}/status").json()
    parts = [status["connector"], *status["tasks"]]
    return {one["worker_id"] for one in status["tasks"]} if len(parts) > 1 and all(one["state"] == "RUNNING" for one in parts) else set()


def put(url: str, name: str, config: dict[str, str]) -> None:
    assert httpx.put(f"{url}/connectors/{name}/config", json=config, timeout=60).status_code in (200, 201)


def values_of(bootstrap: str, topic: str, **options: str) -> list[str]:
    """All values that the topic holds now, partition by partition."""

    async def read() -> list[str]:
        async with Consumer(bootstrap, options=options) as consumer:
            partitions = [TopicPartition(topic, index) for index in await consumer.partitions_for(topic)]
            ends = await consumer.end_offsets(partitions)
            await consumer.assign(dict.fromkeys(partitions, 0))
            found: list[str] = []
            while any(consumer.positions.get(one, 0) < end for one, end in ends.items()):
                for records in await consumer.poll(1.0):
                    found += [value.decode() for value in records.raw_values if value is not None]
            return found

    return asyncio.run(read())


def source(path: Path, topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(path), "topic": topic, "batch.size": "50", **STRINGS, **more}


def test_two_workers_share_connectors_and_one_goes_on_when_the_other_is_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    names = ["a", "b", "c", "d"]
    properties = cluster_of("shared")
    with WorkerProcess(broker.bootstrap, properties=properties) as one, WorkerProcess(broker.bootstrap, properties=properties) as other:
        for name in names:
            (tmp_path / name).write_text("".join(f"{name} {number}\n" for number in range(LINES)), encoding="utf-8")
            put(other.url, name, source(tmp_path / name, f"shared-{name}"))
        until(
            lambda: set().union(*(running_on(one.url, name) for name in names)) == {f"127.0.0.1:{one.port}", f"127.0.0.1:{other.port}"},
            "both work",
        )
        other.kill()
        for name in names:
            with (tmp_path / name).open("a", encoding="utf-8") as file:
                file.write(f"{name} last\n")
        until(lambda: all(running_on(one.url, name) == {f"127.0.0.1:{one.port}"} for name in names), "the one that is left runs all")
        for name in names:
            expected = [f"{name} {number}" for number in range(LINES)] + [f"{name} last"]
            until(lambda name=name: f"{name} last" in values_of(broker.bootstrap, f"shared-{name}"), f"the last line of {name}")
            assert sorted(set(values_of(broker.bootstrap, f"shared-{name}"))) == sorted(expected)


def test_a_source_with_transactions_writes_each_line_once_whenever_it_is_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    properties = cluster_of("once", **{"exactly.once.source.support": "enabled"})
    path = tmp_path / "in"
    path.write_text("", encoding="utf-8")

    def committed() -> list[str]:
        return values_of(broker.bootstrap, "once-lines", **{"isolation.level": "read_committed"})

    expected: list[str] = []
    with WorkerProcess(broker.bootstrap, properties=properties) as worker:
        put(worker.url, "f", source(path, "once-lines", **{"batch.size": "7"}))
        for round_ in range(3):
            seen = len(expected)
            lines = [f"{round_} {number}" for number in range(LINES)]
            with path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
            until(lambda seen=seen: len(committed()) > seen, "it works")
            worker.kill()
            worker.start()
            expected += lines
        until(lambda: len(committed()) >= len(expected), "all lines")
        assert sorted(committed()) == sorted(expected)


def test_a_sink_goes_on_behind_what_it_has_written(broker: BrokerProcess, tmp_path: Path) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_text("".join(f"{number}\n" for number in range(LINES)), encoding="utf-8")
    with WorkerProcess(broker.bootstrap, properties=cluster_of("sinks")) as worker:
        put(worker.url, "in", source(path, "sink-lines"))
        put(worker.url, "out", {"connector.class": "FileStreamSink", "topics": "sink-lines", "file": str(out), "tasks.max": "2", **STRINGS})
        until(lambda: out.exists() and len(out.read_text().splitlines()) >= LINES, "all lines come out")
        worker.stop()
        with path.open("a", encoding="utf-8") as file:
            file.write("last\n")
        worker.start()
        until(lambda: "last" in out.read_text().splitlines(), "the last line")
        assert sorted(out.read_text().splitlines()) == sorted([*map(str, range(LINES)), "last"]), "an orderly stop repeats nothing"


def test_bad_records_go_to_the_dead_letter_topic_with_kafkas_headers(broker: BrokerProcess, tmp_path: Path) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_text('{"n": 1}\nnot json\n{"n": 2}\n', encoding="utf-8")
    with WorkerProcess(broker.bootstrap, properties=cluster_of("dead")) as worker:
        put(worker.url, "in", source(path, "dead-in"))
        sink = {"connector.class": "FileStreamSink", "topics": "dead-in", "file": str(out), **PLAIN_JSON}
        put(worker.url, "strict", sink)
        until(lambda: httpx.get(f"{worker.url}/connectors/strict/status").json()["tasks"][0]["state"] == "FAILED", "it fails")
        trace = httpx.get(f"{worker.url}/connectors/strict/status").json()["tasks"][0]["trace"]
        assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler")
        letters = {
            f"errors.deadletterqueue.{key}": value for key, value in {"topic.name": "letters", "context.headers.enable": "true"}.items()
        }
        more = {"errors.tolerance": "all", "errors.deadletterqueue.topic.replication.factor": "1", **letters}
        put(worker.url, "strict", {**sink, **more})
        until(lambda: out.exists() and sorted(out.read_text().splitlines()) == ["{n=1}", "{n=2}"], "good records go on")
        headers = asyncio.run(_first_headers(broker.bootstrap, "letters"))
        assert headers["__connect.errors.topic"] == b"dead-in"
        assert headers["__connect.errors.offset"] in (b"0", b"1", b"2")
        assert headers["__connect.errors.connector.name"] == b"strict"
        assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
        assert headers["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"


def rows_of(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT id, name FROM t ORDER BY id").fetchall()


def test_a_table_is_copied_row_by_row_whenever_the_worker_is_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    path, copy = tmp_path / "db", tmp_path / "copy"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, f"row {number}") for number in range(LINES)])
        connection.commit()
    jdbc = "io.confluent.connect.jdbc.Jdbc"
    mode = {"mode": "incrementing", "poll.interval.ms": "100", "topic.prefix": "rows-"}
    stored = {"insert.mode": "insert", "auto.create": "true", "offsets.table": "offsets", "table.name.format": "t"}
    committed = {"consumer.override.isolation.level": "read_committed", "consumer.override.session.timeout.ms": "6000"}
    properties = cluster_of("tables", **{"exactly.once.source.support": "enabled"})
    with WorkerProcess(broker.bootstrap, properties=properties) as worker:
        source_config = {
            "connector.class": f"{jdbc}SourceConnector",
            "connection.url": f"jdbc:sqlite:{path}",
            "table.whitelist": "t",
            **mode,
        }
        sink_config = {
            "connector.class": f"{jdbc}SinkConnector",
            "connection.url": f"jdbc:sqlite:{copy}",
            "topics": "rows-t",
            **stored,
            **committed,
        }
        put(worker.url, "from", source_config)
        put(worker.url, "to", sink_config)
        for least in (1, LINES // 2):
            until(lambda least=least: copy.exists() and len(rows_of_or_none(copy)) >= least, f"{least} rows are copied")
            worker.kill()
            worker.start()
        until(lambda: len(rows_of_or_none(copy)) >= LINES, "all rows are copied")
        assert rows_of(copy) == rows_of(path)


def rows_of_or_none(path: Path) -> list[Any]:
    """No rows while there is no table yet."""
    try:
        return rows_of(path)
    except sqlite3.OperationalError:
        return []


async def _first_headers(bootstrap: str, topic: str) -> dict[str, bytes | None]:
    async with Consumer(bootstrap) as consumer:
        await consumer.assign({TopicPartition(topic, 0): 0})
        while True:
            for records in await consumer.poll(1.0):
                for record in records:
                    assert record.value == b"not json"
                    return dict(record.headers)


def test_a_stock_client_manages_connectors(broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("one\n", encoding="utf-8")
    with WorkerProcess(broker.bootstrap, properties=cluster_of("stock")) as worker:
        client = KafkaConnect(url=worker.url)
        client.update_connector("lines", source(path, "stock-lines"))
        until(lambda: running_on(worker.url, "lines"), "it runs")
        assert list(client.list_connectors(expand="status")["lines"]) == ["status"]
        assert client.get_connector_config("lines")["topic"] == "stock-lines"
        client.pause_connector("lines")
        until(lambda: client.get_connector_status("lines")["tasks"][0]["state"] == "PAUSED", "it pauses")
        client.resume_connector("lines")
        until(lambda: client.get_connector_task_status("lines", 0)["state"] == "RUNNING", "it goes on")
        client.restart_connector("lines", include_tasks=True)
        until(lambda: running_on(worker.url, "lines"), "it runs again")
        assert client.validate_connector_config("FileStreamSource", source(path, ""))["error_count"] == 2
        client.delete_connector("lines")
        until(lambda: client.list_connectors() == [], "it is gone")


@pytest.mark.java
def test_what_kafkas_worker_left_is_taken_over_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("one\ntwo\n", encoding="utf-8")
    with ApacheKafka() as kafka:
        with JavaWorker(kafka.bootstrap) as java:
            put(java.url, "lines", source(path, "lines"))
            put(java.url, "idle", source(path, "idle-lines"))
            assert httpx.put(f"{java.url}/connectors/idle/stop").status_code == 204
            until(lambda: "position" in httpx.get(f"{java.url}/connectors/lines/offsets").text, "the offset is committed")
            described = httpx.get(f"{java.url}/connectors?expand=info").json()
        path.write_text("one\ntwo\nthree\n", encoding="utf-8")
        with WorkerProcess(kafka.bootstrap) as own:
            until(lambda: running_on(own.url, "lines"), "ours runs it")
            assert httpx.get(f"{own.url}/connectors?expand=info").json() == described
            assert httpx.get(f"{own.url}/connectors/idle/status").json()["connector"]["state"] == "STOPPED"
            until(lambda: len(values_of(kafka.bootstrap, "lines")) >= 3, "the third line")
            until(lambda: httpx.get(f"{own.url}/connectors/lines/offsets").json()["offsets"][0]["offset"] == {"position": 14}, "the offset")
            own.stop()
        path.write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")
        with JavaWorker(kafka.bootstrap) as java:
            until(lambda: len(values_of(kafka.bootstrap, "lines")) >= 4, "the fourth line")
            assert values_of(kafka.bootstrap, "lines") == ["one", "two", "three", "four"]
