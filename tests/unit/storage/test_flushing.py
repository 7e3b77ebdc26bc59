import asyncio
from collections.abc import Iterator

from moldau.storage.config import LogConfig
from moldau.storage.flusher import Flusher
from moldau.storage.flushing import FlushJob, FlushQueue
from moldau.storage.log import Log
from moldau.testing.files import Fault, MemoryFiles
from moldau.testing.logs import NOW_MS, SomeBatch, append, batches_of_every_kind, open_log


def some_logs(count: int, files: MemoryFiles | None = None) -> list[Log]:
    files = files or MemoryFiles()
    return [open_log(files, f"/d{number}", LogConfig()) for number in range(count)]


def a_sync_that_begins(log: Log) -> tuple[FlushQueue, FlushJob, Iterator[SomeBatch]]:
    """Of the first of some batches; the others are still to be appended."""
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
    assert queue.take() is None


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

    assert asyncio.run(scenario(None)) == (1, True, 0)
    assert asyncio.run(scenario(Fault())) == (1, False, 1)


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

    assert asyncio.run(scenario()) == 1


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
