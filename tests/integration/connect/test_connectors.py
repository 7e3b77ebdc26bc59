"""Connectors that speak to another cluster and to a web server; the tests drive their tasks directly."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from moldau.clients.admin import Admin, NewTopic
from moldau.clients.producer import Producer
from moldau.connect import data
from moldau.connect.connectors.http import HttpSinkTask
from moldau.connect.connectors.mirror import TopicMirror, TopicMirrorTask
from moldau.connect.data import Record
from moldau.connect.errors import ConnectError, RetriableError
from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


class Nothing:
    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None


class From:
    """Offsets of a source: everything was read up to this one."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"offset": self._offset}


async def mirrored(task: TopicMirrorTask, count: int) -> list[Record]:
    found: list[Record] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await task.poll()
    return found


async def test_a_mirror_copies_keys_headers_times_and_partitions() -> None:
    config = {"topics": "orders", "source.cluster.alias": "west"}
    async with BrokerProcess() as broker:
        config["source.cluster.bootstrap.servers"] = broker.bootstrap
        async with Admin(broker.bootstrap) as admin:
            await admin.topics.create([NewTopic("orders", 2, 1)])
        async with Producer(broker.bootstrap) as producer:
            for number in range(10):
                headers = [("h", b"x"), ("none", None)]
                producer.send("orders", b"%d" % number, key=b"k", partition=number % 2, headers=headers, timestamp_ms=1000 + number)
        found: list[Record] = []
        for one in TopicMirror().task_configs(config, 2):
            task = TopicMirrorTask()
            await task.start(one, Nothing())
            found += await mirrored(task, 5)
            await task.stop()
        assert sorted((record.value, record.partition, record.timestamp) for record in found) == [
            (b"%d" % number, number % 2, 1000 + number) for number in range(10)
        ]
        assert {(record.topic, record.key) for record in found} == {("west.orders", b"k")}
        assert [(header.key, header.value) for header in found[0].headers] == [("h", b"x"), ("none", None)]
        task = TopicMirrorTask()
        await task.start(config, From(4))
        assert sorted(record.value for record in await mirrored(task, 2)) == [b"8", b"9"]
        await task.stop()


class Web(BaseHTTPRequestHandler):
    """Answers with the codes in `answers`, then with 200."""

    answers: ClassVar[list[int]] = []
    seen: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.answers.pop(0) if self.answers else 200
        if code == 200:
            self.seen.append((self.headers["Idempotency-Key"], body))
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def web() -> Iterator[str]:
    Web.answers.clear()
    Web.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/in"
        server.shutdown()
        thread.join()


RECORDS = [
    Record("t", 0, value_schema=data.STRING, value="text", offset=0, position=("t", 0, 0)),
    Record("t", 0, value={"n": 1}, offset=1, position=("t", 0, 1)),
    Record("t", 0, value=None, offset=2, position=("t", 0, 2)),
    Record("t", 0, value=b"\x00", offset=3, position=("t", 0, 3)),
]
EXPECTED = [("t-0-0", b"text"), ("t-0-1", b'{"n":1}'), ("t-0-3", b"\x00")]


async def test_values_are_posted_in_order_and_again_what_the_server_could_not_take(web: str) -> None:
    task = HttpSinkTask()
    await task.start({"http.url": web})
    Web.answers += [200, 503]
    with pytest.raises(RetriableError, match="answers 503"):
        await task.put(RECORDS)
    await task.put(RECORDS)
    await task.stop()
    assert Web.seen == EXPECTED


async def test_what_the_server_refuses_fails_the_task(web: str) -> None:
    task = HttpSinkTask()
    await task.start({"http.url": web})
    Web.answers += [400]
    with pytest.raises(ConnectError, match="refuses offset 0 of t: 400"):
        await task.put(RECORDS)
    await task.stop()
