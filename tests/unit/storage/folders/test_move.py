"""A log moves to another folder while it works, and survives a crash and a fault at every step."""

import dataclasses
import errno
import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

import pytest

from moldau.storage.config import LogConfig
from moldau.storage.folders.directory import LogDirectory
from moldau.storage.folders.move import COPY_CHUNK, LogMove, TargetFailed
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.testing.files import Fault, MemoryFiles
from proof.storage.log_model import LogModel
from proof.storage.logs import NOW_MS, PARTITION, SomeBatch, append, batches_of_every_kind, stored_bytes
from proof.storage.recovery import CHANGING

CONFIG = dataclasses.replace(LogConfig.load({}), segment_bytes=1500, index_interval_bytes=100, file_delete_delay_ms=0, retention_ms=-1)
TOPIC_ID = UUID(int=999)
KILLED = pytest.mark.parametrize("seed", range(3))


class Moving:
    """A log in /a with some batches; appends go on while it moves to /b."""

    def __init__(self, files: MemoryFiles, seed: int = 1) -> None:
        self.files = files
        self.batches: Iterator[SomeBatch] = batches_of_every_kind(seed, 1000, max_records=3, max_value=60)
        self.model = LogModel()
        self.manager = started(files)
        self.log = self.manager.get_or_create(
            PARTITION, CONFIG, now_ms=NOW_MS, topic_id=TOPIC_ID, directory_id=None if seed else self.manager.directories[0].directory_id
        )
        self.log.verifies_transactions = False
        self.source = self.manager.directory_of(PARTITION)
        (self.target,) = (each for each in self.manager.directories if each is not self.source)
        self.append(25)
        self.flush()

    def append(self, count: int) -> None:
        for _ in range(count):
            batch = next(self.batches)
            content = bytearray(batch.content)
            content[0:8] = self.log.log_end_offset.to_bytes(8, "big")
            content[12:16] = batch.leader_epoch.to_bytes(4, "big")
            self.model.appended(bytes(content))
            append(self.log, batch)

    def flush(self) -> None:
        self.model.flushed(self.log.flush())

    def move(self) -> LogMove:
        """Moves the log to the end, with appends between the steps."""
        move = self.manager.begin_move(PARTITION, self.target)
        assert move is not None
        while (step := move.next_step()) is not None:
            try:
                step.run()
            except OSError as error:
                self.manager.move_failed(move, error)
                raise
            self.append(1)
            move.done(step)
        self.manager.finish_move(move, NOW_MS)
        self.model.flushed(self.log.log_end_offset)
        return move


def started(files: MemoryFiles) -> LogManager:
    numbers = iter(range(1, 1000))
    manager = LogManager(
        files, ["/a", "/b"], CONFIG, unique=lambda: UUID(int=next(numbers) + random.Random(len(files.listdir(""))).getrandbits(60))
    )
    manager.open(NOW_MS)
    manager.load_all(lambda _: CONFIG, NOW_MS)
    return manager


def check(model: LogModel, files: MemoryFiles) -> None:
    """After a crash the log is there once and whole, and a second start changes nothing."""
    manager = started(files)
    log = manager.get(PARTITION)
    assert log is not None, "the log is gone"
    wrong = model.allows(log)
    assert wrong is None, wrong
    before = log.directory, stored_bytes(log)
    for name in ("/a", "/b"):
        for entry in files.listdir(name):
            assert not entry.endswith("-future"), "a copy is left"
    manager.delete_due_files(NOW_MS)
    files.held_locks.clear()
    again = started(files).logs[PARTITION]
    assert (again.directory, stored_bytes(again)) == before


def test_a_log_moves_while_it_is_appended_to() -> None:
    moving = Moving(MemoryFiles())
    before = moving.log
    reader = moving.log.read(0, 100)
    first = reader.records.read()  # type: ignore[union-attr]
    move = moving.move()
    assert moving.manager.logs[PARTITION] is before and moving.manager.directory_of(PARTITION) is moving.target
    assert before.directory == f"{moving.target.path}/t-0"
    assert moving.model.allows(before) is None
    assert before.recovery_point == before.log_end_offset
    assert reader.records.read() == first, "a reader of the old files reads on"  # type: ignore[union-attr]
    assert moving.files.listdir(moving.source.path)[-1].endswith(f"{move.unique.hex}-delete")
    moving.append(5)
    moving.flush()
    moving.manager.delete_due_files(NOW_MS)
    assert not any(name.startswith("t-") for name in moving.files.listdir(moving.source.path))
    moving.manager.close()
    manager = started(moving.files)
    assert moving.model.allows(manager.logs[PARTITION]) is None
    assert manager.logs[PARTITION].topic_id == TOPIC_ID


def test_what_the_copy_has_is_known_while_it_is_made() -> None:
    moving = Moving(MemoryFiles())
    move = moving.manager.begin_move(PARTITION, moving.target)
    assert move is not None and move.size == 0 and move.offset_lag == moving.log.log_end_offset
    seen = []
    while (step := move.next_step()) is not None:
        step.run()
        move.done(step)
        seen.append((move.size, -move.offset_lag))
    assert seen == sorted(seen) and seen[-1] == (moving.log.size, 0)


def test_a_move_to_where_it_is_is_none_and_breaks_another_one_off() -> None:
    moving = Moving(MemoryFiles())
    move = moving.manager.begin_move(PARTITION, moving.target)
    assert moving.manager.begin_move(PARTITION, moving.target) is move
    assert moving.manager.begin_move(PARTITION, moving.source) is None
    assert move is not None and move.is_cancelled and moving.manager.moves == {}
    assert moving.manager.delete_due_files(NOW_MS) == 1
    assert not any(name.startswith("t-") for name in moving.files.listdir(moving.target.path))


@pytest.mark.parametrize("call_number", range(1, 12))
def test_a_target_that_is_full_loses_the_copy_and_nothing_else(call_number: int) -> None:
    moving = Moving(MemoryFiles())
    numbers = itertools.count(1)

    def full(call: str, path: str) -> Fault | None:
        is_theirs = "-future" in path and call in ("pwrite", "mkdir", "sync")
        return Fault(errno.ENOSPC) if is_theirs and next(numbers) == call_number else None

    moving.files.hook = full
    with pytest.raises(OSError):
        moving.move()
    assert next(numbers) > call_number, "the disk was full"
    assert moving.target.is_online and moving.source.is_online and not moving.manager.moves
    assert moving.manager.directory_of(PARTITION) is moving.source and moving.log.failure is None
    moving.move()
    assert moving.manager.directory_of(PARTITION) is moving.target and moving.model.allows(moving.log) is None


def test_the_copy_follows_what_happens_to_the_log() -> None:
    """Retention, compaction (which replaces a segment) and truncation happen to the log during the copy."""
    moving = Moving(MemoryFiles())
    move = moving.manager.begin_move(PARTITION, moving.target)
    assert move is not None
    copied_all = 0
    while (step := move.next_step()) is not None:
        step.run()
        move.done(step)
        copied_all += 1
    log = moving.log
    log.update_high_watermark(log.log_end_offset)
    assert log.delete_records_before(log.segments[2].base_offset + 1) == log.segments[2].base_offset + 1
    log.drop_below_start(NOW_MS)
    moving.model.highest_start = log.log_start_offset
    offset = log.active_segment.base_offset
    moving.model.truncated(offset)
    moving.manager.truncate_to(log, offset, NOW_MS)
    assert moving.model.allows(log) is None
    while (step := move.next_step()) is not None:
        step.run()
        move.done(step)
    moving.manager.finish_move(move, NOW_MS)
    moving.model.flushed(log.log_end_offset)
    assert moving.model.allows(log) is None
    names = [name for name in moving.files.listdir(log.directory) if name.endswith(".log")]
    assert names == [f"{segment.base_offset:020d}.log" for segment in log.segments]
    moving.manager.write_checkpoints()
    check(moving.model, moving.files.crashed(random.Random(1)))


@KILLED
def test_a_crash_at_every_step(seed: int) -> None:
    files = MemoryFiles()
    moving = Moving(files, seed + 1)
    chance = random.Random(seed)
    outcomes: dict[str, int] = {}

    def crash_here(call: str, path: str) -> None:
        if call in CHANGING:
            for _ in range(2):
                after = files.crashed(random.Random(chance.getrandbits(40)))
                check(moving.model, after)
                found = next(path for path in ("/a", "/b") if "t-0" in after.listdir(path))
                outcomes[found] = outcomes.get(found, 0) + 1

    files.hook = crash_here
    moving.move()
    files.hook = None
    check(moving.model, files.crashed(chance))
    assert set(outcomes) == {moving.source.path, moving.target.path}


def test_an_interrupted_move_is_remembered() -> None:
    moving = Moving(MemoryFiles())
    move = moving.manager.begin_move(PARTITION, moving.target)
    assert move is not None
    step = move.next_step()
    assert step is not None
    step.run()
    manager = started(moving.files.crashed(random.Random(3)))
    assert {where: directory.path for where, directory in manager.interrupted_moves.items()} == {PARTITION: moving.target.path}


def test_a_copy_stays_while_its_log_may_be_in_a_directory_that_is_offline() -> None:
    moving = Moving(MemoryFiles())
    move = moving.manager.begin_move(PARTITION, moving.target)
    assert move is not None
    after = moving.files.crashed(random.Random(3))
    after.hook = lambda _, path: Fault(errno.EIO) if path.startswith(moving.source.path) else None
    manager = started(after)
    assert [directory.path for directory in manager.directories if not directory.is_online] == [moving.source.path]
    assert move.future.rpartition("/")[2] in after.listdir(moving.target.path)
    with pytest.raises(OSError, match="a log directory is offline, and the log may be in it"):
        manager.get_or_create(PARTITION, CONFIG, now_ms=NOW_MS, is_new=False)


def test_every_call_fails_once() -> None:
    total = 0

    def count(call: str, path: str) -> None:
        nonlocal total
        total += call in CHANGING

    files = MemoryFiles()
    moving = Moving(files)
    files.hook = count
    moving.move()
    outcomes: dict[tuple[bool, bool], int] = {}
    for number in range(total):
        state = fail_at(number)
        outcomes[state] = outcomes.get(state, 0) + 1
    assert set(outcomes) == {(True, False), (False, True)}, "only the folder whose disk failed goes offline"


def fail_at(number: int) -> tuple[bool, bool]:
    """Fails one call; returns whether source and target are online afterwards."""
    files = MemoryFiles()
    moving = Moving(files)
    remaining, struck = number, ""

    def strike(call: str, path: str) -> Fault | None:
        nonlocal remaining, struck
        if call not in CHANGING:
            return None
        remaining -= 1
        if remaining != -1:
            return None
        struck = path
        return Fault(errno.EIO)

    files.hook = strike
    log = moving.log
    with suppress(OSError, AssertionError):  # an append that was refused is an AssertionError
        moving.move()
    files.hook = None
    owner: LogDirectory = moving.source if struck.startswith(moving.source.path + "/") or struck == moving.source.path else moving.target
    assert not owner.is_online or log.failure is not None, struck
    if owner is moving.target and moving.manager.directory_of(PARTITION) is moving.source:
        assert log.failure is None, "the log's own disk is well"
        append_after(log, moving)
    for image in range(3):
        check(moving.model, files.crashed(random.Random(image)))
    return moving.source.is_online, moving.target.is_online


def append_after(log: Log, moving: Moving) -> None:
    moving.append(2)
    moving.flush()


def test_failures_of_the_target_are_told_apart() -> None:
    files = MemoryFiles()
    moving = Moving(files)
    move = moving.manager.begin_move(PARTITION, moving.target)
    assert move is not None
    step = move.next_step()
    assert step is not None and step.end <= COPY_CHUNK
    files.hook = lambda call, _: Fault(errno.ENOSPC) if call == "pwrite" else None
    with pytest.raises(TargetFailed):
        step.run()
    files.hook = lambda call, _: Fault(errno.EIO) if call == "pread" else None
    with pytest.raises(OSError, match="Input/output error") as caught:
        step.run()
    assert not isinstance(caught.value, TargetFailed)
