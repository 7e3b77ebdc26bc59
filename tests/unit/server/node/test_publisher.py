"""The publisher carries out what the metadata says in pieces, and the loop serves others between them."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from moldau.metadata import records as r
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import Delta
from moldau.metadata.image import EMPTY, MetadataImage, ResourceType
from moldau.protocol.wire import StoredRecord
from moldau.server.node import publisher
from moldau.server.node.directory_assignments import DirectoryAssignments
from moldau.server.node.publisher import Publisher
from moldau.storage.config import LogConfig
from moldau.types import TopicPartition
from proof.cluster.images import an_image

A, B = UUID(int=1), UUID(int=2)
PARTITIONS = 20


def a_topic(topic_id: UUID, name: str = "wide") -> list[StoredRecord]:
    partitions = [
        r.PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=[1],
            isr=[1],
            removing_replicas=[],
            adding_replicas=[],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )
        for number in range(PARTITIONS)
    ]
    return [r.TopicRecord(name=name, topic_id=topic_id), *partitions]


def changed(image: MetadataImage, *records: StoredRecord) -> tuple[Delta, MetadataImage]:
    delta = Delta(image)
    for record in records:
        delta.replay(record)
    return delta, delta.apply(offset=image.offset + 1, epoch=1, timestamp_ms=0)


class Told:
    """A publisher of the harness's broker, which does each step as a piece of its own."""

    def __init__(self, harness: Any) -> None:
        self.failures: list[Exception] = []
        broker = harness.broker
        self.hosted = broker.replicas.hosted
        self.publisher = Publisher(
            local_id=1,
            clock=harness.clock,
            logs=broker.logs,
            replicas=broker.replicas,
            schema=ConfigSchema({}, node_id=1),
            coordinators=broker.coordinators,
            assignments=DirectoryAssignments(None, broker_id=1, broker_epoch=lambda: -1),  # type: ignore[arg-type]
            on_failure=self.failures.append,
            on_options=lambda image: None,
        )
        self.image = EMPTY
        self.tell(*an_image(1).records())

    def tell(self, *records: StoredRecord) -> None:
        delta, self.image = changed(self.image, *records)
        self.publisher.publish(delta, self.image)

    async def turns_until_done(self) -> int:
        turns = 0
        while self.publisher.published_offset < self.image.offset and not self.failures:
            await asyncio.sleep(0)
            turns += 1
        return turns


@pytest.fixture
def told(harness: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Told]:
    monkeypatch.setattr(publisher, "PIECE_MS", 0)
    return lambda: Told(harness)


async def test_others_are_served_while_many_partitions_are_made(told: Callable[[], Told]) -> None:
    node = told()
    await node.turns_until_done()
    node.tell(*a_topic(A))
    assert len(node.hosted) == 1
    assert await node.turns_until_done() >= PARTITIONS - 1, "each turn makes one partition"
    assert len(node.hosted) == PARTITIONS


async def test_what_is_said_meanwhile_waits_for_its_turn(told: Callable[[], Told]) -> None:
    node = told()
    node.tell(*a_topic(A))
    node.tell(r.RemoveTopicRecord(topic_id=A))
    node.tell(*a_topic(B))
    await node.turns_until_done()
    assert {partition.topic_id for partition in node.hosted.values()} == {B}
    assert len(node.hosted) == PARTITIONS


async def test_a_log_whose_partition_left_while_the_logs_were_loaded_is_set_aside(harness: Any, told: Callable[[], Told]) -> None:
    logs, where = harness.broker.logs, TopicPartition("moved", 0)
    logs.get_or_create(where, LogConfig(), now_ms=0, topic_id=A)
    node = told()
    await node.turns_until_done()
    assert where not in logs.logs
    assert not node.failures
    (folder,) = logs.directories
    assert [name.partition(".")[0] for name in harness.files.listdir(folder.path) if name.endswith("-stray")] == ["moved-0"]


async def test_options_of_many_topics_reach_all_logs_in_one_pass(told: Callable[[], Told]) -> None:
    """Once each topic was looked for among all partitions: half a minute for three thousand of each."""
    node = told()
    node.tell(*a_topic(A, "a"), *a_topic(B, "b"))
    await node.turns_until_done()
    wanted = {"a": "1", "b": "2"}
    node.tell(
        *(r.ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=each, name="retention.ms", value=wanted[each]) for each in wanted)
    )
    assert await node.turns_until_done() <= len(wanted) + 2 * PARTITIONS + 1
    assert {(where.topic, partition.log.config.retention_ms) for where, partition in node.hosted.items()} == {("a", 1), ("b", 2)}


async def test_a_stop_leaves_the_rest_undone(told: Callable[[], Told]) -> None:
    node = told()
    await node.turns_until_done()
    node.tell(*a_topic(A))
    before = len(node.hosted)
    node.publisher.stop()
    node.tell(*a_topic(B, "other"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(node.hosted) == before < PARTITIONS
    assert node.publisher.published_offset < node.image.offset


async def test_what_goes_wrong_later_is_told(told: Callable[[], Told], monkeypatch: pytest.MonkeyPatch) -> None:
    node = told()
    await node.turns_until_done()
    node.tell(*a_topic(A))

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(node.publisher, "_apply", fail)
    await node.turns_until_done()
    assert [str(failure) for failure in node.failures] == ["a bug"]
