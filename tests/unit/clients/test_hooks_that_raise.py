"""A consumer whose listener, interceptor or deserializer raises goes on."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from moldau.clients.consumer import Consumer, RebalanceListener
from moldau.clients.producer import Producer
from moldau.clients.records import Records
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
                await producer.send("payments", value, partition=0)
        consumer = Consumer(
            BOOTSTRAP, network=world.network, clock=world.clock, group_id="g", topics=["payments"], auto_offset_reset="earliest", **options
        )
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


def test_a_deserializer_that_raises_costs_no_other_record() -> None:
    found, raised = values_read(value_deserializer=refuses)
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
