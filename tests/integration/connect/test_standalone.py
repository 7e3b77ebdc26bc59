"""Workers alone: connectors from files, offsets in a file, which Kafka's worker and ours leave to each other."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moldau.clients.consumer import Consumer
from moldau.connect.store.java_map import decode
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition
from proof.connect.java_worker import JavaWorker
from proof.connect.own_worker import WorkerProcess
from proof.connect.worker import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WITHIN_S = 60.0
STRINGS = "value.converter=org.apache.kafka.connect.storage.StringConverter\n"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as process:
        yield process


def source(path: Path, topic: str) -> str:
    return f"name=in\nconnector.class=FileStreamSource\nfile={path}\ntopic={topic}\n{STRINGS}"


def sink(path: Path, topic: str) -> str:
    return f"name=out\nconnector.class=FileStreamSink\nfile={path}\ntopics={topic}\n{STRINGS}"


def until(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, f"{what} within {WITHIN_S:.0f} s"
        time.sleep(0.1)


def position(worker: Worker) -> int:
    """How far the source has come, as its file of offsets says."""
    path = Path(worker.properties["offset.storage.file.filename"])
    try:
        offsets = [value for _, value in decode(path.read_bytes())]
    except (FileNotFoundError, ValueError):  # Java's worker writes over its file, which is cut off meanwhile
        return 0
    return int(offsets[0].partition(b":")[2].rstrip(b"}")) if offsets and offsets[0] is not None else 0


def values_of(bootstrap: str, topic: str) -> list[str]:
    async def read() -> list[str]:
        async with Consumer(bootstrap) as consumer:
            partitions = [TopicPartition(topic, 0)]
            (end,) = (await consumer.end_offsets(partitions)).values()
            await consumer.assign(dict.fromkeys(partitions, 0))
            found: list[str] = []
            while len(found) < end:
                for records in await consumer.poll(1.0):
                    found += [value.decode() for value in records.raw_values if value is not None]
            return found

    return asyncio.run(read())


def test_a_worker_alone_is_healthy_once_all_connectors_of_its_files_exist(broker: BrokerProcess, tmp_path: Path) -> None:
    files = {f"{number}.properties": source(tmp_path / "none", "many").replace("=in", f"=in-{number}", 1) for number in range(40)}
    with WorkerProcess(broker.bootstrap, connectors=files) as worker:
        assert len(httpx.get(f"{worker.url}/connectors", timeout=10).json()) == len(files)


def test_a_worker_alone_runs_the_connectors_of_its_files_and_goes_on_where_it_was(broker: BrokerProcess, tmp_path: Path) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_text("one\ntwo\n", encoding="utf-8")
    files = {"in.properties": source(path, "alone"), "out.properties": sink(out, "alone")}
    with WorkerProcess(broker.bootstrap, connectors=files) as worker:
        until(lambda: out.exists() and out.read_text().splitlines() == ["one", "two"], "both lines")
        until(lambda: position(worker) == 8, "the offset is in the file")
        worker.kill()
        path.write_text("one\ntwo\nthree\n", encoding="utf-8")
        worker.start()
        until(lambda: position(worker) == 14, "the worker goes on behind the offset")
        assert values_of(broker.bootstrap, "alone") == ["one", "two", "three"]
        assert sorted(httpx.get(f"{worker.url}/connectors").json()) == ["in", "out"]


def test_the_answer_to_a_new_connector_names_its_tasks(broker: BrokerProcess, tmp_path: Path) -> None:
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "named"}
    with WorkerProcess(broker.bootstrap, connectors={}) as worker:
        made = httpx.post(f"{worker.url}/connectors", json={"name": "c", "config": config})
        assert (made.status_code, made.json()["tasks"]) == (201, [{"connector": "c", "task": 0}])
        assert httpx.put(f"{worker.url}/connectors/c/stop").status_code == 204
        assert httpx.get(f"{worker.url}/connectors/c").json()["tasks"] == []
        where = {"filename": str(tmp_path / "in")}
        changed = httpx.patch(f"{worker.url}/connectors/c/offsets", json={"offsets": [{"partition": where, "offset": {"position": 5}}]})
        assert changed.status_code == 200
        assert position(worker) == 5


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("connector.class=FileStreamSource\n", "the name of the connector is missing"), ("name=x\nconnector.class=Nope\n", "Failed to find")],
)
def test_a_connector_that_cannot_be_created_ends_the_worker(broker: BrokerProcess, tmp_path: Path, text: str, wrong: str) -> None:
    worker = WorkerProcess(broker.bootstrap, connectors={"wrong.properties": text})
    worker.prepare()
    try:
        command = [sys.executable, "-m", "moldau.tools.cli.main", "connect-standalone", *worker.files()]
        ended = subprocess.run(command, env=worker.environment(), capture_output=True, text=True, timeout=60, check=False)
    finally:
        worker.__exit__(None, None, None)
    assert ended.returncode == 3, ended.stderr
    assert "wrong.properties" in ended.stderr
    assert wrong in ended.stderr


@pytest.mark.java
def test_kafkas_worker_and_ours_go_on_with_each_others_file(broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("", encoding="utf-8")
    offsets = {"offset.storage.file.filename": str(tmp_path / "offsets")}
    files = {"in.properties": source(path, "both")}
    expected: list[str] = []
    kinds: list[type[Worker]] = [JavaWorker, WorkerProcess, JavaWorker, WorkerProcess]
    for number, kind in enumerate(kinds):
        with path.open("a", encoding="utf-8") as file:
            file.write(f"line {number}\n")
        expected.append(f"line {number}")
        with kind(broker.bootstrap, properties=offsets, connectors=files) as worker:
            until(lambda worker=worker: position(worker) == 7 * len(expected), f"{kind.__name__} reads on")
            worker.stop()
        assert values_of(broker.bootstrap, "both") == expected
