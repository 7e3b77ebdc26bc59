import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import build_end_txn_marker
from moldau.storage.epochs import EpochEntry
from moldau.storage.log import AppendResult, FetchData
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.tiered.cache import ByteCache
from moldau.storage.tiered.copy_and_expiry import copied_up_to
from moldau.storage.tiered.quota import ByteQuota
from moldau.storage.tiered.reader import Busy, RemoteReader
from moldau.storage.tiered.remote_log import shared_end
from moldau.storage.tiered.segments import RemoteSegment
from moldau.storage.time_search import TimestampOffset
from proof.tiering.log import NOW, WHERE, Tier


async def read(reader: RemoteReader, tier: Tier, offset: int, max_bytes: int = 1 << 20, **options: Any) -> Any:
    settings = {"min_one_batch": True, "with_aborted": False, **options}
    return await reader.read(tier.log, tier.remote, offset, max_bytes, **settings)


async def read_all(reader: RemoteReader, tier: Tier, offset: int, max_bytes: int) -> list[tuple[int, bytes]]:
    """Reads from one fetch to the next as a consumer does: a batch that is cut at the end is asked for again."""
    found = []
    while offset < tier.log.local_log_start_offset:
        data = await read(reader, tier, offset, max_bytes)
        assert len(data.records)
        before = offset
        for position, header in batches(data.records):
            found += [(record.offset, bytes(record.value or b"")) for record in records_of(data.records[position : position + header.size])]
            offset = header.next_offset
        assert offset > before, "at least one whole batch comes"
    return found


@pytest.mark.parametrize("chunk_size", [64, 300, 1000, 100_000])
@pytest.mark.parametrize("max_bytes", [1, 150, 5000])
async def test_everything_comes_back_whatever_the_sizes(chunk_size: int, max_bytes: int) -> None:
    tier = Tier()
    for count, epoch in ((17, 0), (20, 2), (3, 3)):
        tier.append(count, epoch=epoch)
    await tier.move()
    for prefetch in (0, 500):
        reader = tier.new_reader(chunk_size=chunk_size, prefetch_size=prefetch, cache_size=2000)
        found = await read_all(reader, tier, 0, max_bytes)
        assert [(offset, value.split()[0]) for offset, value in found] == [(offset, b"%d" % offset) for offset in range(40)]
        assert reader.chunks.byte_count <= 2000
        await reader.stop()


@pytest.mark.parametrize("fork_at", [3, 7, 8, 11, 15])
async def test_what_a_lost_leader_had_copied_beyond_the_fork_is_not_read(fork_at: int) -> None:
    """The lost leader had copied up to offset 17.  The next leader has the log up to `fork_at` only, and goes on from there."""
    tier = Tier(local_retention_bytes=-1)
    tier.append(20)
    await tier.copy()
    tier.log.truncate_to(fork_at)
    tier.log.epochs.assign(2, fork_at)
    for _ in range(30):
        tier.append_value(b"%d of the new leader" % tier.log.log_end_offset, epoch=2)
    assert tier.remote.covered_from(tier.log.epochs.entries, 0) == fork_at >= copied_up_to(tier.log, tier.remote)
    tier.log.configure(tier.log.config.override({"local.retention.bytes": "0"}))
    await tier.move()
    found = await read_all(tier.new_reader(chunk_size=10_000), tier, 0, 10_000)
    assert [offset for offset, _ in found] == list(range(fork_at + 30))
    assert [b"new leader" in value for _, value in found] == [offset >= fork_at for offset in range(fork_at + 30)]


async def test_a_log_may_start_within_a_batch_before_a_fork() -> None:
    tier = Tier(local_retention_bytes=-1)
    batch = build_batch([NewRecord(NOW, b"k", b"v")] * 3)
    assert isinstance(tier.log.append_from_client(batch, leader_epoch=0, now_ms=NOW), AppendResult)
    tier.append(17)
    await tier.copy()
    tier.log.truncate_to(7)
    tier.log.epochs.assign(2, 7)
    tier.append(20, epoch=2)
    tier.log.configure(tier.log.config.override({"local.retention.bytes": "0"}))
    await tier.move()
    tier.log.delete_records_before(1)
    tier.log.drop_below_start(NOW)
    assert tier.log.epochs.earliest == EpochEntry(0, 1)
    found = await read_all(tier.new_reader(chunk_size=10_000), tier, 1, 10_000)
    assert [offset for offset, _ in found] == list(range(27))


async def test_sizes_are_kept_to() -> None:
    tier = Tier()
    tier.append(20)
    await tier.move()
    reader = tier.new_reader(chunk_size=10_000)
    one = len((await read(reader, tier, 0, 1)).records)
    assert one < 150 and len((await read(reader, tier, 3, 2 * one)).records) == 2 * one
    assert len((await read(reader, tier, 0, 1, min_one_batch=False)).records) == 0
    assert next(batches((await read(reader, tier, 13)).records))[1].base_offset == 13


async def test_what_is_not_there_is_out_of_range() -> None:
    tier = Tier()
    tier.append(20)
    await tier.move()
    reader = tier.new_reader()
    assert await read(reader, tier, 20) is ErrorCode.OFFSET_OUT_OF_RANGE
    tier.log.raise_log_start_offset(5)
    assert await read(reader, tier, 4) is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_an_index_that_is_wrong_or_missing_costs_time_only() -> None:
    tier = Tier()
    tier.append(20)
    await tier.move()
    for name, (content, _) in list(tier.store.objects.items()):
        if name.endswith(".index"):
            tier.store.objects[name] = bytes(byte ^ (1 if number % 8 == 7 else 0) for number, byte in enumerate(content)), 0
        elif name.endswith(".timeindex"):
            tier.store.objects[name] = bytes(byte ^ (1 if number % 12 == 11 else 0) for number, byte in enumerate(content)), 0
    reader = tier.new_reader()
    assert len(await read_all(reader, tier, 0, 200)) == 20
    assert await reader.find_timestamp(tier.log, tier.remote, NOW + 7500) == TimestampOffset(NOW + 8000, 8)
    for name in [name for name in tier.store.objects if name.endswith("index")]:
        del tier.store.objects[name]
    reader = tier.new_reader()
    assert len(await read_all(reader, tier, 0, 200)) == 20
    assert await reader.find_timestamp(tier.log, tier.remote, NOW + 7500) == TimestampOffset(NOW + 8000, 8)


async def test_a_record_is_found_by_its_time() -> None:
    tier = Tier()
    tier.append(20)
    await tier.move()
    reader = tier.new_reader()
    for number in range(20):
        assert await reader.find_timestamp(tier.log, tier.remote, NOW + 1000 * number - 500) == TimestampOffset(NOW + 1000 * number, number)
    assert await reader.find_timestamp(tier.log, tier.remote, NOW + 20_000) is None
    tier.log.raise_log_start_offset(7)
    assert await reader.find_timestamp(tier.log, tier.remote, NOW) == TimestampOffset(NOW + 7000, 7)


async def test_aborted_transactions_are_told_wherever_their_markers_are() -> None:
    """The reader's answers are compared with what the log itself said before anything was moved."""
    tier = Tier(local_retention_bytes=-1)
    log = tier.log
    for step, (producer, is_commit) in enumerate([(1, False), (2, True), (3, False), (1, False), (4, False)] * 4):
        for first in (True, False):
            batch = build_batch(
                [NewRecord(NOW, b"k", b"v" * 40)],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=step // 5 * 4 + (0 if first else 1) + (2 if step % 5 == 3 else 0),
                is_transactional=True,
            )
            log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.REPLICATION)
            tier.append(4 * (not first))
        marker = build_end_txn_marker(is_commit=is_commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW)
        log.append_as_leader(marker, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    tier.append(1)
    log.roll(NOW)
    said = {}
    for offset in range(log.log_end_offset):
        data = log.read(offset, 1, with_aborted=True)
        assert isinstance(data, FetchData)
        said[offset] = {(each.producer_id, each.first_offset) for each in data.aborted}
    assert len({frozenset(each) for each in said.values()}) > 5, "there is something to compare"
    await tier.copy()
    log.flush()
    log.configure(log.config.override({"local.retention.bytes": "0"}))
    for local_start in (log.segments[3].base_offset, log.log_end_offset):
        log.copied_offset = local_start
        log.delete_old_segments(NOW)
        assert log.local_log_start_offset == local_start
        reader = tier.new_reader(chunk_size=100_000)
        for offset in range(log.local_log_start_offset):
            found = await read(reader, tier, offset, 1, with_aborted=True)
            header = next(batches(found.records))[1]
            told = {(each.producer_id, each.first_offset) for each in found.aborted}
            assert told == said[offset], f"offset {offset}, batch {header.base_offset}"


async def test_a_chunk_is_read_once_for_all_who_wait_and_is_there_when_they_come_back() -> None:
    tier = Tier()
    tier.append(20)
    await tier.move()
    gate = asyncio.Event()

    async def slowly(fn: Callable[..., Any], *args: Any) -> Any:
        await gate.wait()
        return fn(*args)

    reader = RemoteReader(
        store=tier.store, options=tier.new_reader()._options, limits=tier.new_reader()._limits, clock=tier.clock, elsewhere=slowly
    )
    waiting = [asyncio.create_task(read(reader, tier, 0, 100)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(tier.store.reads) == len(set(tier.store.reads)) == 2, "one index and one chunk are read"
    await read(reader, tier, 0, 100)
    assert len(tier.store.reads) == 2
    gate.clear()
    reader.chunks.discard((next(iter(tier.remote.segments)), 0))
    waiting = [asyncio.create_task(read(reader, tier, 0, 100)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False, False]
    assert len(tier.store.reads) == 3


async def test_reading_ahead_goes_on_into_the_next_segment_and_within_its_limit() -> None:
    tier = Tier()
    tier.append(40)
    await tier.move()
    reader = tier.new_reader(chunk_size=500, prefetch_size=1500)
    await read(reader, tier, 0, 200)
    await asyncio.sleep(0.01)
    chunks = [(name[-30:], start) for name, start, size in tier.store.reads if name.endswith(".log")]
    assert len(chunks) >= 3 and len({name for name, _ in chunks}) == 2
    assert sum(size or 0 for name, _, size in tier.store.reads if name.endswith(".log")) <= 500 + 1500 + 500


async def test_too_many_reads_are_turned_away() -> None:
    tier = Tier()
    tier.append(20)
    await tier.move()
    reader = tier.new_reader(reader_threads=1, reader_max_pending=1)
    results = await asyncio.gather(*(read(reader, tier, offset) for offset in (0, 10, 15, 19)), return_exceptions=True)
    assert any(isinstance(result, Busy) for result in results) and any(not isinstance(result, Busy) for result in results)


async def test_a_store_that_fails_is_an_error_and_is_asked_again() -> None:
    tier = Tier()
    tier.append(20)
    await tier.move()
    reader = tier.new_reader()

    def fail(call: str, name: str) -> None:
        raise OSError("the network is gone")

    tier.store.hook = fail
    with pytest.raises(OSError, match="network"):
        await read(reader, tier, 0)
    tier.store.hook = lambda call, name: None
    assert len((await read(reader, tier, 0)).records)


def test_the_cache_lets_go_what_was_used_least_recently() -> None:
    cache: ByteCache[int] = ByteCache(100)
    for number in range(4):
        cache.put(number, memoryview(bytes(30)), now_ms=number)
    assert [number in cache for number in range(4)] == [False, True, True, True] and cache.byte_count == 90
    cache.get(1, now_ms=9)
    cache.put(5, memoryview(bytes(40)), now_ms=9)
    assert [number in cache for number in (1, 2, 3, 5)] == [True, False, True, True]
    cache.put(6, memoryview(bytes(101)))
    assert 6 not in cache and cache.byte_count == 100
    cache.drop_unused_since(9)
    assert [number in cache for number in (1, 3, 5)] == [True, False, True]


def test_a_quota_holds_on_average() -> None:
    quota, now = ByteQuota(), 10_000
    waits = [quota.take(500, 1000, now) for _ in range(5)]
    assert waits == [0, 0, 0, 500, 1000], "a second's worth at once, then half a second for each 500 bytes"
    assert quota.take(500, 1000, now + 60_000) == 0


async def test_transactions_that_a_lost_leader_had_decided_otherwise() -> None:
    """After an unclean election a lost leader's segment begins with our records and goes on with its own; its index has its own markers."""
    tier = Tier(segment_bytes=100_000)
    log = tier.log
    log.verifies_transactions = False

    def append(producer_id: int, *, epoch: int, sequence: int = 0) -> None:
        batch = build_batch(
            [NewRecord(NOW, b"k", b"v")], producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )
        assert isinstance(log.append_from_client(batch, leader_epoch=epoch, now_ms=NOW), AppendResult)

    def decide(producer_id: int, *, is_commit: bool, epoch: int) -> None:
        marker = build_end_txn_marker(is_commit=is_commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW)
        log.append_as_leader(marker, leader_epoch=epoch, now_ms=NOW, origin=AppendOrigin.COORDINATOR)

    for producer_id in (7, 8, 9):
        append(producer_id, epoch=0)
    decide(7, is_commit=False, epoch=0)
    fork = log.log_end_offset
    decide(8, is_commit=False, epoch=0)
    decide(9, is_commit=True, epoch=0)
    log.update_high_watermark(log.log_end_offset)
    await tier.move()
    log.truncate_fully_and_start_at(0, NOW)
    for producer_id in (7, 8, 9):
        append(producer_id, epoch=0)
    decide(7, is_commit=False, epoch=0)
    decide(8, is_commit=True, epoch=3)
    decide(9, is_commit=False, epoch=3)
    log.update_high_watermark(log.log_end_offset)
    astray = tier.remote.find(0, 0)
    assert astray is not None and astray.end_offset > fork and shared_end(astray, log.epochs.entries) == fork
    log.segments[0].base_offset, log._segments.bases = fork, [fork]  # as if everything before the fork were in remote storage only
    found = await read(tier.new_reader(chunk_size=100_000), tier, 0, 100_000, with_aborted=True)
    assert [header.base_offset for _, header in batches(found.records)] == [0, 1, 2, 3]
    assert sorted((each.producer_id, each.first_offset) for each in found.aborted) == [(7, 0), (9, 2)]


@pytest.mark.parametrize(
    ("lineage", "expected"),
    [
        ([(0, 0), (2, 15)], 25),
        ([(0, 0), (2, 15), (5, 22)], 22),
        ([(0, 0), (1, 12)], 12),
        ([(0, 0), (3, 15)], 15),
        ([(2, 18)], 25),
        ([(2, 18), (4, 20)], 20),
    ],
)
def test_up_to_where_a_segment_is_of_this_history(lineage: list[tuple[int, int]], expected: int) -> None:
    segment = RemoteSegment(
        where=WHERE,
        id=UUID(int=1),
        start_offset=10,
        end_offset=24,
        leader_epochs=(EpochEntry(0, 10), EpochEntry(2, 15)),
        max_timestamp_ms=NOW,
        size=1,
        broker_id=1,
        event_timestamp_ms=NOW,
    )
    assert shared_end(segment, [EpochEntry(*entry) for entry in lineage]) == expected
