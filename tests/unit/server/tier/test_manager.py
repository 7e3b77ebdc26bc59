"""Tiered storage on a broker without a cluster, with an object store in memory that is slow or fails when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.metadata.image import MetadataImage
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from moldau.protocol.records.batch import batches
from moldau.replication.partition import Partition
from moldau.server.handlers.fetch import fetch
from moldau.server.handlers.list_offsets import list_offsets
from moldau.server.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from moldau.server.tier.manager import RemoteLogManager
from moldau.server.tier.metadata import RemoteMetadata
from moldau.storage.tiered.config import MetadataTopicConfig, RemoteLogConfig, StoreConfig
from moldau.types import REMOTE_LOG_METADATA_TOPIC
from proof.cluster.images import with_topics
from proof.tiering.handed_over import HandedOver
from proof.tiering.object_store import MemoryObjectStore

NOW_MS = 1_700_000_000_000
WITHIN_S = 60
BatchOf = Callable[..., memoryview]
TIERED = {"remote_storage_enable": "true", "segment_bytes": str(1 << 20), "local_retention_bytes": "1", "retention_ms": "-1"}


class Tiered:
    """The parts of a broker that matter here."""

    def __init__(self, harness: Any, batch_of: BatchOf) -> None:
        self.harness, self._batch_of = harness, batch_of
        self.threads = HandedOver()
        self.store = MemoryObjectStore(now_ms=harness.clock.now_ms)
        self.topic = harness.lead(REMOTE_LOG_METADATA_TOPIC)
        self.partition: Partition = harness.lead("t", **TIERED)
        self.make()

    def make(self) -> None:
        """A manager that knows nothing yet."""
        harness, broker, random = self.harness, self.harness.broker, Random(7)

        async def create(topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
            raise AssertionError("it is there")

        async def checkpoint() -> None: ...

        self.metadata = RemoteMetadata(MetadataTopicConfig(partition_count=1), harness.clock, create)
        self.manager = RemoteLogManager(
            local_id=1,
            limits=RemoteLogConfig(task_interval_ms=5, fetch_max_wait_ms=20_000),
            options=StoreConfig(chunk_size=1 << 16, prefetch_size=0),
            store=self.store,
            metadata=self.metadata,
            files=harness.files,
            clock=harness.clock,
            logs=broker.logs,
            replicas=broker.replicas,
            image=self.image,
            new_id=lambda: UUID(int=random.getrandbits(128)),
            checkpoint=checkpoint,
            threads_of=lambda count, name: self.threads.run,
        )
        broker.remote = self.manager

    def image(self) -> MetadataImage:
        return with_topics(self.harness.cluster.ids)

    def be_impatient(self) -> None:
        self.manager.configure(replace(self.manager.limits, fetch_max_wait_ms=20))

    def start(self) -> None:
        self.manager.start()
        for partition in (self.topic, self.partition):
            self.manager.leadership_changed(partition)

    def append(self, count: int) -> None:
        for _ in range(count):
            self.partition.append_from_client(self._batch_of(b"x" * 100_000), acks=1, now_ms=NOW_MS)

    async def moved(self) -> int:
        """The start of the local log, once everything but its last segment is in remote storage only."""
        self.partition.log.flush()
        async with asyncio.timeout(WITHIN_S):
            while len(self.partition.log.segments) > 1:
                self.partition.log.delete_old_segments(NOW_MS)
                await asyncio.sleep(0.005)
        return self.partition.log.local_log_start_offset

    async def fetch(self, offset: int, *, last_fetched_epoch: int = -1, **options: Any) -> PartitionData:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, last_fetched_epoch=last_fetched_epoch)
        asked = FetchTopic(topic="t", partitions=[wanted])
        request = FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, "topics": [asked], **options})
        answer = self.harness.call(fetch, request, 12)
        response = await answer if asyncio.iscoroutine(answer) else answer
        ((found,),) = [topic.partitions for topic in response.responses]
        return found  # type: ignore[no-any-return]

    async def offsets(self, *timestamps: int) -> list[int]:
        found = []
        for timestamp in timestamps:
            asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
            answer = self.harness.call(list_offsets, ListOffsetsRequest(replica_id=-1, topics=[asked]), 11)
            response = await answer if asyncio.iscoroutine(answer) else answer
            found.append(response.topics[0].partitions[0].offset)
        return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110  nobody tells, and the time is virtual
            await asyncio.sleep(0.005)


@pytest.fixture
async def tiered(harness_with: Callable[..., Any], batch_of: BatchOf) -> AsyncIterator[Tiered]:
    tiered = Tiered(harness_with(log_flush_policy="os"), batch_of)
    yield tiered
    await tiered.manager.stop()


async def test_a_fetch_goes_on_from_one_tier_to_the_other(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(40)
    local_start = await tiered.moved()
    assert 20 < local_start < 40
    offset = 0
    while offset < 40:
        found = await tiered.fetch(offset)
        assert found.error_code == 0 and (found.high_watermark, found.log_start_offset) == (40, 0)
        data = found.records.read() if hasattr(found.records, "read") else found.records
        whole = [header for _, header in batches(memoryview(data))]
        assert whole[0].base_offset == offset
        offset = whole[-1].next_offset


async def test_a_parked_fetch_is_answered_with_what_has_moved_to_the_object_store_meanwhile(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=50_000_000, max_bytes=50_000_000, session_epoch=-1, topics=[FetchTopic(topic="t", partitions=[wanted])]
    )
    answers: asyncio.Queue[Any] = asyncio.Queue()
    tiered.harness.call(fetch, request, 12).then(answers.put_nowait, answers.put_nowait)
    assert await tiered.moved() >= 20
    tiered.harness.clock.advance(600)
    tiered.harness.broker.replicas.timeouts.expire(tiered.harness.clock.monotonic_ms())
    async with asyncio.timeout(WITHIN_S):
        found = (await answers.get()).responses[0].partitions[0]
    assert found.error_code == 0
    assert next(batches(memoryview(found.records)))[1].base_offset == 0


async def test_a_parked_fetch_that_nobody_wants_any_more_reads_nothing_from_the_object_store(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=50_000_000, max_bytes=50_000_000, session_epoch=-1, topics=[FetchTopic(topic="t", partitions=[wanted])]
    )
    later = tiered.harness.call(fetch, request, 12)
    before = set(asyncio.all_tasks())
    await tiered.moved()
    tiered.harness.clock.advance(600)
    tiered.harness.broker.replicas.timeouts.expire(tiered.harness.clock.monotonic_ms())
    await asyncio.sleep(0)
    reading = {task for task in asyncio.all_tasks() - before if "_fetch_remote" in repr(task.get_coro())}
    assert len(reading) == 1
    later.abandon()
    await asyncio.gather(*reading, return_exceptions=True)
    assert all(task.cancelled() for task in reading)


async def test_who_comes_before_the_metadata_is_read_waits_for_it(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    await tiered.moved()
    await tiered.manager.stop()
    tiered.make()
    tiered.topic.log.high_watermark = 1  # the rest of it is not known to be committed yet
    tiered.start()
    patient = tiered.manager.limits
    tiered.be_impatient()
    found = await tiered.fetch(0)
    tiered.manager.configure(patient)
    assert (found.error_code, len(found.records or b"")) == (0, 0), "the offset is not out of range: nobody knows yet"
    tiered.topic.advance_high_watermark(NOW_MS)
    assert len((await tiered.fetch(0)).records or b"") > 0


async def test_a_store_that_is_slow_delays_nobody_for_long(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    await tiered.moved()
    patient = tiered.manager.limits
    tiered.store.hook = lambda call, name: tiered.threads.pass_gate() if call == "get" else None
    tiered.threads.shut()
    tiered.be_impatient()
    found = await tiered.fetch(0)
    assert (found.error_code, len(found.records or b""), found.high_watermark) == (0, 0, 30)
    tiered.manager.configure(patient)
    tiered.threads.open()
    assert len((await tiered.fetch(0)).records or b"") > 0
    assert tiered.store.reads[0] not in tiered.store.reads[1:], "a range that was read at first is not read again"


async def test_a_store_that_fails_is_told_and_asked_again(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    await tiered.moved()

    def fail(call: str, name: str) -> None:
        raise OSError("gone")

    tiered.store.hook = fail
    assert (await tiered.fetch(0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    tiered.store.hook = lambda call, name: None
    assert (await tiered.fetch(0)).error_code == 0


async def test_while_the_store_fails_nothing_leaves_the_broker(tiered: Tiered) -> None:
    def fail(call: str, name: str) -> None:
        raise OSError("full")

    tiered.store.hook = fail
    tiered.start()
    tiered.append(30)
    for _ in range(10):
        await asyncio.sleep(0.01)
        tiered.partition.log.flush()
        tiered.partition.log.delete_old_segments(NOW_MS)
    assert tiered.partition.log.local_log_start_offset == 0
    tiered.store.hook = lambda call, name: None
    await tiered.moved()


async def test_a_store_that_is_full_gets_room_again_by_what_expires(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    await tiered.moved()

    def full(call: str, name: str) -> None:
        if call == "put":
            raise OSError("full")

    tiered.store.hook = full
    count = len(tiered.store.objects)
    tiered.append(30)
    tiered.partition.log.delete_records_before(25)
    async with asyncio.timeout(WITHIN_S):
        while len(tiered.store.objects) >= count:
            tiered.partition.log.delete_old_segments(NOW_MS)
            await asyncio.sleep(0.005)


async def test_a_follower_is_told_where_it_is(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    await tiered.moved()
    tiered.partition.followers[2] = object()  # type: ignore[assignment]
    tiered.partition.log.delete_records_before(3)
    for last_fetched_epoch in (-1, 1, 9):  # the leader cannot say more for an epoch that it does not know
        found = await tiered.fetch(3, last_fetched_epoch=last_fetched_epoch, replica_id=2, replica_state=ReplicaState(replica_id=2))
        assert found.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        assert (found.high_watermark, found.log_start_offset, found.last_stable_offset) == (30, 3, -1)
    assert (await tiered.fetch(2, replica_id=2, replica_state=ReplicaState(replica_id=2))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_what_clients_write_into_the_metadata_means_nothing(tiered: Tiered, batch_of: BatchOf) -> None:
    for garbage in (b"", b"garbage", bytes([1, 3, 0]) + bytes(200), bytes([1, 0, 0]) + b"\xff" * 200):
        tiered.topic.append_from_client(batch_of(garbage), acks=1, now_ms=NOW_MS)
    tiered.start()
    tiered.append(30)
    await tiered.moved()
    assert (await tiered.fetch(0)).error_code == 0


async def test_a_new_leader_epoch_of_the_metadata_holds_nothing_up(tiered: Tiered, batch_of: BatchOf) -> None:
    tiered.append(30)
    tiered.topic.append_from_client(batch_of(b"something"), acks=1, now_ms=NOW_MS)
    tiered.topic.retire()  # the partition is not led yet: nothing of it can be read
    tiered.topic.log.high_watermark = 0
    tiered.start()
    await asyncio.sleep(0.02)
    tiered.topic.lead(leader_epoch=5, partition_epoch=2, replicas=(1,), isr=(1,), eligible={1: 1}, now_ms=NOW_MS)
    tiered.manager.leadership_changed(tiered.topic)
    await tiered.moved()


async def test_offsets_over_both_tiers(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    local_start = await tiered.moved()
    found = await tiered.offsets(-2, -4, -5, -6, -1, NOW_MS, NOW_MS + 1)
    assert found == [0, local_start, local_start - 1, local_start, 30, 0, -1]


async def test_offsets_of_a_log_of_which_nothing_was_copied(tiered: Tiered) -> None:
    tiered.append(30)
    tiered.partition.log.delete_records_before(7)
    assert await tiered.offsets(-2, -4, -5, -6) == [7, 7, -1, 7]


async def test_the_end_of_an_epoch_that_is_remote_only(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(20)
    tiered.partition.lead(leader_epoch=4, partition_epoch=2, replicas=(1,), isr=(1,), eligible={1: 1}, now_ms=NOW_MS)
    tiered.manager.leadership_changed(tiered.partition)
    tiered.append(40)
    assert await tiered.moved() > 20
    asked = OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=1)])
    response = tiered.harness.call(offset_for_leader_epoch, OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked]))
    (answer,) = response.topics[0].partitions
    assert (answer.leader_epoch, answer.end_offset) == (1, 20)
    diverging = await tiered.fetch(25, last_fetched_epoch=1)
    assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (1, 20)


async def test_a_topic_that_is_deleted_while_it_is_copied_leaves_nothing(tiered: Tiered) -> None:
    stored: list[str] = []

    def slow(call: str, name: str) -> None:
        if call == "put":
            stored.append(name)
            if name.endswith(".timeindex"):
                tiered.threads.pass_gate()

    tiered.store.hook = slow
    tiered.threads.shut()
    tiered.start()
    tiered.append(30)
    await until(lambda: any(name.endswith(".timeindex") for name in stored))
    del tiered.harness.cluster.ids["t"]
    tiered.harness.broker.replicas.remove(tiered.partition.topic_partition)
    tiered.manager.removed(tiered.partition)
    tiered.manager.topics_deleted(tiered.image())
    await asyncio.sleep(0.03)
    assert tiered.store.objects, "nobody deletes objects while a thread still adds to them"
    tiered.threads.open()
    async with asyncio.timeout(WITHIN_S):
        while any(remote.segments for remote in tiered.metadata.remote_logs.values()):
            tiered.topic.advance_high_watermark(NOW_MS)
            await asyncio.sleep(0.005)
    assert not tiered.store.objects
    assert stored[-1].endswith(".timeindex"), "an upload that nobody wants any more breaks off"


async def test_a_follower_of_the_metadata_knows_nothing_before_it_has_caught_up(tiered: Tiered) -> None:
    tiered.start()
    tiered.append(30)
    await tiered.moved()
    tiered.topic.follow(leader_id=2, leader_epoch=3, partition_epoch=2, replicas=(1, 2), isr=(1, 2))
    tiered.manager.leadership_changed(tiered.topic)
    tiered.be_impatient()
    found = await tiered.fetch(0)
    assert (found.error_code, len(found.records or b"")) == (0, 0)
    tiered.topic.heard_from_leader(high_watermark=tiered.topic.log.high_watermark, log_start_offset=0)
    tiered.manager.configure(replace(tiered.manager.limits, fetch_max_wait_ms=20_000))
    assert len((await tiered.fetch(0)).records or b"") > 0


async def test_a_leader_that_follows_breaks_off_what_it_was_at(tiered: Tiered) -> None:
    stored: list[str] = []

    def slow(call: str, name: str) -> None:
        if call == "put":
            stored.append(name)
            tiered.threads.pass_gate()

    tiered.store.hook = slow
    tiered.threads.shut()
    tiered.start()
    tiered.append(30)
    await until(lambda: bool(stored))
    tiered.partition.follow(leader_id=2, leader_epoch=2, partition_epoch=2, replicas=(1, 2), isr=(1, 2))
    tiered.manager.leadership_changed(tiered.partition)
    await asyncio.sleep(0.02)
    tiered.threads.open()
    await asyncio.sleep(0.1)
    assert len(stored) == 1
    (remote,) = [each for each in tiered.metadata.remote_logs.values() if each.segments]
    assert [segment.state.name for segment in remote.segments.values()] == ["COPY_STARTED"], "the next leader sees to it"
    tiered.store.hook = lambda call, name: None
    tiered.partition.lead(leader_epoch=3, partition_epoch=3, replicas=(1,), isr=(1,), eligible={1: 1}, now_ms=NOW_MS)
    tiered.manager.leadership_changed(tiered.partition)
    await tiered.moved()
    await until(lambda: all(segment.state.name == "COPY_FINISHED" for segment in remote.segments.values()))
