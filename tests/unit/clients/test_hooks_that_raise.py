"""A consumer whose listener, interceptor or deserializer raises goes on."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from moldau.clients.consumer import Consumer, RebalanceListener
from moldau.clients.producer import Producer
from moldau.clients.records import Records
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from proof.clients.broker_room import BOOTSTRAP, RoomWorld

PROTOCOLS = [{"group_protocol": "consumer"}, {"partition_assignment_strategy": "range"}]


class OnPurpose(Exception):
    pass


class Raising(RebalanceListener):
    """Raises in every call."""

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        raise OnPurpose

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await asyncio.sleep(0.1)
        raise OnPurpose

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        raise OnPurpose


def refuses(data: object) -> object:
    raise OnPurpose


def values_read(*, expected: int = 2, **options: Any) -> tuple[list[Any], int]:
    """The records that a member of a group reads, and how many of its polls raised."""
    world = RoomWorld(7)
    raised = 0

    async def client() -> list[Any]:
        nonlocal raised
        async with Producer(BOOTSTRAP, network=world.network, clock=world.clock) as producer:
            for value in (b"1", b"2"):
                await producer.send("payments", value, key=b"k", partition=0)
        given = {"topics": ["payments"], "auto_offset_reset": "earliest", **options}
        consumer = Consumer(BOOTSTRAP, network=world.network, clock=world.clock, group_id="g", **given)
        found: list[Any] = []
        while len(found) < expected:
            try:
                for records in await consumer.poll(1):
                    found += records
                await consumer.commit()
            except OnPurpose:
                raised += 1
        try:
            await consumer.close()
        except OnPurpose:
            raised += 1
        return found

    async def run() -> list[Any]:
        found = await world.start(world.machine("client"), client())
        world.room.coordinators.close()
        return found

    return world.run(run(), within_s=60), raised


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["consumer", "classic"])
def test_a_listener_that_raises_is_heard_and_ends_nothing(protocol: dict[str, Any]) -> None:
    found, raised = values_read(listener=Raising(), **protocol)
    assert [record.value for record in found] == [b"1", b"2"]
    assert raised


class Committing(RebalanceListener):
    """Commits what it gives up, and notes what came of it."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.heard: list[object] = []

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.consumer is not None
        await self.consumer.commit(dict.fromkeys(partitions, 2))
        with pytest.raises(KafkaError, match="closed"):
            await self.consumer.poll(0)
        self.heard.append(await self.consumer.committed(partitions))


def test_a_listener_commits_while_its_consumer_closes() -> None:
    world, listener = RoomWorld(7), Committing()

    async def client() -> None:
        listener.consumer = Consumer(
            BOOTSTRAP,
            network=world.network,
            clock=world.clock,
            group_id="g",
            topics=["payments"],
            listener=listener,
            group_protocol="consumer",
        )
        while not listener.consumer.assignment:
            await listener.consumer.poll(1)
        await listener.consumer.close()

    async def run() -> None:
        await world.start(world.machine("client"), client())
        world.room.coordinators.close()

    world.run(run(), within_s=60)
    (found,) = listener.heard
    assert isinstance(found, dict)
    assert {committed.offset for committed in found.values()} == {2}


class PollingInATask(RebalanceListener):
    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.refusals: list[str] = []

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.consumer is not None
        try:
            await asyncio.wait_for(self.consumer.poll(1), 30)
        except KafkaError as error:
            self.refusals.append(error.detail or "")


def test_a_listener_that_polls_in_a_task_of_its_own_is_refused() -> None:
    world, listener = RoomWorld(7), PollingInATask()

    async def client() -> None:
        async with Consumer(
            BOOTSTRAP, network=world.network, clock=world.clock, group_id="g", topics=["payments"], listener=listener
        ) as consumer:
            listener.consumer = consumer
            while not listener.refusals:
                await consumer.poll(1)

    async def run() -> None:
        await world.start(world.machine("client"), client())
        world.room.coordinators.close()

    world.run(run(), within_s=20)
    assert "cannot poll" in listener.refusals[0]


def raises_at_first() -> Callable[[str], bool]:
    names: list[str] = []

    def picks(topic: str) -> bool:
        names.append(topic)
        if len(names) == 1:
            raise OnPurpose
        return topic == "payments"

    return picks


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["consumer", "classic"])
def test_a_pattern_that_raises_is_heard_and_ends_nothing(protocol: dict[str, Any]) -> None:
    found, raised = values_read(topics=None, pattern=raises_at_first(), metadata_max_age_ms=3000, **protocol)
    assert [record.value for record in found] == [b"1", b"2"]
    assert raised


@pytest.mark.parametrize("which", ["key_deserializer", "value_deserializer"])
def test_a_deserializer_that_raises_costs_no_other_record(which: str) -> None:
    found, raised = values_read(**{which: refuses})
    assert all(isinstance(record.error, OnPurpose) for record in found)
    assert [record.offset for record in found] == [0, 1]
    assert not raised


class Watching:
    """Leaves the first record out, and notes what was committed."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def on_consume(self, found: list[Records]) -> list[Records]:
        return [rest for records in found if (rest := records.after(0) if records.offsets[0] == 0 else records) is not None]

    def on_commit(self, offsets: Mapping[TopicPartition, Any]) -> None:
        self.offsets += [committed.offset for committed in offsets.values()]


class RaisingInterceptor:
    def on_consume(self, found: object) -> None:
        raise OnPurpose

    def on_commit(self, offsets: object) -> None:
        raise OnPurpose


def test_interceptors_see_records_and_commits_and_one_that_raises_is_skipped() -> None:
    watching = Watching()
    found, raised = values_read(interceptors=[RaisingInterceptor(), watching], expected=1)
    assert [record.value for record in found] == [b"2"]
    assert watching.offsets[-1] == 2
    assert not raised
