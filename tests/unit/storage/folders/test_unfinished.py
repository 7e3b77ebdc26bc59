"""A log is made anew: after a crash it is the old one, the new one, or an empty one."""

import random
from uuid import UUID

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.config import LogConfig
from moldau.storage.epochs import EpochEntry
from moldau.storage.log import AppendResult, FetchData, Log, Past
from moldau.storage.manager import LogManager
from moldau.storage.producers.state import ProducerEntry, ProducerStates, StoredBatch
from moldau.testing.files import Fault, MemoryFiles
from moldau.types import TopicPartition

WHERE = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(remote_storage_enable=True, segment_bytes=400, local_retention_bytes=0, retention_ms=-1, file_delete_delay_ms=0)
OLD_COUNT, OLD_START = 12, 3
EPOCHS = [EpochEntry(0, 0), EpochEntry(4, 17)]
NEW_START, NEW_END = 9, 40


class Crash(BaseException):
    """The process is gone."""


def a_past() -> Past:
    producers = ProducerStates("t")
    entry = producers.producers[7] = ProducerEntry(7, 0)
    entry.batches.append(StoredBatch(0, 4, 30, 34, NOW_MS))
    return Past(NEW_END, EPOCHS, producers.snapshot())


def opened(files: MemoryFiles) -> LogManager:
    manager = LogManager(files, ["/d"], CONFIG, unique=lambda: UUID(int=1))
    manager.open(NOW_MS)
    manager.load_all(lambda topic: CONFIG, NOW_MS)
    return manager


def an_old_log(files: MemoryFiles) -> tuple[LogManager, Log]:
    """A log whose first segments are in remote storage only."""
    manager = opened(files)
    log = manager.get_or_create(WHERE, CONFIG, now_ms=NOW_MS, topic_id=UUID(int=5))
    for number in range(OLD_COUNT):
        batch = build_batch([NewRecord(NOW_MS, b"k", b"%d" % number * 40)])
        assert isinstance(log.append_from_client(batch, leader_epoch=2, now_ms=NOW_MS), AppendResult)
    log.update_high_watermark(OLD_COUNT)
    log.flush()
    log.copied_offset = 8
    manager.write_checkpoints()
    log.raise_log_start_offset(OLD_START)
    manager.delete_old_segments(NOW_MS, NOW_MS)
    manager.delete_due_files(NOW_MS)
    files.sync_everything()
    return manager, log


def shape_of(log: Log) -> str:
    """The shape of the log.  Errors: AssertionError when it is none that is allowed."""
    assert log.log_start_offset >= OLD_START
    if log.log_end_offset == NEW_END:
        assert (log.log_start_offset in (OLD_START, NEW_START)) and log.epochs.entries == EPOCHS
        assert log.producers.producers[7].last_sequence == 4 and log.local_log_start_offset == NEW_END
        return "new"
    if log.log_end_offset == OLD_COUNT:
        offset = log.local_log_start_offset
        assert log.epochs.epoch_for_offset(log.log_start_offset) == 2
        while offset < OLD_COUNT:
            data = log.read(offset, 1)
            assert isinstance(data, FetchData) and data.records is not None
            offset += 1
        return "old"
    assert log.log_start_offset == log.log_end_offset and not log.epochs.entries and not log.producers.producers
    return "empty"


@pytest.mark.parametrize("how", ["begins after remote storage", "is truncated below what is here"])
def test_power_lost_at_any_step(how: str) -> None:
    seen: set[str] = set()
    step = 0
    while True:
        step += 1
        files = MemoryFiles()
        manager, log = an_old_log(files)
        assert log.local_log_start_offset > OLD_START
        left = step

        def strike(call: str, path: str) -> Fault | None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash
            return None

        files.hook = strike
        try:
            if how == "begins after remote storage":
                manager.begin_after(log, a_past(), NOW_MS, log_start_offset=NEW_START)
            else:
                manager.truncate_to(log, log.local_log_start_offset - 1, NOW_MS)
        except Crash:
            is_done = False
        else:
            is_done = True
        files.hook = None
        for seed in range(12):
            choice = random.Random(seed)
            after = files.crashed(choice)
            again = opened(after).logs[WHERE]
            seen.add(shape_of(again))
            # a second crash comes before anything else was written: the second start finds what the first one left
            twice = after.crashed(choice)
            second = opened(twice).logs[WHERE]
            shape_of(second)
            assert second.log_start_offset >= again.log_start_offset or shape_of(again) == "new"
        if is_done:
            break
    assert seen == ({"old", "empty", "new"} if how == "begins after remote storage" else {"old", "empty"})


def test_nothing_is_left_of_a_half_built_one_but_whose_it_is() -> None:
    files = MemoryFiles()
    manager, log = an_old_log(files)
    files.open("/d/t-0/unfinished", create=True).close()
    manager.directories[0].lock.release()  # type: ignore[union-attr]
    manager._lower_recovery_point(log, 0, start=log.log_start_offset)
    again = opened(files).logs[WHERE]
    assert (again.log_start_offset, again.log_end_offset, again.topic_id) == (OLD_START, OLD_START, UUID(int=5))
    assert [name for name in files.listdir("/d/t-0") if "unfinished" in name] == []
