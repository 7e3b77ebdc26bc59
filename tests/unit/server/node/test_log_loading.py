"""The start of all logs: in parallel, with reports of the progress, and with one error for everything that is damaged."""

import errno
import random
from uuid import UUID

import pytest

from moldau.server.node.log_loading import LogLoading, SeveralDamaged, size_text
from moldau.storage.config import LogConfig
from moldau.storage.manager import LogManager
from moldau.storage.recovery import LogDamaged
from moldau.testing.clock import SimClock
from moldau.testing.files import Fault, MemoryFiles
from moldau.testing.loop import SimLoop
from moldau.types import TopicPartition
from proof.storage.logs import NOW_MS, append, batches_of_every_kind

CONFIG = LogConfig.load({})
DIRECTORIES = ["/a", "/b"]
LOGS = [TopicPartition("t", number) for number in range(6)]


def manager_on(files: MemoryFiles) -> LogManager:
    manager = LogManager(files, DIRECTORIES, CONFIG, unique=lambda: UUID(int=7))
    manager.open(NOW_MS)
    return manager


def killed(*, checkpointed: bool = True) -> MemoryFiles:
    """Six logs on stable storage, three in each of two folders, after a power failure."""
    files = MemoryFiles(slow_ms=4000)
    manager = manager_on(files)
    for where in LOGS:
        log = manager.get_or_create(where, CONFIG, now_ms=NOW_MS)
        log.verifies_transactions = False
        for batch in batches_of_every_kind(where.partition, 5):
            append(log, batch)
        log.flush()
    if checkpointed:
        manager.write_checkpoints()
    files.sync_everything()
    return files.crashed(random.Random(1))


def damage(files: MemoryFiles, path: str) -> None:
    file = files.open(f"{path}/00000000000000000000.log")
    file.pwrite([b"damage"], 100)


def load(files: MemoryFiles, said: list[str]) -> LogManager:
    loop = SimLoop()
    manager = manager_on(files)
    loading = LogLoading(files, SimClock(loop), manager, threads_per_directory=1, tell=said.append)
    loop.run_until_complete(loading.run(list(manager.found(lambda _: CONFIG, NOW_MS))))
    return manager


def test_all_logs_are_loaded_and_progress_is_told() -> None:
    said: list[str] = []
    manager = load(killed(), said)
    assert sorted(manager.logs) == LOGS
    assert said[0].startswith("loading logs: ") and " of 6, " in said[0] and said[0].endswith(" left to read")


def test_what_is_read_is_known_beforehand() -> None:
    manager = manager_on(killed())
    for found in manager.found(lambda _: CONFIG, NOW_MS):
        found.measure()
        found.load()
        assert found.progress.bytes_to_read == found.progress.bytes_read == found.load().size > 0


def test_one_damaged_log_is_named_with_the_way_out() -> None:
    files = killed()
    damage(files, "/a/t-0")
    with pytest.raises(LogDamaged, match=r"/a/t-0/0+\.log is damaged at byte 92.*Move its directory away"):
        load(files, [])


def test_all_damaged_logs_are_named() -> None:
    files = killed()
    damage(files, "/a/t-0")
    damage(files, "/b/t-1")
    with pytest.raises(SeveralDamaged, match=r"2 logs cannot be opened:\n(.|\n)*/a/t-0(.|\n)*/b/t-1|/b/t-1(.|\n)*/a/t-0"):
        load(files, [])


def test_a_folder_whose_disk_fails_goes_offline_and_the_other_one_is_loaded() -> None:
    files = killed()
    files.hook = lambda call, path: Fault(errno.EIO) if call == "pread" and path.startswith("/b/t-3") else None
    manager = load(files, [])
    assert [directory.is_online for directory in manager.directories] == [True, False]
    assert {manager.directory_of(where).path for where, log in manager.logs.items() if log.failure is None} == {"/a"}
    assert len([log for log in manager.logs.values() if log.failure is None]) == 3


def test_no_folder_left_is_an_error() -> None:
    files = killed()
    files.hook = lambda call, path: Fault(errno.EIO) if call == "pread" else None
    with pytest.raises(OSError, match="Input/output error"):
        load(files, [])


def test_sizes_as_text() -> None:
    assert [size_text(count) for count in (0, 999, 1000, 12_345_678, 4_294_967_296, 10**15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "12.3 MB",
        "4.3 GB",
        "1000 TB",
    ]
