import asyncio
import dataclasses
import errno
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.cleaner.compactor import Compactor, clean_here, clean_in_process, pace_of
from moldau.storage.cleaner.plan import CleaningPlan, CleaningResult
from moldau.storage.config import CleanerConfig, LogConfig
from moldau.storage.files import Files, SystemFiles
from moldau.storage.flush.flusher import Flusher
from moldau.storage.folders.checkpoints import CLEANER_OFFSETS
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.testing.files import MemoryFiles
from moldau.testing.loop import SimLoop
from moldau.types import TopicPartition
from proof.storage.logs import NOW_MS, stored_records

T = TypeVar("T")

COMPACTED = dataclasses.replace(LogConfig.load({}), cleanup_policy=("compact",))
OPTIONS = CleanerConfig.load({"log.cleaner.backoff.ms": "1"})
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FixedClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


def a_manager(files: Files, path: str) -> LogManager:
    manager = LogManager(files, [path], COMPACTED, unique=lambda: UUID(int=1))
    manager.open(NOW_MS)
    return manager


def fill(manager: LogManager, where: TopicPartition, *, rolls: int) -> Log:
    log = manager.get_or_create(where, COMPACTED, now_ms=NOW_MS)
    for number in range(rolls):
        log.append_from_client(build_batch([NewRecord(NOW_MS, b"k", b"%d" % number)]), leader_epoch=0, now_ms=NOW_MS)
        log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


async def turns() -> None:
    """Gives the loop more turns than it can need."""
    for _ in range(100):
        await asyncio.sleep(0)


def test_the_dirtiest_log_first_and_each_once() -> None:
    files = MemoryFiles()
    manager = a_manager(files, "/data")
    first, second = fill(manager, T0, rolls=2), fill(manager, T1, rolls=4)
    manager.directories[0].cleaner_offsets[T0] = 1
    compactor = Compactor(manager, FixedClock(), OPTIONS, flush=Flusher(files, lambda _: None).flush, clean_elsewhere=clean_here(files))
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) == T1
    assert len(stored_records(second)) == 1
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) is None  # half of the first is clean: not dirty enough
    assert len(stored_records(first)) == 2
    manager.write_checkpoints()
    assert files.read(f"/data/{CLEANER_OFFSETS}") == b"0\n2\nt 0 1\nt 1 4\n"


def test_a_process_of_its_own_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import moldau

    monkeypatch.setenv("PYTHONPATH", str(Path(moldau.__file__).parents[1]))
    files = SystemFiles()
    manager = a_manager(files, str(tmp_path))
    log = fill(manager, T0, rolls=3)
    compactor = Compactor(manager, FixedClock(), OPTIONS, flush=Flusher(files, lambda _: None).flush, clean_elsewhere=clean_in_process)
    assert asyncio.run(compactor.clean_dirtiest()) == T0
    assert [record.offset for record in stored_records(log)] == [2]
    manager.close()


def test_a_damaged_log_is_left_alone_and_said_so() -> None:
    files = MemoryFiles()
    manager = a_manager(files, "/data")
    log = fill(manager, T0, rolls=2)
    files.open(f"/data/t-0/{0:020d}.log").pwrite([b"\xff"], 65)
    compactor = Compactor(manager, FixedClock(), OPTIONS, flush=Flusher(files, lambda _: None).flush, clean_elsewhere=clean_here(files))
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) == T0
    assert "the batch at offset 0 is damaged" in compactor.uncleanable[log] and log.failure is None
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) is None


class Elsewhere:
    """Cleans after something else has happened."""

    def __init__(self, files: Files, before: Callable[[], object]) -> None:
        self.files = files
        self.before = before
        self.is_over = False

    async def __call__(self, plan: CleaningPlan, options: CleanerConfig) -> CleaningResult:
        if not self.is_over:
            self.is_over = True
            self.before()
        return await clean_here(self.files)(plan, options)


def test_a_log_deleted_while_it_is_flushed_for_compaction_is_left_alone() -> None:
    class FlushWhichTakesLong(MemoryFiles):
        async def run(self, work: Callable[..., T], *arguments: object) -> T:
            manager.delete([T0], NOW_MS)
            return work(*arguments)

    files = FlushWhichTakesLong()
    manager = a_manager(files, "/data")
    log = fill(manager, T0, rolls=3)
    log.durability.recovery_point = 0
    compactor = Compactor(manager, FixedClock(), OPTIONS, flush=Flusher(files, lambda _: None).flush, clean_elsewhere=clean_here(files))
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) == T0
    assert log.failure is None and manager.directories[0].is_online


def test_a_topic_made_again_is_compacted_though_its_files_went_under_the_cleaner() -> None:
    files = MemoryFiles()
    manager = a_manager(files, "/data")
    gone = fill(manager, T0, rolls=3)
    gone.flush()
    compactor = Compactor(
        manager,
        FixedClock(),
        OPTIONS,
        flush=Flusher(files, lambda _: None).flush,
        clean_elsewhere=Elsewhere(files, lambda: manager.delete([T0], NOW_MS)),
    )
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) == T0
    assert gone.failure is None and not compactor.uncleanable and manager.directories[0].is_online
    made_again = fill(manager, T0, rolls=3)
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) == T0
    assert len(stored_records(made_again)) == 1


def test_a_full_disk_puts_compaction_off() -> None:
    files = MemoryFiles()
    manager = a_manager(files, "/data")
    log, other = fill(manager, T0, rolls=4), fill(manager, T1, rolls=2)
    for each in (log, other):
        each.flush()

    def fill_up() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    compactor = Compactor(
        manager, FixedClock(), OPTIONS, flush=Flusher(files, lambda _: None).flush, clean_elsewhere=Elsewhere(files, fill_up)
    )
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) in (T0, T1)
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) in (T0, T1), "the other log has its turn"
    assert SimLoop().run_until_complete(compactor.clean_dirtiest()) is None
    assert log.failure is None and other.failure is None and not compactor.uncleanable


def test_a_mistake_is_not_the_end_of_all_compaction(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> int:
        files = MemoryFiles()
        manager = a_manager(files, "/data")
        log = fill(manager, T0, rolls=3)

        def fail() -> None:
            raise RuntimeError("planted")

        compactor = Compactor(
            manager, FixedClock(), OPTIONS, flush=Flusher(files, lambda _: None).flush, clean_elsewhere=Elsewhere(files, fail)
        )
        compactor.start()
        for _ in range(10):
            await asyncio.sleep(OPTIONS.backoff_ms / 1000)
        await compactor.stop()
        return len(stored_records(log))

    assert SimLoop().run_until_complete(scenario()) == 1
    assert "planted" in caplog.text


def test_it_runs_until_it_is_stopped() -> None:
    async def scenario() -> int:
        files = MemoryFiles()
        manager = a_manager(files, "/data")
        log = fill(manager, T0, rolls=3)
        compactor = Compactor(manager, FixedClock(), OPTIONS, flush=Flusher(files, lambda _: None).flush, clean_elsewhere=clean_here(files))
        compactor.start()
        await turns()
        await compactor.stop()
        fill(manager, T1, rolls=3)
        await turns()
        return len(stored_records(log)) + len(stored_records(manager.logs[T1]))

    assert SimLoop().run_until_complete(scenario()) == 1 + 3


def test_options_that_are_set_meanwhile_hold_for_what_begins() -> None:
    given: list[float] = []
    may_end: list[asyncio.Event] = []

    async def elsewhere(plan: CleaningPlan, options: CleanerConfig) -> CleaningResult:
        given.append(options.io_max_bytes_per_second)
        may_end.append(asyncio.Event())
        await may_end[-1].wait()
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scenario() -> None:
        manager = a_manager(MemoryFiles(), "/data")
        for number in range(5):
            fill(manager, TopicPartition("t", number), rolls=3)
        compactor = Compactor(manager, FixedClock(), OPTIONS, flush=Flusher(manager.files, lambda _: None).flush, clean_elsewhere=elsewhere)
        compactor.start()
        await turns()
        assert given == [OPTIONS.io_max_bytes_per_second]
        compactor.take_options(dataclasses.replace(OPTIONS, threads=2, io_max_bytes_per_second=1000.0))
        await turns()
        assert given[1:] == [1000.0]
        compactor.take_options(dataclasses.replace(OPTIONS, threads=1, io_max_bytes_per_second=500.0))
        for event in list(may_end):
            event.set()
        await turns()
        assert given[2:] == [500.0], "one log is cleaned at a time again"
        await compactor.stop()
        compactor.take_options(dataclasses.replace(OPTIONS, threads=3))
        await turns()
        assert len(given) == 3, "the compactor was stopped"

    SimLoop().run_until_complete(scenario())


def test_the_pace_holds_what_goes_through_back(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("moldau.storage.cleaner.compactor.time.monotonic", lambda: 0.0)
    monkeypatch.setattr("moldau.storage.cleaner.compactor.time.sleep", slept.append)
    pace = pace_of(1000)
    for _ in range(3):
        pace(100)
    assert slept == pytest.approx([0.1, 0.2, 0.3])
