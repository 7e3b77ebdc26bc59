"""Sources that poll: files that are rotated while they are read, and a web server."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from moldau.connect.connectors.connector import SourceTask
from moldau.connect.connectors.http_source import HttpSourceTask
from moldau.connect.connectors.logs.source import LogFilesTask
from moldau.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from moldau.connect.store.offsets import canonical

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


class Committed:
    """The offsets of the values that were taken."""

    def __init__(self) -> None:
        self.offsets: dict[str, Mapping[str, Any]] = {}

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.offsets.get(canonical(partition))

    async def take(self, task: SourceTask) -> list[Any]:
        """Values of one poll, with their offsets committed."""
        records = await task.poll()
        for one in records:
            assert one.source_partition is not None and one.source_offset is not None
            self.offsets[canonical(one.source_partition)] = dict(one.source_offset)
        return [one.value for one in records]

    async def take_all(self, task: SourceTask) -> list[Any]:
        """Values of many polls, until two in a row bring nothing."""
        found: list[Any] = []
        empty = 0
        while empty < 2:
            some = await self.take(task)
            found += some
            empty = 0 if some else empty + 1
        return found


async def following(committed: Committed, folder: Path, **more: str) -> LogFilesTask:
    task = LogFilesTask()
    await task.start({"paths": f"{folder}/*.log", "topic": "t", "poll.interval.ms": "1", "multiline.timeout.ms": "0", **more}, committed)
    return task


def write(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize("seed", range(4))
async def test_files_that_are_rotated_while_tasks_are_cut_off_are_read_once(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    committed = Committed()
    written: list[str] = []
    found: list[str] = []
    task = await following(committed, tmp_path, **{"batch.size": "17"})
    for step in range(150):
        name = random.choice(("a", "b"))
        path = tmp_path / f"{name}.log"
        choice = random.random()
        if choice < 0.6:
            lines = [f"{name} {step} {number}" for number in range(random.randrange(1, 30))]
            write(path, "".join(f"{line}\n" for line in lines))
            written += lines
        elif choice < 0.75 and path.exists():
            path.rename(tmp_path / f"{name}.log.{step}")
        elif choice < 0.85 and path.exists():  # as logrotate's copytruncate does, once all was read
            found += await committed.take_all(task)
            os.truncate(path, 0)
        elif choice < 0.93:
            task = await following(committed, tmp_path, **{"batch.size": "17"})
        found += await committed.take(task)
    found += await committed.take_all(task)
    assert sorted(found) == sorted(written)


async def test_events_of_several_lines_and_files_that_patterns_name_later(tmp_path: Path) -> None:
    committed = Committed()
    task = await following(committed, tmp_path, **{"multiline.start": r"^\d\d:", "multiline.timeout.ms": "60000"})
    write(tmp_path / "a.log", "10:00 one\n  at x\n10:01 two\n  at")
    write(tmp_path / "a.log.gz", "11:00 packed\n")
    assert await committed.take_all(task) == ["10:00 one\n  at x"]
    write(tmp_path / "a.log", " y\n10:02 three\n")
    assert await committed.take_all(task) == ["10:01 two\n  at y"]
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    assert await committed.take_all(task) == ["10:02 three"], "no line comes behind it in a file that was renamed"
    write(tmp_path / "b.log", "10:03 four\n10:04 five\n")
    assert await committed.take_all(task) == ["10:03 four"]


async def test_an_event_that_is_too_large_is_told(tmp_path: Path) -> None:
    task = await following(Committed(), tmp_path, **{"max.event.bytes": "10"})
    write(tmp_path / "a.log", "short\n" + "x" * 20 + "\n")
    assert [one.value for one in await task.poll()] == ["short"]
    with pytest.raises(ConnectError, match=r"a\.log: the event at byte 6 has more than 10 bytes: max\.event\.bytes"):
        await task.poll()
    with pytest.raises(ConfigError, match="paths"):
        await following(Committed(), Path("relative"))


class Orders(BaseHTTPRequestHandler):
    """`/orders?after=N` gives three orders at most, `/state` one object with an ETag.  The codes in `answers` come first."""

    orders: ClassVar[list[dict[str, Any]]] = []
    answers: ClassVar[list[int]] = []
    state: ClassVar[int] = 0

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        tag = f'"{Orders.state}"'
        if self.answers:
            self._answer(self.answers.pop(0), b"not now")
        elif url.path == "/orders":
            after = int(parse_qs(url.query)["after"][0])
            self._answer(200, json.dumps({"items": [one for one in self.orders if one["id"] >= after][:3]}).encode())
        elif self.headers["If-None-Match"] == tag:
            self._answer(304, b"")
        else:
            self._answer(200, json.dumps({"state": Orders.state}).encode(), tag)

    def _answer(self, code: int, body: bytes, tag: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def web() -> Iterator[str]:
    Orders.orders[:] = []
    Orders.answers.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Orders) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


async def asking(committed: Committed, url: str, **more: str) -> HttpSourceTask:
    task = HttpSourceTask()
    await task.start({"url": url, "topic": "t", "request.interval.ms": "1", **more}, committed)
    return task


async def test_objects_come_once_and_in_order_whenever_the_server_fails_or_the_task_begins_again(web: str) -> None:
    pointers = {"http.response.data.json.pointer": "/items", "http.offset.json.pointer": "/id", "http.key.json.pointer": "/id"}
    config = {**pointers, "http.initial.offset": "0"}
    committed = Committed()
    task = await asking(committed, f"{web}/orders?after=${{offset}}", **config)
    found: list[Any] = []
    for round_ in range(4):
        Orders.orders += [{"id": 10 * round_ + number + 1} for number in range(round_ + 2)]
        Orders.answers.append(503)
        with pytest.raises(RetriableError, match="answers 503"):
            await task.poll()
        found += await committed.take_all(task)
        await task.stop()
        task = await asking(committed, f"{web}/orders?after=${{offset}}", **config)
    await task.stop()
    assert found == Orders.orders


async def test_an_answer_that_has_not_changed_is_no_record(web: str) -> None:
    committed = Committed()
    task = await asking(committed, f"{web}/state")
    assert await committed.take_all(task) == [{"state": 0}]
    Orders.state = 1
    assert await committed.take_all(task) == [{"state": 1}]
    await task.stop()
    task = await asking(committed, f"{web}/state")
    assert await committed.take_all(task) == []
    Orders.answers.append(401)
    with pytest.raises(ConnectError, match="refuses: 401 not now"):
        await asyncio.wait_for(committed.take_all(task), 10)
    await task.stop()
    task = await asking(Committed(), f"{web}/state", **{"http.response.data.json.pointer": "/items/0"})
    with pytest.raises(DataError, match="there is no /items/0"):
        await task.poll()
    await task.stop()
