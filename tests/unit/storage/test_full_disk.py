"""On a disk without room nothing goes offline and nothing is lost, and whatever makes room is done."""

import dataclasses
import itertools
import random
from collections.abc import Callable
from errno import EIO, ENOSPC
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import batches
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.config import LogConfig
from moldau.storage.folders.checkpoints import RECOVERY_POINTS
from moldau.storage.log import AppendResult, Flush, Log
from moldau.storage.manager import LogManager
from moldau.testing.files import Fault, MemoryFiles
from moldau.types import TopicPartition

NOW = 1_700_000_000_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = LogConfig(file_delete_delay_ms=100)
MAKING = frozenset({"open", "mkdir", "pwrite", "truncate", "rename"})


def started(files: MemoryFiles) -> LogManager:
    numbers = itertools.count(1)
    manager = LogManager(files, ["/data"], CONFIG, unique=lambda: UUID(int=next(numbers)))
    manager.open(NOW)
    manager.load_all(lambda topic: CONFIG, NOW)
    return manager


def create(manager: LogManager, where: TopicPartition) -> Log:
    return manager.get_or_create(where, CONFIG, now_ms=NOW, topic_id=UUID(int=7))


def append(log: Log, count: int) -> None:
    for _ in range(count):
        assert isinstance(log.append_from_client(build_batch([NewRecord(NOW, b"k", b"v")]), leader_epoch=0, now_ms=NOW), AppendResult)
    log.update_high_watermark(log.log_end_offset)


def no_room(call: str, path: str) -> Fault | None:
    """No room for content: names can still be given, changed and taken away."""
    return Fault(ENOSPC, written=1) if call == "pwrite" else None


def without_checkpoints(call: str, path: str) -> Fault | None:
    return Fault(ENOSPC) if call == "pwrite" and "checkpoint" in path else None


def with_a_log_and_no_room_for_checkpoints() -> tuple[MemoryFiles, LogManager]:
    """A log of five records, all of them in the checkpoints, on a disk that has no room for new checkpoints."""
    files = MemoryFiles()
    manager = started(files)
    append(create(manager, T0), 5)
    manager.logs[T0].flush()
    manager.write_checkpoints()
    files.hook = without_checkpoints
    return files, manager


def test_checkpoints_stay_as_they_are_and_are_written_when_there_is_room() -> None:
    files = MemoryFiles()
    manager = started(files)
    log = create(manager, T0)
    append(log, 3)
    log.flush()
    assert manager.write_checkpoints()
    append(log, 3)
    log.flush()
    before = files.listdir("/data")
    files.hook = no_room
    assert not manager.write_checkpoints()
    assert files.listdir("/data") == before, "no half-written file takes the room that there is"
    assert files.read(f"/data/{RECOVERY_POINTS}") == b"0\n1\nt 0 3\n" and manager.directories[0].is_online
    files.hook = None
    assert manager.write_checkpoints()
    assert files.read(f"/data/{RECOVERY_POINTS}") == b"0\n1\nt 0 6\n"


def test_a_disk_that_fails_still_goes_offline() -> None:
    files = MemoryFiles()
    manager = started(files)
    create(manager, T0)
    files.hook = lambda call, path: Fault(EIO) if call == "pwrite" else None
    assert not manager.write_checkpoints()
    assert not manager.directories[0].is_online


def test_records_are_not_said_to_be_deleted_before_that_is_noted() -> None:
    files = MemoryFiles()
    manager = started(files)
    log = create(manager, T0)
    append(log, 5)
    log.flush()
    files.hook = no_room
    assert manager.delete_records_before(log, 3) is ErrorCode.KAFKA_STORAGE_ERROR
    files.hook = None
    assert manager.delete_records_before(log, 3) == 3 and log.failure is None


@pytest.mark.parametrize("call_number", range(12))
def test_a_log_that_cannot_be_made_leaves_nothing_and_can_be_made_later(call_number: int) -> None:
    files = MemoryFiles()
    manager = started(files)
    append(create(manager, T1), 1)
    before = files.listdir("/data")
    numbers = itertools.count()
    files.hook = lambda call, path: Fault(ENOSPC) if call in MAKING and next(numbers) == call_number else None
    try:
        create(manager, T0)
    except OSError:
        assert T0 not in manager.logs and files.listdir("/data") == before
    files.hook = None
    assert manager.directories[0].is_online
    append(create(manager, T0), 1)
    append(create(manager, T1), 1)


def test_who_deletes_logs_makes_room_and_a_new_one_of_that_name_waits_for_it() -> None:
    files, manager = with_a_log_and_no_room_for_checkpoints()
    assert manager.delete([T0], NOW) == 1
    assert manager.directories[0].is_online and "t-0" not in files.listdir("/data")
    with pytest.raises(OSError, match="No space"):
        create(manager, T0)
    files.hook = None
    append(create(manager, T0), 1)
    files.sync_everything()
    files.crash(random.Random(1))
    assert started(files).logs[T0].log_end_offset == 1, "the checkpoints of the old log do not bind the new one"


def test_a_crash_after_a_deletion_that_was_not_noted_does_not_bind_a_new_log_either() -> None:
    files, manager = with_a_log_and_no_room_for_checkpoints()
    manager.delete([T0], NOW)
    files.hook = None
    files.crash(random.Random(1))
    manager = started(files)
    append(create(manager, T0), 1)
    files.sync_everything()
    files.crash(random.Random(1))
    assert started(files).logs[T0].log_end_offset == 1


@pytest.mark.parametrize("fails", [no_room, without_checkpoints])
@pytest.mark.parametrize("seed", range(5))
def test_retention_makes_room_and_a_crash_leaves_no_gap(seed: int, fails: Callable[[str, str], Fault | None]) -> None:
    files = MemoryFiles(seed=seed)
    manager = started(files)
    log = create(manager, T0)
    for _ in range(4):
        append(log, 3)
        log.roll(NOW)
    append(log, 2)
    log.flush()
    manager.write_checkpoints()
    log.configure(dataclasses.replace(CONFIG, retention_bytes=log.segments[-2].size + log.segments[-1].size))
    files.hook = fails
    assert manager.delete_old_segments(NOW, 0) == 3
    assert log.log_start_offset == 9 and manager.directories[0].is_online
    files.hook = None
    files.crash(random.Random(seed))
    again = started(files).logs[T0]
    assert (again.log_start_offset, again.log_end_offset) == (9, 14)


def epochs_of(log: Log) -> list[tuple[int, int]]:
    """The first offset of each epoch, by the batches."""
    found: dict[int, int] = {}
    data = log.read(log.log_start_offset, 1 << 20)
    assert not isinstance(data, ErrorCode)
    if data.records is not None:
        for _, header in batches(memoryview(data.records.read())):
            found.setdefault(header.partition_leader_epoch, header.base_offset)
    return list(found.items())


def from_a_leader(offset: int, *epochs: int) -> memoryview:
    """One batch of one record for each of these epochs."""
    said = bytearray()
    for number, epoch in enumerate(epochs):
        said += build_batch([NewRecord(NOW, b"k", b"v")], base_offset=offset + number, leader_epoch=epoch)
    return memoryview(said)


def no_room_in_logs(call: str, path: str) -> Fault | None:
    return Fault(ENOSPC, written=70) if call == "pwrite" and path.endswith(".log") else None


class Follower:
    """A follower's log on a disk that is full now and then.  Its process dies, and its power fails."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = MemoryFiles(seed=seed)
        self.files.mkdir("/data/t-0")
        self.files.sync_everything()
        self.log = self._opened(0)
        self.flushes: list[Flush] = []
        self.synced: list[Flush] = []
        self.flushed = self.epoch = 0

    def _opened(self, recovery_point: int) -> Log:
        return Log.open(self.files, "/data/t-0", T0, CONFIG, now_ms=NOW, recovery_point=recovery_point)

    def append(self) -> None:
        before = epochs_of(self.log)
        last = before[-1][0] if before else 0
        epochs = sorted(self.chance.randint(last, last + 3) for _ in range(self.chance.choice((1, 2, 3))))
        self.files.hook = no_room_in_logs if self.chance.random() < 0.5 else None
        said = self.log.append_as_follower(from_a_leader(self.log.log_end_offset, *epochs), epochs[-1])
        assert isinstance(said, AppendResult) is (self.files.hook is None)
        self.files.hook = None

    def begin_flush(self) -> None:
        self.flushes.append(self.log.begin_flush())

    def sync(self) -> None:
        """A flush asks the disk.  The log learns of it later."""
        if self.flushes:
            self.synced.append(self.flushes.pop(0))
            self.synced[-1].sync()

    def end_flush(self) -> None:
        if self.synced:
            self.flushed = max(self.flushed, self.log.end_flush(self.synced.pop(0)))

    def truncate(self) -> None:
        offset = self.chance.randint(self.flushed, self.log.log_end_offset)
        self.log.lower_recovery_point(offset)
        self.log.truncate_to(offset, NOW)

    def die(self) -> None:
        end = self.log.log_end_offset
        self._restart()
        assert self.log.log_end_offset == end, "the page cache outlives the process"

    def lose_power(self) -> None:
        self.files.crash(self.chance)
        self._restart()

    def _restart(self) -> None:
        known = dict(epochs_of(self.log))
        self.flushes.clear()
        self.synced.clear()
        self.log = self._opened(self.flushed)
        assert self.log.log_end_offset >= self.flushed
        assert all(known.get(epoch) == offset for epoch, offset in epochs_of(self.log) if offset < self.flushed)
        self.flushed = self.log.flush()


@pytest.mark.parametrize("seed", range(60))
def test_the_epochs_of_batches_that_had_no_room_are_not_known(seed: int) -> None:
    follower = Follower(seed)
    flushing = [follower.begin_flush, follower.sync, follower.end_flush]
    steps = [*[follower.append] * 6, *flushing * 2, follower.truncate, follower.die, follower.lose_power]
    for _ in range(40):
        follower.chance.choice(steps)()
        assert follower.log.epochs.entries == epochs_of(follower.log)


@pytest.mark.parametrize("fails", [no_room, without_checkpoints])
def test_a_stop_without_room_is_no_clean_one_and_every_record_is_on_the_disk(fails: Callable[[str, str], Fault | None]) -> None:
    files = MemoryFiles()
    manager = started(files)
    for where in (T0, T1):
        append(create(manager, where), 3)
    files.hook = fails
    errors = manager.close(broker_epoch=7)
    assert [(path, error.errno) for path, error in errors.items()] == [("/data", ENOSPC)] and manager.directories[0].is_online
    files.hook = None
    files.crash(random.Random(1))
    again = started(files)
    assert not again.directories[0].was_clean
    assert [again.logs[where].log_end_offset for where in (T0, T1)] == [3, 3]


def test_a_stop_that_finds_room_the_second_time_is_a_clean_one() -> None:
    files = MemoryFiles()
    manager = started(files)
    log = create(manager, T0)
    append(log, 3)
    files.hook = no_room
    with pytest.raises(OSError, match="No space"):
        log.close()
    files.hook = None
    assert not manager.close(broker_epoch=7)
    files.crash(random.Random(1))
    again = started(files)
    assert again.directories[0].was_clean and again.logs[T0].log_end_offset == 3
