import dataclasses
import itertools
import random
from errno import EMFILE, ENOSPC
from uuid import UUID

import pytest

from moldau.errors import KafkaError
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.config import LogConfig
from moldau.storage.epochs import CorruptCheckpoint
from moldau.storage.files import LockHeld
from moldau.storage.folders.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    MetaProperties,
    read_clean_shutdown,
    read_partition_metadata,
)
from moldau.storage.folders.names import partition_of, set_aside_name
from moldau.storage.log import AppendFailure, AppendResult, Log
from moldau.storage.manager import DuplicateLog, LogManager
from moldau.storage.recovery import LogDamaged
from moldau.storage.retention_clock import RetentionClock
from moldau.storage.segment import LOG_SUFFIX
from moldau.testing.files import Fault, MemoryFiles
from moldau.types import DIRECTORY_UNASSIGNED, TopicPartition

NOW = 1_700_000_000_000
TOPIC_ID = UUID(int=1234567)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
CONFIG = LogConfig(file_delete_delay_ms=100)


def a_manager(files: MemoryFiles, *paths: str) -> LogManager:
    numbers = itertools.count(1)
    return LogManager(files, paths or ("/data/a",), CONFIG, unique=lambda: UUID(int=next(numbers)))


def a_started_manager(files: MemoryFiles, *paths: str) -> LogManager:
    manager = a_manager(files, *paths)
    manager.open(NOW)
    manager.load_all(lambda topic: CONFIG, NOW)
    return manager


def create(manager: LogManager, where: TopicPartition) -> Log:
    return manager.get_or_create(where, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)


def append(log: Log, count: int = 1) -> None:
    for _ in range(count):
        assert isinstance(log.append_from_client(build_batch([NewRecord(NOW, b"k", b"v")]), leader_epoch=0, now_ms=NOW), AppendResult)


def test_without_spare_descriptors_there_is_no_new_log_and_the_others_go_on() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    files.spare_descriptors = False
    with pytest.raises(OSError, match="too many files are open"):
        create(manager, T1)
    append(create(manager, T0), 5)
    assert (log.log_end_offset, log.failure) == (5, None)
    assert manager.directories[0].is_online
    files.spare_descriptors = True
    append(create(manager, T1))


def test_without_spare_descriptors_segments_grow_beyond_their_size_and_age_and_roll_later() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = manager.get_or_create(T0, LogConfig(segment_bytes=300, retention_ms=1000), now_ms=NOW, topic_id=TOPIC_ID)
    append(log, 2)
    files.spare_descriptors = False
    append(log, 20)
    log.update_high_watermark(log.log_end_offset)
    assert manager.delete_old_segments(NOW + 5000, 5000) == 0
    assert (len(log.segments), log.log_start_offset, log.failure) == (1, 0, None)
    files.spare_descriptors = True
    append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 22]


def test_a_roll_that_finds_no_descriptor_takes_no_disk_offline() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = manager.get_or_create(T0, LogConfig(segment_bytes=300), now_ms=NOW, topic_id=TOPIC_ID)
    append(log, 3)
    files.hook = lambda call, path: Fault(EMFILE) if call == "open" else None
    while not isinstance(log.append_from_client(build_batch([NewRecord(NOW, b"k", b"v")]), leader_epoch=0, now_ms=NOW), AppendFailure):
        assert len(log.segments) == 1
    files.hook = None
    append(log, 2)
    assert len(log.segments) == 2 and manager.directories[0].is_online


def test_a_clean_stop_is_followed_by_a_clean_start() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    append(create(manager, T0), 5)
    append(create(manager, T1), 3)
    manager.logs[T0].update_high_watermark(4)
    manager.logs[T0].delete_records_before(2)
    manager.close(broker_epoch=77)
    files.sync_dir("")
    files.crash(random.Random(1))
    again = a_started_manager(files)
    directory = again.directories[0]
    assert directory.was_clean and directory.broker_epoch == 77 and not files.exists(f"/data/a/{CLEAN_SHUTDOWN}")
    log = again.logs[T0]
    assert (log.log_end_offset, log.log_start_offset, log.high_watermark, log.topic_id) == (5, 2, 4, TOPIC_ID)
    assert again.logs[T1].log_end_offset == 3
    assert files.read(f"/data/a/{RECOVERY_POINTS}") == b"0\n2\nt 0 5\nt 1 3\n"
    assert files.read(f"/data/a/{LOG_START_OFFSETS}") == b"0\n1\nt 0 2\n"
    assert files.read(f"/data/a/{HIGH_WATERMARKS}") == b"0\n2\nt 0 4\nt 1 0\n"


def test_an_unclean_start_recovers() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    files.sync_dir("")
    files.sync_dir("/data")
    log = create(manager, T0)
    append(log, 5)
    log.flush()
    manager.write_checkpoints()
    append(log, 5)
    for seed in range(20):
        after = files.crashed(random.Random(seed))
        again = a_started_manager(after)
        assert not again.directories[0].was_clean
        assert 5 <= again.logs[T0].log_end_offset <= 10


def test_logs_go_to_the_emptiest_directory_or_the_one_asked_for() -> None:
    files = MemoryFiles()
    for number, path in enumerate(("/data/a", "/data/b")):
        files.mkdir(path)
        files.write_atomically(f"{path}/{META_PROPERTIES}", MetaProperties("c" * 22, 1, UUID(int=1000 + number)).text())
    manager = a_started_manager(files, "/data/a", "/data/b")
    assert [create(manager, TopicPartition("t", n)).directory for n in range(4)] == [
        "/data/a/t-0",
        "/data/b/t-1",
        "/data/a/t-2",
        "/data/b/t-3",
    ]
    asked = manager.get_or_create(U0, CONFIG, now_ms=NOW, directory_id=UUID(int=1001))
    assert asked.directory == "/data/b/u-0"
    assert manager.directory_of(U0).directory_id == UUID(int=1001)


def test_a_deleted_log_is_out_of_sight_at_once_and_off_the_disk_later() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    append(create(manager, T0), 5)
    manager.logs[T0].flush()
    manager.write_checkpoints()
    assert manager.delete([T0], NOW) == 1 and manager.delete([T0], NOW) == 0
    name = f"t-0.{UUID(int=1).hex}-delete"
    assert name in files.listdir("/data/a") and files.read(f"/data/a/{RECOVERY_POINTS}") == b"0\n0\n"
    assert create(manager, T0).log_end_offset == 0
    assert manager.delete_due_files(NOW + 99) == 0
    assert manager.delete_due_files(NOW + 100) == 1 and name not in files.listdir("/data/a")


def test_what_a_crash_left_to_be_deleted_is_deleted_after_the_start() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    create(manager, T0)
    manager.delete([T0], NOW)
    manager.close()
    again = a_started_manager(files)
    assert not again.logs and again.delete_due_files(NOW) == 1


def test_the_checkpoint_of_a_log_that_is_gone_does_not_bind_a_new_one() -> None:
    files = MemoryFiles()
    files.mkdir("/data/a")
    files.write_atomically(f"/data/a/{RECOVERY_POINTS}", b"0\n1\nt 0 500\n")
    manager = a_started_manager(files)
    append(create(manager, T0), 1)
    files.sync_everything()
    files.crash(random.Random(1))
    assert a_started_manager(files).logs[T0].log_end_offset == 1


def test_a_truncation_lowers_the_recovery_point_on_the_disk_first() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    append(log, 9)
    log.flush()
    manager.write_checkpoints()
    order: list[str] = []
    files.hook = lambda call, path: (
        order.append(f"{call} {path.rpartition('/')[2].partition('.')[0]}") if call in ("rename", "truncate") else None
    )
    manager.truncate_to(log, 4, NOW)
    assert order.index(f"rename {RECOVERY_POINTS}") < order.index(f"truncate {0:020d}")
    assert files.read(f"/data/a/{RECOVERY_POINTS}") == b"0\n1\nt 0 4\n"


def test_a_checkpoint_whose_name_could_not_be_synced_is_synced_with_the_next_one() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    append(log, 9)
    log.flush()
    files.sync_everything()
    files.hook = lambda call, path: Fault(ENOSPC) if (call, path) == ("sync_dir", "/data/a") else None
    assert not manager.write_checkpoints()
    files.hook = None
    assert manager.write_checkpoints(), "nothing has changed since"
    for seed in range(10):
        assert files.crashed(random.Random(seed)).read(f"/data/a/{RECOVERY_POINTS}") == b"0\n1\nt 0 9\n"


def test_a_truncation_within_a_batch_takes_all_of_it_and_a_crash_after_it_is_no_damage() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    append(log, 3)
    batch = build_batch([NewRecord(NOW, b"k", b"v")] * 3)
    assert isinstance(log.append_from_client(batch, leader_epoch=0, now_ms=NOW), AppendResult)
    log.flush()
    manager.write_checkpoints()
    assert manager.truncate_to(log, 5, NOW)
    assert (log.log_end_offset, log.recovery_point) == (3, 3)
    log.flush()
    manager.write_checkpoints()
    files.sync_everything()
    files.crash(random.Random(1))
    assert a_started_manager(files).logs[T0].log_end_offset == 3


def test_the_new_start_is_on_the_disk_before_segments_go() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    for _ in range(3):
        append(log, 3)
        log.roll(NOW)
    log.update_high_watermark(9)
    log.flush()
    log.configure(dataclasses.replace(CONFIG, retention_ms=1))
    order: list[str] = []
    files.hook = lambda call, path: order.append(path.rpartition("/")[2].partition(".")[0]) if call == "rename" else None
    assert manager.delete_old_segments(NOW + 5000, 0) == 3
    assert order.index(LOG_START_OFFSETS) < order.index(f"{0:020d}")
    assert files.read(f"/data/a/{LOG_START_OFFSETS}") == b"0\n1\nt 0 9\n"


def test_a_start_is_noted_as_far_as_the_log_is_flushed_and_goes_down_before_the_log_does() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    append(log, 3)
    log.flush()
    append(log, 6)
    log.update_high_watermark(9)
    manager.delete_records_before(log, 8)
    assert files.read(f"/data/a/{LOG_START_OFFSETS}") == b"0\n1\nt 0 3\n"
    log.flush()
    manager.write_checkpoints()
    assert files.read(f"/data/a/{LOG_START_OFFSETS}") == b"0\n1\nt 0 8\n"
    manager.truncate_to(log, 5, NOW)
    assert files.read(f"/data/a/{LOG_START_OFFSETS}") == b"0\n1\nt 0 5\n"
    manager.truncate_fully_and_start_at(log, 2, NOW)
    assert files.read(f"/data/a/{LOG_START_OFFSETS}") == b"0\n0\n"  # the log began with its first segment, at 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_beyond_the_end_is_damage_and_nothing_is_let_go(*, is_clean: bool) -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    append(log, 4)
    log.roll(NOW)
    append(log, 5)
    if is_clean:
        manager.close()
    else:
        manager.write_checkpoints()
    files.sync_everything()
    files = files.crashed(random.Random(0))
    files.write_atomically(f"/data/a/{LOG_START_OFFSETS}", b"0\n1\nt 0 57\n")
    path = f"/data/a/t-0/{0:020d}.log"
    content = files.read(path)
    with pytest.raises(LogDamaged, match="log-start-offset-checkpoint says that t-0 starts at offset 57, but /data/a/t-0 ends at 9"):
        a_started_manager(files)
    assert files.read(path) == content


def test_a_log_whose_segments_are_gone_is_refused_when_some_of_it_was_flushed() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    append(create(manager, T0), 9)
    manager.close()
    files.unlink(f"/data/a/t-0/{0:020d}.log")
    with pytest.raises(LogDamaged, match="/data/a/t-0 holds no segment, but everything below offset 9 was on stable storage"):
        a_started_manager(files)


def test_a_checkpoint_that_was_on_its_way_while_a_log_was_shortened_never_holds() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    append(log, 9)
    log.flush()
    late = [checkpoint for checkpoint in manager.checkpoints() if checkpoint.name == RECOVERY_POINTS]
    seen: list[bytes] = []
    path = f"/data/a/{RECOVERY_POINTS}"
    files.hook = lambda call, _: seen.append(files.read(path)) if call != "read" and files.exists(path) else None
    late[0].write(files)
    manager.truncate_to(log, 4, NOW)
    assert not late[0].take_effect(manager.files)
    manager.write_checkpoints()
    files.hook = None
    assert files.read(path) == b"0\n1\nt 0 4\n"
    assert set(seen) == {b"0\n1\nt 0 4\n"}, "the disk never says more than the log has"
    assert not [name for name in files.listdir("/data/a") if name.endswith(".tmp")]


def test_checkpoints_that_a_crash_left_half_way_go() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    append(create(manager, T0))
    for checkpoint in manager.checkpoints():
        checkpoint.write(files)
    files.sync_everything()
    files.crash(random.Random(1))
    a_started_manager(files)
    assert not [name for name in files.listdir("/data/a") if name.endswith(".tmp")]


def test_a_failed_directory_takes_its_logs_along_and_leaves_the_others() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files, "/data/a", "/data/b")
    first, second = create(manager, T0), create(manager, T1)
    append(first)
    append(second)
    failed: list[str] = []
    manager.on_directory_failure = lambda directory, error: failed.append(directory.path)
    files.hook = lambda call, path: Fault() if call == "sync" and path.startswith("/data/a") else None
    with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
        first.flush()
    assert failed == ["/data/a"] and first.failure is not None
    second.flush()
    manager.write_checkpoints()
    third = create(manager, U0)
    assert third.directory == "/data/b/u-0"
    manager.close()
    assert files.exists(f"/data/b/{CLEAN_SHUTDOWN}") and not files.exists(f"/data/a/{CLEAN_SHUTDOWN}")


def test_a_second_start_on_the_same_directory_is_refused() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    with pytest.raises(LockHeld):
        a_manager(files).open(NOW)
    manager.close()
    a_manager(files).open(NOW)


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, META_PROPERTIES, "t-0/partition.metadata"])
@pytest.mark.parametrize(
    "garbage", [b"garbage\n", b"0\n1\nt 0\n", b"0\n2\nt 0 1\n", b"\xff\xfe", b"0\n1\nt 0 -5\n", b"version=1\ncluster.id\n"]
)
def test_garbage_stops_the_start_and_names_the_file(name: str, garbage: bytes) -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    create(manager, T0)
    manager.close()
    files.write_atomically(f"/data/a/{name}", garbage)
    with pytest.raises(CorruptCheckpoint, match=name):
        a_started_manager(files)


def test_the_same_log_in_two_directories_is_refused() -> None:
    files = MemoryFiles()
    files.mkdir("/data/a/t-0")
    files.mkdir("/data/b/t-0")
    with pytest.raises(DuplicateLog, match=r"t-0 stands in /data/a and in /data/b"):
        a_started_manager(files, "/data/a", "/data/b")


A_ID, B_ID = UUID(int=1000), UUID(int=2000)


def in_two_directories(files: MemoryFiles, *, begun: str = "ab") -> LogManager:
    """A manager that has opened two directories with a log of `T0` each.  Those that are `begun` have as many records as their place."""
    for place, directory_id in enumerate((A_ID, B_ID), start=1):
        path = f"/data/{'.ab'[place]}"
        files.mkdir(f"{path}/t-0")
        files.write_atomically(f"{path}/{META_PROPERTIES}", MetaProperties("cluster", 1, directory_id).text())
        if path[-1] in begun:
            log = Log.open(files, f"{path}/t-0", T0, CONFIG, now_ms=NOW)
            append(log, place)
            log.close()
    manager = a_manager(files, "/data/a", "/data/b")
    manager.open(NOW)
    return manager


@pytest.mark.parametrize(("told", "end"), [(A_ID, 1), (B_ID, 2)])
def test_of_two_logs_of_a_partition_the_one_stays_that_the_cluster_knows(told: UUID, end: int) -> None:
    files = MemoryFiles()
    manager = in_two_directories(files)
    (aside,) = manager.set_strays_aside(lambda *_: False, lambda _: told)
    manager.load_all(lambda topic: CONFIG, NOW)
    assert manager.logs[T0].log_end_offset == end and aside.endswith("-stray") and files.size(f"{aside}/{0:020d}.log") > 0


@pytest.mark.parametrize(("begun", "end"), [("a", 1), ("b", 2), ("", 0)])
def test_a_log_that_never_had_a_record_makes_way_for_another_one(begun: str, end: int) -> None:
    files = MemoryFiles()
    manager = in_two_directories(files, begun=begun)
    assert len(manager.set_strays_aside(lambda *_: False, lambda _: DIRECTORY_UNASSIGNED)) == 1
    manager.load_all(lambda topic: CONFIG, NOW)
    assert manager.logs[T0].log_end_offset == end


def test_two_logs_with_records_stay_where_nothing_tells_which_is_right() -> None:
    manager = in_two_directories(MemoryFiles())
    assert manager.set_strays_aside(lambda *_: False, lambda _: DIRECTORY_UNASSIGNED) == []
    with pytest.raises(DuplicateLog):
        manager.load_all(lambda topic: CONFIG, NOW)


def test_a_log_that_keeps_only_its_end_has_begun() -> None:
    files = MemoryFiles()
    manager = in_two_directories(files, begun="a")
    log = Log.open(files, "/data/b/t-0", T0, CONFIG, now_ms=NOW)
    log.truncate_fully_and_start_at(7, NOW)
    log.close()
    assert manager.set_strays_aside(lambda *_: False, lambda _: None) == []


def test_a_directory_that_fails_while_a_log_is_looked_for_is_offline() -> None:
    files = MemoryFiles()
    manager = in_two_directories(files)
    files.hook = lambda call, path: Fault() if call == "rename" and path.startswith("/data/a/t-0") else None
    assert manager.set_strays_aside(lambda *_: False, lambda _: B_ID) == []
    manager.load_all(lambda topic: CONFIG, NOW)
    assert [one.is_online for one in manager.directories] == [False, True] and manager.logs[T0].log_end_offset == 2


def test_a_new_log_is_made_on_the_next_disk_if_one_fails() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files, "/data/a", "/data/b")
    files.hook = lambda call, path: Fault() if call == "pwrite" and path.startswith("/data/a/t-0/partition.metadata") else None
    append(create(manager, T0))
    assert [one.is_online for one in manager.directories] == [False, True] and manager.directory_of(T0).path == "/data/b"
    files.hook = None
    manager.close()
    again = a_manager(files, "/data/a", "/data/b")
    again.open(NOW)
    assert len(again.set_strays_aside(lambda *_: False, lambda _: DIRECTORY_UNASSIGNED)) == 1
    again.load_all(lambda topic: CONFIG, NOW)
    assert again.directory_of(T0).path == "/data/b" and again.logs[T0].log_end_offset == 1


def test_a_known_log_is_made_on_no_other_disk_if_one_fails() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files, "/data/a", "/data/b")
    files.hook = lambda call, path: Fault() if path.startswith("/data/a/t-0/") else None
    with pytest.raises(OSError, match="Input/output error"):
        manager.get_or_create(T0, CONFIG, now_ms=NOW, topic_id=TOPIC_ID, is_new=False)
    assert not files.exists("/data/b/t-0")


def test_a_stray_log_is_kept_under_another_name() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    append(create(manager, T0))
    path = manager.set_stray(T0)
    assert path == f"/data/a/t-0.{UUID(int=1).hex}-stray" and read_partition_metadata(files, path) == TOPIC_ID
    manager.close()
    assert not a_started_manager(files).logs


def test_a_damaged_log_is_refused_by_name() -> None:
    files = MemoryFiles()
    manager = a_started_manager(files)
    append(create(manager, T0), 5)
    manager.close()
    files.open(f"/data/a/t-0/{0:020d}.log").truncate(100)
    with pytest.raises(LogDamaged, match="t-0"):
        a_started_manager(files)


@pytest.mark.parametrize("seed", range(10))
def test_after_a_failed_sync_a_start_takes_what_the_disk_has_and_no_more(seed: int) -> None:
    """The page cache still shows what the sync could not write, and the next sync succeeds without it."""
    files = MemoryFiles(seed=seed)
    manager = a_started_manager(files)
    log = create(manager, T0)
    append(log, 3)
    log.flush()
    manager.write_checkpoints()
    files.sync_everything()
    append(log, 3)
    files.hook = lambda call, path: Fault() if call == "sync" and path.endswith(LOG_SUFFIX) else None
    with pytest.raises(KafkaError):
        log.flush()
    files.hook = None
    manager.release()
    again = a_started_manager(files)
    end = again.logs[T0].log_end_offset
    again.logs[T0].flush()
    again.close(broker_epoch=1)
    after = a_started_manager(files.crashed(random.Random(seed)))
    assert after.logs[T0].log_end_offset == end >= 3


def test_names_of_directories() -> None:
    assert partition_of("a-b-12") == TopicPartition("a-b", 12)
    assert [partition_of(name) for name in ("a", "a-", "-1", "a-x", "meta.properties", "t-0.0123-delete")] == [None] * 6
    long = set_aside_name(TopicPartition("x" * 249, 12), UUID(int=1), "-delete")
    assert len(long) == 255 and long.endswith(f"-12.{UUID(int=1).hex}-delete")


def test_a_jump_of_the_clock_is_doubted_for_an_hour() -> None:
    clock, minute, hour, year = RetentionClock(), 60_000, 3_600_000, 365 * 86_400_000
    assert clock.trusted(NOW, 0) == NOW
    assert clock.trusted(NOW + 5 * minute, 5 * minute) == NOW + 5 * minute
    assert clock.trusted(NOW + year, 10 * minute) == NOW + 10 * minute
    assert clock.trusted(NOW + 15 * minute, 15 * minute) == NOW + 15 * minute  # the clock came back
    assert clock.trusted(NOW + year, 20 * minute) == NOW + 20 * minute
    assert clock.trusted(NOW + year + hour, 20 * minute + hour) == NOW + year + hour  # the clock stayed
    assert clock.trusted(NOW, 21 * minute + hour) == NOW  # going back deletes nothing too early


def test_a_start_that_ends_early_forgets_nothing_and_is_no_clean_stop() -> None:
    """The start was refused for a reason of its own: logs that it had not loaded keep their notes, and unrecovered logs stay so."""
    files = MemoryFiles()
    manager = a_started_manager(files)
    for where in (T0, T1):
        append(create(manager, where), 5)
        manager.logs[where].flush()
        manager.logs[where].update_high_watermark(5)
    manager.delete_records_before(manager.logs[T0], 2)
    manager.write_checkpoints()
    files.sync_everything()
    crashed = files.crashed(random.Random(1))
    names = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
    noted = [crashed.read(f"/data/a/{name}") for name in names]
    for loads_one in (False, True):
        early = a_manager(crashed)
        early.open(NOW)
        if loads_one:
            found = next(early.found(lambda _: CONFIG, NOW))
            found.load()
            early.install(found)
        early.close()
        assert [crashed.read(f"/data/a/{name}") for name in names] == noted
        assert not crashed.exists(f"/data/a/{CLEAN_SHUTDOWN}")
    again = a_started_manager(crashed)
    assert (again.logs[T0].log_start_offset, again.logs[T0].log_end_offset) == (2, 5)
    again.close(broker_epoch=7)
    early = a_manager(crashed)
    early.open(NOW)
    early.close()
    assert read_clean_shutdown(crashed, "/data/a") == 7, "it was clean before, and is still clean"


def test_a_directory_of_before_there_were_ids_gets_one_for_good() -> None:
    files = MemoryFiles()
    files.mkdir("/data/a")
    files.write_atomically("/data/a/meta.properties", b"node.id=1\nversion=1\ncluster.id=abc\n")
    first = a_manager(files)
    first.open(NOW)
    assert first.directories[0].directory_id is None
    assert first.name_directories(lambda: UUID(int=777)) == {"/data/a": UUID(int=777)}
    first.close()
    again = a_manager(files)
    again.open(NOW)
    assert again.name_directories(lambda: UUID(int=778)) == {"/data/a": UUID(int=777)}


def test_what_is_deleted_is_let_go_of_by_the_one_who_deletes() -> None:
    """Freeing the pages of a large file takes long: the loop must not be the last to hold the file."""
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    for _ in range(3):
        append(log)
        log.roll(NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    manager.delete_records_before(log, 2)
    log.drop_below_start(NOW)
    (deletion,) = manager.deletions(NOW + log.config.file_delete_delay_ms)
    names = [segment.path(LOG_SUFFIX) for segment in deletion.segments]
    assert len(names) == 2 and all(map(files.exists, names))
    deletion.run(files)
    assert not any(map(files.exists, names)) and deletion.segments == []
    assert list(manager.deletions(NOW + log.config.file_delete_delay_ms)) == []


def test_a_clock_that_was_set_back_does_not_keep_deleted_files() -> None:
    """An hour back would keep them for an hour, and the disk full."""
    files = MemoryFiles()
    manager = a_started_manager(files)
    log = create(manager, T0)
    append(log)
    log.roll(NOW)
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    manager.delete_records_before(log, 1)
    log.drop_below_start(NOW)
    assert list(manager.deletions(NOW)) == []
    (deletion,) = manager.deletions(NOW - 3_600_000)
    deletion.run(files)
    manager.delete([T0], NOW)
    assert list(manager.deletions(NOW)) == []
    (deletion,) = manager.deletions(NOW - 3_600_000)
    assert deletion.folder is not None
