"""A real OpenSearch 2.19.1: the index ends equal to the topic, whatever comes again, is killed or is refused."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import httpx
import pytest

from moldau.clients.consumer import Consumer
from moldau.clients.producer import Producer
from moldau.connect.connectors.search.sink import SearchSinkTask
from moldau.connect.data import Record
from moldau.connect.errors import ConnectError, RetriableError
from moldau.testing.process import BrokerProcess
from moldau.types import TopicPartition
from proof.connect.opensearch import OpenSearch
from proof.connect.own_worker import WorkerProcess
from proof.metadata.oracle import javac
from tests.integration.connect.test_workers import PLAIN_JSON, cluster_of, put, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.skipif(javac() is None, reason="there is no javac to compile OpenSearch's starter with"),
]
DELETES = {"behavior.on.null.values": "delete"}
SINK = {
    "connector.class": "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    **PLAIN_JSON,
    **DELETES,
}


@pytest.fixture(scope="module")
def search() -> Iterator[OpenSearch]:
    with OpenSearch() as process:
        yield process


def documents(search: OpenSearch, index: str) -> dict[str, Any]:
    """The documents of an index, by id."""
    httpx.post(f"{search.url}/{index}/_refresh", timeout=30)
    found = httpx.get(f"{search.url}/{index}/_search?size=10000", timeout=30).json()
    return {one["_id"]: one["_source"] for one in found["hits"]["hits"]}


def told(index: str, offset: int, key: str, value: Any) -> Record:
    return Record(index, 0, key=key, value=value, offset=offset, position=(index, 0, offset))


def story(seed: int, index: str, steps: int) -> tuple[list[Record], dict[str, Any]]:
    """Records of few keys, a third of them deletions, and what they add up to."""
    random = Random(seed)
    records, truth = [], {}
    for offset in range(steps):
        key = f"k{random.randrange(40)}"
        value = None if random.random() < 0.33 else {"n": offset, "word": random.choice(("red", "green"))}
        records.append(told(index, offset, key, value))
        if value is None:
            truth.pop(key, None)
        else:
            truth[key] = value
    return records, truth


async def started(search: OpenSearch, **options: str) -> SearchSinkTask:
    task = SearchSinkTask()
    await task.start({"connection.url": search.url, "retry.backoff.ms": "1", **options})
    return task


async def test_whatever_comes_again_or_too_late_the_index_ends_as_the_topic(search: OpenSearch) -> None:
    random = Random(1)
    records, truth = story(2, "story", 400)
    at = 0
    while at < len(records):
        task = await started(search, **DELETES, **{"batch.size": str(random.randrange(1, 60))})
        for _ in range(random.randrange(1, 4)):
            size = random.randrange(1, 90)
            await task.put(records[at : at + size])
            at += size
        await task.stop()
        at = at if at >= len(records) else max(0, at - random.randrange(150))  # the next task begins at the last commit
    assert documents(search, "story") == truth
    late = await started(search, **DELETES)
    await late.put([told("story", 0, key, {"n": -1}) for key in truth])
    await late.stop()
    assert documents(search, "story") == truth


async def test_what_the_index_refuses_fails_or_is_reported_and_the_rest_is_stored(search: OpenSearch) -> None:
    records = [told("typed", 0, "a", {"n": 1}), told("typed", 1, "b", {"n": "no number"}), told("typed", 2, "c", {"n": 3})]
    task = await started(search)
    with pytest.raises(ConnectError, match=r"offset 1 of typed-0: mapper_parsing_exception.*behavior\.on\.malformed\.documents"):
        await task.put(records)
    await task.stop()
    reported: list[int | None] = []
    task = await started(search, **{"behavior.on.malformed.documents": "report"})
    task.report = lambda record, _: reported.append(record.offset)
    await task.put([*records, told("typed", 3, "d", "a text")])
    await task.stop()
    assert reported == [3, 1]
    assert documents(search, "typed") == {"a": {"n": 1}, "c": {"n": 3}}


async def test_an_upsert_keeps_fields_that_are_not_told(search: OpenSearch) -> None:
    task = await started(search, **DELETES, **{"index.write.method": "upsert"})
    await task.put([told("parts", 0, "a", {"x": 1}), told("parts", 1, "a", {"y": 2}), told("parts", 2, "b", {"x": 3})])
    await task.put([told("parts", 3, "b", None), told("parts", 4, "none", None)])
    await task.stop()
    assert documents(search, "parts") == {"a": {"x": 1, "y": 2}}


async def test_a_server_that_is_not_there_is_asked_again() -> None:
    task = SearchSinkTask()
    await task.start({"connection.url": "http://127.0.0.1:9", "max.retries": "1", "retry.backoff.ms": "1"})
    with pytest.raises(RetriableError, match=r"1 records could not be stored: .* cannot be asked"):
        await task.put([told("x", 0, "a", {})])
    await task.stop()


async def produce(bootstrap: str, topic: str, records: list[Record]) -> None:
    async with Producer(bootstrap) as producer:
        for one in records:
            producer.send(topic, None if one.value is None else json.dumps(one.value).encode(), key=one.key.encode(), partition=0)
        await producer.flush()


async def letters(bootstrap: str, topic: str) -> list[Mapping[str, bytes | None]]:
    """Headers of the dead letters."""
    found: list[Mapping[str, bytes | None]] = []
    async with Consumer(bootstrap) as consumer, asyncio.timeout(30):
        await consumer.assign({TopicPartition(topic, 0): 0})
        while not found:
            for batch in await consumer.poll(1.0):
                found += [dict(record.headers) for record in batch]
    return found


def test_a_worker_is_killed_and_an_index_is_rebuilt_from_its_topic(search: OpenSearch) -> None:
    records, truth = story(3, "view", 1500)
    allowed = {"group.min.session.timeout.ms": "1000"}
    soon = {"consumer.session.timeout.ms": "3000", "consumer.heartbeat.interval.ms": "500"}
    with BrokerProcess(properties=allowed) as broker, WorkerProcess(broker.bootstrap, properties=cluster_of("search", **soon)) as worker:
        asyncio.run(produce(broker.bootstrap, "view", records[:700]))
        queue = "errors.deadletterqueue."
        dead = {"errors.tolerance": "all", f"{queue}topic.name": "dead", f"{queue}topic.replication.factor": "1"}
        config = {**SINK, "topics": "view", "connection.url": search.url, "behavior.on.malformed.documents": "report", **dead}
        config[f"{queue}context.headers.enable"] = "true"
        put(worker.url, "view", config)
        until(lambda: documents(search, "view"), "it works")
        worker.kill()
        worker.start()
        asyncio.run(produce(broker.bootstrap, "view", [*records[700:], told("view", 0, "bad", {"n": "no number"})]))
        until(lambda: documents(search, "view") == truth, "the index is the topic")
        (letter,) = asyncio.run(letters(broker.bootstrap, "dead"))
        assert letter["__connect.errors.stage"] == b"TASK_PUT"
        assert b"mapper_parsing_exception" in (letter["__connect.errors.exception.message"] or b"")
        assert httpx.put(f"{worker.url}/connectors/view/stop", timeout=30).status_code == 204
        httpx.delete(f"{search.url}/view", timeout=30)
        until(lambda: httpx.delete(f"{worker.url}/connectors/view/offsets", timeout=30).status_code == 200, "offsets are forgotten")
        assert httpx.put(f"{worker.url}/connectors/view/resume", timeout=30).status_code == 202
        until(lambda: documents(search, "view") == truth, "the rebuilt index is the topic")
