import asyncio
import errno
import random
from collections.abc import Iterator

import pytest

from moldau.storage.config import LogConfig
from moldau.storage.flush.flusher import Flusher
from moldau.storage.flush.queue import SYNCS_AT_ONCE, FlushJob, FlushQueue
from moldau.storage.log import AppendResult, Log
from moldau.storage.producers.state import AppendOrigin
from moldau.testing.files import Fault, MemoryFiles
from moldau.testing.loop import SimLoop
from proof.storage.logs import NOW_MS, SomeBatch, append, append_as, batches_of_every_kind, open_log


def some_logs(count: int, files: MemoryFiles | None = None) -> list[Log]:
    files = files or MemoryFiles()
    return [open_log(files, f"/d{number}", LogConfig()) for number in range(count)]


def a_sync_that_begins(log: Log) -> tuple[FlushQueue, FlushJob, Iterator[SomeBatch]]:
    """A sync begins with the first of some batches; the others are still to be appended."""
    batches = batches_of_every_kind(1, 10)
    append(log, next(batches))
    queue = FlushQueue()
    queue.want(log)
    job = queue.take()
    assert job is not None and queue.take() is None
    return queue, job, batches


def test_appends_during_a_sync_share_the_next_one() -> None:
    files = MemoryFiles()
    (log,) = some_logs(1, files)
    queue, first, batches = a_sync_that_begins(log)
    covered = log.log_end_offset

    def append_the_rest(call: str, path: str) -> None:
        if call == "sync" and path.endswith(".log"):
            files.hook = None
            for batch in batches:
                append(log, batch)
                queue.want(log)
            assert queue.take() is None  # one sync at a time

    files.hook = append_the_rest
    first.sync()
    assert queue.finish(first) == covered < log.log_end_offset
    second = queue.take()
    assert second is not None
    second.sync()
    assert queue.finish(second) == log.log_end_offset and queue.take() is None and queue.is_idle


def test_what_is_appended_until_the_disk_is_asked_shares_the_sync() -> None:
    (log,) = some_logs(1)
    queue, job, batches = a_sync_that_begins(log)
    for batch in batches:
        append(log, batch)
        queue.want(log)
    job.sync()
    assert queue.finish(job) == log.log_end_offset
    tells = queue.take()
    assert tells is not None and tells.flush is None, "nothing is left to be synced, and those who wait are told"
    assert queue.finish(tells) == log.log_end_offset
    assert queue.take() is None and queue.is_idle


def test_what_went_into_the_next_segment_waits_for_the_next_sync() -> None:
    (log,) = some_logs(1)
    queue, job, batches = a_sync_that_begins(log)
    covered = log.log_end_offset
    append(log, next(batches))
    log.roll(NOW_MS)
    append(log, next(batches))
    job.sync()
    assert queue.finish(job) == covered < log.log_end_offset


def test_logs_take_turns_and_only_so_many_at_once() -> None:
    logs = some_logs(5)
    queue = FlushQueue(limit=2)
    for log in logs:
        append(log, next(batches_of_every_kind(1, 1)))
        queue.want(log)
    order = []
    while not queue.is_idle:
        jobs = [job for job in (queue.take(), queue.take(), queue.take()) if job is not None]
        assert 1 <= len(jobs) <= 2
        for job in jobs:
            job.sync()
            queue.finish(job)
            order.append(job.log)
    assert order == logs and all(log.is_flushed for log in logs)


def test_a_failed_sync_moves_nothing_and_takes_the_log_offline() -> None:
    files = MemoryFiles()
    (log,) = some_logs(1, files)
    append(log, next(batches_of_every_kind(1, 1)))
    queue = FlushQueue()
    queue.want(log)
    job = queue.take()
    assert job is not None
    assert queue.finish(job, OSError("the disk is gone")) == 0
    assert log.failure is not None
    queue.want(log)
    job = queue.take()
    assert job is not None and job.flush is None, "those who wait are told of the failure"


def test_what_is_truncated_during_a_sync_is_not_called_flushed() -> None:
    (log,) = some_logs(1)
    for batch in batches_of_every_kind(1, 10):
        append(log, batch)
    queue = FlushQueue()
    queue.want(log)
    job = queue.take()
    assert job is not None
    log.truncate_to(2)
    job.sync()
    assert queue.finish(job) <= 2


def test_a_segment_that_is_written_to_again_after_a_truncation_during_its_sync_is_synced_again() -> None:
    files = MemoryFiles()
    (log,) = some_logs(1, files)
    synced: list[str] = []
    files.hook = lambda call, path: synced.append(path) if call == "sync" else None
    batches = batches_of_every_kind(1, 10)
    queue = FlushQueue()
    append(log, next(batches))
    sealed = log.active_segment
    log.roll(NOW_MS)
    append(log, next(batches))
    queue.want(log)
    job = queue.take()
    assert job is not None
    job.sync()
    log.truncate_to(0)
    append(log, next(batches))
    log.roll(NOW_MS)
    append(log, next(batches))
    queue.finish(job)
    assert log.segments[0] is sealed and log.active_segment is not sealed
    synced.clear()
    queue.want(log)
    job = queue.take()
    assert job is not None
    job.sync()
    assert queue.finish(job) == log.log_end_offset
    assert sealed.file.path in synced


def test_the_shell_tells_when_it_is_done_and_when_it_failed() -> None:
    async def scenario(fault: Fault | None) -> tuple[int, bool, int]:
        files = MemoryFiles(slow_ms=1)
        (log,) = some_logs(1, files)
        told: list[Log] = []
        flusher = Flusher(files, told.append)
        append(log, next(batches_of_every_kind(1, 1)))
        files.hook = lambda call, path: fault if call == "sync" else None
        flusher.want(log)
        assert not told
        await flusher.drain()
        return len(told), log.is_flushed, int(log.failure is not None)

    assert SimLoop().run_until_complete(scenario(None)) == (1, True, 0)
    assert SimLoop().run_until_complete(scenario(Fault())) == (1, False, 1)


def test_waiters_of_one_log_that_fail_keep_no_other_log_from_its_flush(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> list[Log]:
        files = MemoryFiles()
        logs = some_logs(2 * SYNCS_AT_ONCE, files)
        told: list[Log] = []

        def tell(log: Log) -> None:
            told.append(log)
            raise RuntimeError("a bug of whoever waits")

        flusher = Flusher(files, tell)
        for log, batch in zip(logs, batches_of_every_kind(1, len(logs)), strict=True):
            append(log, batch)
            flusher.want(log)
        await flusher.drain()
        return told

    assert len(SimLoop().run_until_complete(scenario())) == 2 * SYNCS_AT_ONCE
    assert "a bug of whoever waits" in caplog.text


def test_what_is_appended_until_the_loop_s_next_turn_shares_one_sync() -> None:
    async def scenario() -> int:
        files = MemoryFiles()
        (log,) = some_logs(1, files)
        syncs: list[str] = []
        files.hook = lambda call, path: syncs.append(path) if call == "sync" and path.endswith(".log") else None
        flusher = Flusher(files, lambda _: None)
        for number, batch in enumerate(batches_of_every_kind(1, 5)):
            if number == 3:
                await asyncio.sleep(0)
            append(log, batch)
            flusher.want(log)
        await flusher.drain()
        assert log.is_flushed
        return len(syncs)

    assert SimLoop().run_until_complete(scenario()) == 1


def test_a_log_deleted_during_a_sync_does_no_harm() -> None:
    files = MemoryFiles()
    log = open_log(files, "/d", LogConfig(segment_bytes=2000))
    for batch in batches_of_every_kind(1, 20):
        append(log, batch)
    assert len(log.segments) > 2
    job = FlushJob(log, log.begin_flush())
    files.rename("/d", "/d.0123-delete")
    log.moved_to("/d.0123-delete")
    for segment in log.segments:
        segment.rename_suffix(".deleted")
    job.sync()


@pytest.mark.parametrize("epoch", [0, 7])
def test_a_flush_that_overtakes_another_carries_all_that_the_other_carries(epoch: int) -> None:
    """An answer must not precede any of these: the name of a new segment, its neighbour's indexes, and a new leader epoch."""
    files = MemoryFiles()
    log = open_log(files, "/d", LogConfig())
    batches = batches_of_every_kind(1, 10)
    append(log, next(batches)._replace(leader_epoch=0))
    log.flush()
    log.roll(NOW_MS)
    append(log, next(batches)._replace(leader_epoch=epoch))
    first = log.begin_flush()
    append(log, next(batches)._replace(leader_epoch=epoch))
    second = log.begin_flush()
    second.sync()
    promised = log.end_flush(second)
    assert promised == log.log_end_offset
    for seed in range(50):
        after = open_log(files.crashed(random.Random(seed)), "/d", LogConfig(), recovery_point=promised)
        assert after.log_end_offset >= promised and after.epochs.latest_epoch == epoch
    first.sync()
    assert log.end_flush(first) == promised and log.durability.owes_nothing and log.epochs.staged is None


def test_a_flush_whose_epoch_was_overtaken_does_not_count_and_comes_again() -> None:
    files = MemoryFiles()
    (log,) = some_logs(1, files)
    queue, job, batches = a_sync_that_begins(log)
    append(log, next(batches)._replace(leader_epoch=7))
    job.sync()
    assert queue.finish(job) == 0
    again = queue.take()
    assert again is not None
    again.sync()
    assert queue.finish(again) == log.log_end_offset
    after = open_log(files.crashed(random.Random(1)), "/d0", LogConfig(), recovery_point=log.recovery_point)
    assert after.epochs.entries == log.epochs.entries


def test_torn_bytes_that_were_synced_do_not_stand_for_what_takes_their_place() -> None:
    files = MemoryFiles()
    (log,) = some_logs(1, files)
    queue, job, batches = a_sync_that_begins(log)
    covered = log.log_end_offset
    files.hook = lambda call, path: Fault(errno.ENOSPC, written=5000) if call == "pwrite" else None
    failed = append_as(AppendOrigin.CLIENT, log, bytearray(next(batches).content), leader_epoch=0)
    assert not isinstance(failed, AppendResult) and log.failure is None
    files.hook = None
    size = log.active_segment.size
    log.active_segment.file.pwrite([bytes(5000)], size)
    job.sync()  # the torn bytes are still there
    log.active_segment.file.truncate(size)
    append(log, next(batches))
    queue.want(log)
    assert queue.finish(job) == covered < log.log_end_offset


def test_whoever_waits_is_told_though_another_flush_was_faster() -> None:
    async def scenario() -> int:
        files = MemoryFiles(slow_ms=1)
        (log,) = some_logs(1, files)
        told: list[Log] = []
        flusher = Flusher(files, told.append)
        append(log, next(batches_of_every_kind(1, 1)))
        flusher.want(log)
        log.flush()
        await flusher.drain()
        return len(told)

    assert SimLoop().run_until_complete(scenario()) == 1


def test_who_waits_for_a_flush_of_a_log_whose_disk_fails_is_told() -> None:
    async def scenario() -> bool:
        files = MemoryFiles()
        (log,) = some_logs(1, files)
        append(log, next(batches_of_every_kind(1, 1)))
        files.hook = lambda call, path: Fault() if call == "sync" else None
        await asyncio.wait_for(Flusher(files, lambda _: None).flush(log), 30)
        return log.failure is not None

    assert SimLoop().run_until_complete(scenario())
