"""● A worker of ours with one connector: it is killed and started again, and its records are read from the topics."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import httpx

from moldau.clients.admin import Admin
from moldau.clients.consumer import Consumer
from moldau.types import TopicPartition
from proof.connect.debezium.records import Records
from proof.connect.own_worker import WorkerProcess

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
WITHIN_S: Final = 300.0
LOOK_S: Final = 0.05
PROPERTIES: Final = {
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "header.converter": JSON,
    "header.converter.schemas.enable": "true",
    "value.converter.replace.null.with.default": "false",
    "key.converter.replace.null.with.default": "false",
}


class Killed:
    """`with` starts the worker, and makes the connector; leaving kills the worker."""

    def __init__(self, bootstrap: str, name: str, config: Mapping[str, str]) -> None:
        topics = {f"{kind}.storage.topic": f"{kind}-{name}" for kind in ("config", "offset", "status")}
        self._worker = WorkerProcess(bootstrap, properties={**PROPERTIES, **topics, "group.id": name})
        self._url = f"{self._worker.url}/connectors/{name}"
        self._config = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "poll.interval.ms": "20", **config}

    def __enter__(self) -> "Killed":
        self._worker.__enter__()
        self._until(lambda: httpx.put(f"{self._url}/config", json=self._config, timeout=60).is_success, "the connector is made")
        return self

    def __exit__(self, *error: Any) -> None:
        self._worker.__exit__(None, None, None)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        """Errors: AssertionError."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except httpx.HTTPError:
                pass  # the worker starts
            time.sleep(LOOK_S)
        raise AssertionError(f"not within {WITHIN_S:.0f} s: {what}\n{self._worker.log_text[-3000:]}")

    def read_snapshot(self) -> None:
        """Wait until the snapshot is committed."""
        self._until(lambda: "snapshot_seen" in httpx.get(f"{self._url}/offsets", timeout=60).text, "the snapshot is read")

    def kill(self) -> None:
        self._worker.kill()

    def start(self) -> None:
        """Start the worker, if it is down."""
        if self._worker.process is None:
            self._worker.start()


async def committed(bootstrap: str, prefix: str, end: str) -> Records:
    """The committed records of all topics that begin so, once the first of the topic `end` is there."""
    found = Records()
    numbers: dict[str, int] = {}

    def numbered(data: bytes | None) -> Any:
        if data is None:
            return None
        tree = json.loads(data)
        number = numbers.setdefault(json.dumps(tree["schema"]), len(numbers))
        found.schemas.setdefault(number, tree["schema"])
        return {"schema": number, "payload": tree["payload"]}

    async with Admin(bootstrap) as admin:
        deadline = time.monotonic() + WITHIN_S
        topics: list[str] = []
        while end not in topics or not [one async for one in _records(bootstrap, end)]:
            assert time.monotonic() < deadline, f"the end of the story was not told within {WITHIN_S:.0f} s"
            await asyncio.sleep(LOOK_S)
            topics = [one.name or "" for one in await admin.topics.list()]
    for topic in (one for one in topics if one.startswith(f"{prefix}.")):
        async for record in _records(bootstrap, topic):
            headers = {key: numbered(value) for key, value in record.headers}
            shown = {"topic": topic, "key": numbered(record.key), "value": numbered(record.value), "headers": headers}
            found.add(topic, json.dumps(shown))
    return found


async def _records(bootstrap: str, topic: str) -> AsyncIterator[Any]:
    """The committed records.  An open transaction is waited for: the markers of one reach the topics one after another."""
    partition = TopicPartition(topic, 0)
    async with Consumer(bootstrap) as uncommitted:
        end = (await uncommitted.end_offsets([partition]))[partition]
    async with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        await consumer.assign({partition: 0})
        while consumer.positions.get(partition, 0) < end:
            for batch in await consumer.poll(1.0):
                for one in batch:
                    yield one
