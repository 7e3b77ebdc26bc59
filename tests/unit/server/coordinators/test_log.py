"""A coordinator's decisions get into its partition's log."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.coordinator.group.offsets import commit_record
from moldau.coordinator.group.records import GROUP_RECORDS
from moldau.coordinator.group.written_today import written_version
from moldau.coordinator.outcome import CoordinatorRecord, ProducerIdAndEpoch
from moldau.errors import ErrorCode
from moldau.protocol.records.batch import batches
from moldau.protocol.records.control import build_end_txn_marker
from moldau.replication.partition import Partition
from moldau.server.coordinators.log import GATHERED_BYTES, PartitionLog, RecordFormat
from moldau.storage.producers.state import AppendOrigin
from moldau.testing.loop import SimLoop
from moldau.types import GROUP_TOPIC, TopicPartition

PRODUCER = ProducerIdAndEpoch(7, 0)


class Room:
    """A partition led here, and what the partition's writer is told."""

    def __init__(self, harness: Any, **options: str) -> None:
        self.harness = harness
        self.partition: Partition = harness.lead(GROUP_TOPIC, **options)
        self.acknowledged: list[int] = []
        self.lost = 0
        self.log = PartitionLog(
            self.partition,
            RecordFormat(GROUP_RECORDS, written_version),
            on_acknowledged=lambda: self.acknowledged.append(self.log.committed_offset),
            on_lost=self._lose,
        )

    def _lose(self) -> None:
        self.lost += 1

    def append(self, *groups: str, metadata: str = "", producer: ProducerIdAndEpoch | None = None) -> int | ErrorCode:
        return self.log.append([record(group, metadata) for group in groups], producer, None, 1_000)

    def in_log(self) -> list[tuple[int, int]]:
        """Base offset and number of records of each batch."""
        data: Any = self.partition.log.read(0, 1 << 20)
        view = memoryview(data.records.read() if data.records is not None else b"")
        return [(header.base_offset, header.records_count) for _, header in batches(view)]


def record(group: str, metadata: str = "") -> CoordinatorRecord:
    return commit_record(group, TopicPartition("t", 0), offset=5, leader_epoch=-1, metadata=metadata, now_ms=1_000)


def test_a_field_that_its_record_cannot_hold_is_refused_and_the_next_record_is_written(in_room: Callable[..., None]) -> None:
    async def steps(room: Room) -> None:
        assert room.append("g" * 40_000) is ErrorCode.MESSAGE_TOO_LARGE
        assert room.append("g") == 1 and room.lost == 0

    in_room(steps)


@pytest.fixture
def in_room(harness_with: Callable[..., Any]) -> Callable[..., None]:
    def run(steps: Callable[[Room], Any], *, flush_policy: str = "ack", **options: str) -> None:
        async def running() -> None:
            await steps(Room(harness_with(log_flush_policy=flush_policy), **options))

        SimLoop().run_until_complete(running())

    return run


def test_one_turn_makes_one_batch(in_room: Callable[..., None]) -> None:
    async def steps(room: Room) -> None:
        assert [room.append("a"), room.append("b", "c"), room.append("d")] == [1, 3, 4]
        assert room.log.end_offset == 4 and room.in_log() == []
        await asyncio.sleep(0)
        assert room.log.end_offset == 4 and room.in_log() == [(0, 4)]
        assert room.append("e") == 5
        await asyncio.sleep(0)
        assert room.in_log() == [(0, 4), (4, 1)]
        assert room.log.committed_offset == 0
        room.harness.flush()
        assert room.log.committed_offset == 5 and room.acknowledged

    in_room(steps)


def test_whoever_waits_hears_of_it_where_nothing_is_synced(in_room: Callable[..., None]) -> None:
    async def steps(room: Room) -> None:
        room.append("a")
        assert not room.acknowledged
        await asyncio.sleep(0)
        assert room.acknowledged == [1] and not room.harness.flush_wanted

    in_room(steps, flush_policy="os")


def test_nothing_gets_in_between(in_room: Callable[..., None]) -> None:
    """Records that have their offsets already are written before a transaction's marker or a transaction's records."""

    async def steps(room: Room) -> None:
        room.partition.log.verifies_transactions = False
        room.append("a")
        assert room.append("b", producer=PRODUCER) == 2
        assert room.append("c") == 3
        marker = build_end_txn_marker(is_commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1_000)
        room.partition.append(marker, acks=-1, now_ms=1_000, origin=AppendOrigin.COORDINATOR)
        assert room.append("d") == 5
        await asyncio.sleep(0)
        assert room.in_log() == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]

    in_room(steps)


def test_no_batch_grows_past_what_the_topic_takes(in_room: Callable[..., None]) -> None:
    async def steps(room: Room) -> None:
        for group in "abcdef":
            assert isinstance(room.append(group, metadata="x" * 300), int)
        assert room.append("huge", metadata="x" * 2_000) is ErrorCode.MESSAGE_TOO_LARGE
        await asyncio.sleep(0)
        assert room.in_log() == [(0, 2), (2, 2), (4, 2)] and not room.lost
        assert room.log.end_offset == 6

    in_room(steps, max_message_bytes="1500")


def test_a_long_turn_is_written_before_it_ends(in_room: Callable[..., None]) -> None:
    async def steps(room: Room) -> None:
        for _ in range(5):
            room.append("a", metadata="x" * (GATHERED_BYTES // 4))
        assert [count for _, count in room.in_log()] == [3]

    in_room(steps)


def test_what_is_refused_after_all_is_told(in_room: Callable[..., None]) -> None:
    async def steps(room: Room) -> None:
        room.append("a")
        room.partition.leader_id = 9
        await asyncio.sleep(0)
        assert room.lost == 1 and room.in_log() == []

    in_room(steps)


def test_a_shard_that_is_closed_writes_nothing_more(in_room: Callable[..., None]) -> None:
    async def steps(room: Room) -> None:
        room.append("a")
        room.log.drop()
        await asyncio.sleep(0)
        assert room.in_log() == [] and room.lost == 0 and room.partition.before_append is None

    in_room(steps)
