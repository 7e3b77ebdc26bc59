import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from errno import ENOSPC
from itertools import pairwise
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.config import LogConfig
from moldau.storage.epochs import EpochEntry
from moldau.storage.log import AppendResult, FetchData, Log
from moldau.storage.tiered.copy_and_expiry import copied_up_to, expired, first_offset, leader_epochs_in, segments_to_copy
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import RemoteSegment, SegmentState, TopicIdPartition
from moldau.testing.files import Fault, MemoryFiles
from moldau.types import TopicPartition

NOW = 1_700_000_000_000
WHERE = TopicIdPartition(UUID(int=9), "t", 0)
ENTRY = len(build_batch([NewRecord(NOW, b"k", b"v" * 10)]))
"""The size of a batch with one record here."""
IDS: Iterator[UUID] = (UUID(int=number) for number in range(1, 1 << 30))


def a_log(files: MemoryFiles | None = None, *, count: int = 0, **options: object) -> Log:
    """A tiered log with `count` records, five to a segment, one a second."""
    config = LogConfig(**{"remote_storage_enable": True, "segment_bytes": 5 * ENTRY, "file_delete_delay_ms": 0, **options})  # type: ignore[arg-type]
    if files is None:
        files = MemoryFiles()
        files.mkdir("/data")
        files.sync_everything()
    log = Log.open(files, "/data/t-0", TopicPartition("t", 0), config, now_ms=NOW)
    append(log, count)
    return log


def append(log: Log, count: int, *, epoch: int = 0) -> None:
    for _ in range(count):
        record = NewRecord(NOW + 1000 * log.log_end_offset, b"k", b"v" * 10)
        result = log.append_from_client(build_batch([record]), leader_epoch=epoch, now_ms=NOW)
        assert isinstance(result, AppendResult), result
    log.update_high_watermark(log.log_end_offset)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def copy_all(log: Log, remote: RemoteLog) -> list[RemoteSegment]:
    copied = []
    for segment, next_offset in segments_to_copy(log, copied_up_to(log, remote)):
        made = RemoteSegment(
            where=WHERE,
            id=next(IDS),
            start_offset=segment.base_offset,
            end_offset=next_offset - 1,
            leader_epochs=leader_epochs_in(log.epochs.entries, segment.base_offset, next_offset),
            max_timestamp_ms=segment.age_timestamp,
            size=segment.size,
            broker_id=1,
            event_timestamp_ms=0,
        )
        remote.replay(made.record())
        remote.replay(made.update(SegmentState.COPY_FINISHED, broker_id=1, now_ms=0))
        copied.append(remote.segments[made.id])
    log.copied_offset = copied_up_to(log, remote)
    log.flush()
    return copied


def test_sealed_segments_below_the_last_stable_offset_are_copied_once() -> None:
    log, remote = a_log(count=22), RemoteLog(WHERE)
    log.high_watermark = 14
    assert [(each.segment.base_offset, each.next_offset) for each in segments_to_copy(log, 0)] == [(0, 5), (5, 10)]
    log.high_watermark = 22
    copy_all(log, remote)
    assert log.copied_offset == 20 and not segments_to_copy(log, 20)
    append(log, 5)
    assert [each.segment.base_offset for each in segments_to_copy(log, 20)] == [20]


def test_local_segments_go_only_when_they_are_in_remote_storage() -> None:
    log, remote = a_log(count=22, local_retention_bytes=0, retention_bytes=-1, retention_ms=-1), RemoteLog(WHERE)
    assert log.delete_old_segments(NOW) == 0, "nothing has been copied"
    copy_all(log, remote)
    assert bases(log) == [0, 5, 10, 15, 20, 22], "retention rolls the active segment so that it can be copied and go"
    assert log.delete_old_segments(NOW) == 5
    assert (log.log_start_offset, log.local_log_start_offset, bases(log)) == (0, 22, [22])
    assert log.read(21, 100) is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    assert log.read(0, 100) is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    assert log.read(23, 100) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert isinstance(log.read(22, 100), FetchData)


def test_local_segments_go_only_after_a_flush() -> None:
    """A segment without its leader epochs on the disk could not be found in remote storage after a power failure."""
    log, remote = a_log(count=22, local_retention_bytes=0, retention_ms=-1), RemoteLog(WHERE)
    copy_all(log, remote)
    log.durability.recovery_point = 12
    assert log.delete_old_segments(NOW) == 2 and log.local_log_start_offset == 10


def test_what_local_retention_keeps_by_age_and_by_size() -> None:
    log, remote = a_log(count=22, local_retention_ms=10_000, retention_ms=10**9), RemoteLog(WHERE)
    copy_all(log, remote)
    log.delete_old_segments(NOW + 20_000)
    assert bases(log) == [10, 15, 20], "records up to second 9 are older than ten seconds"
    log.configure(LogConfig(remote_storage_enable=True, local_retention_bytes=7 * ENTRY, retention_bytes=10**6, retention_ms=-1))
    log.delete_old_segments(NOW + 20_000)
    assert bases(log) == [15, 20]
    assert log.log_start_offset == 0


def test_a_tiered_log_comes_back_with_its_start_and_its_lineage() -> None:
    files = MemoryFiles()
    files.mkdir("/data")
    files.sync_everything()
    log, remote = a_log(files, count=12, local_retention_bytes=0, retention_ms=-1), RemoteLog(WHERE)
    append(log, 8, epoch=3)
    copy_all(log, remote)
    log.delete_old_segments(NOW)
    assert bases(log)[0] == 15
    for clean in (True, False):
        if clean:
            log.close()
        else:
            files = files.crashed(random.Random(1))
        found = Log.open(files, "/data/t-0", log.topic_partition, log.config, now_ms=NOW, clean=clean, recovery_point=20)
        assert (found.log_start_offset, found.local_log_start_offset, found.log_end_offset) == (0, 15, 20)
        assert found.epochs.entries == [EpochEntry(0, 0), EpochEntry(3, 12)]
        assert copied_up_to(found, remote) >= 15
    assert leader_epochs_in(log.epochs.entries, 10, 15) == (EpochEntry(0, 10), EpochEntry(3, 12))
    found.configure(LogConfig())
    assert found.log_start_offset == 15, "without tiering nothing is below the first segment"


def test_no_crash_leaves_a_gap_between_local_segments() -> None:
    for seed in range(40):
        files = MemoryFiles()
        files.mkdir("/data")
        files.sync_everything()
        log, remote = a_log(files, count=42, local_retention_bytes=0, retention_ms=-1), RemoteLog(WHERE)
        log.flush()
        copy_all(log, remote)
        strike = random.Random(seed).randrange(60)

        def crash_at_last(call: str, path: str) -> Fault | None:
            nonlocal strike
            strike -= 1
            return Fault(ENOSPC) if strike < 0 and call in ("rename", "sync_dir") else None

        files.hook = crash_at_last
        with suppress(OSError):
            log.delete_old_segments(NOW)
        files.hook = None
        found = Log.open(files.crashed(random.Random(seed)), "/data/t-0", log.topic_partition, log.config, now_ms=NOW, recovery_point=42)
        assert found.log_start_offset == 0 and copied_up_to(found, remote) >= found.local_log_start_offset
        for before, after in pairwise(found.segments):
            assert before.next_offset() == after.base_offset, f"seed {seed}: {bases(found)}"


def test_expiry_moves_the_start_over_both_tiers_and_then_deletes() -> None:
    log, remote = a_log(count=22, local_retention_bytes=0, retention_ms=15_000), RemoteLog(WHERE)
    copied = copy_all(log, remote)
    log.delete_old_segments(NOW + 21_000)
    start, gone = expired(log, remote, now_ms=NOW + 24_000, copying=())
    assert (start, gone) == (10, copied[:2]), "records of seconds 0 to 9 are fifteen seconds old"
    assert log.raise_log_start_offset(start)
    assert expired(log, remote, now_ms=NOW + 24_000, copying=()) == (10, copied[:2])


def test_expiry_by_size_counts_each_record_once() -> None:
    log, remote = a_log(count=22, retention_ms=-1, retention_bytes=12 * ENTRY), RemoteLog(WHERE)
    copied = copy_all(log, remote)
    assert expired(log, remote, now_ms=NOW, copying=()) == (10, copied[:2]), "twelve of 22 records stay"
    log.configure(LogConfig(remote_storage_enable=True, retention_ms=-1, retention_bytes=13 * ENTRY))
    assert expired(log, remote, now_ms=NOW, copying=()) == (5, copied[:1])


def test_records_that_are_deleted_leave_remote_storage_too() -> None:
    log, remote = a_log(count=22, retention_ms=-1, local_retention_bytes=0), RemoteLog(WHERE)
    copied = copy_all(log, remote)
    log.delete_old_segments(NOW)
    assert log.delete_records_before(11) == 11
    assert expired(log, remote, now_ms=NOW, copying=()) == (11, copied[:2])


def test_copies_that_broke_off_are_deleted_unless_they_are_being_made() -> None:
    log, remote = a_log(count=12), RemoteLog(WHERE)
    broken = RemoteSegment(
        where=WHERE,
        id=next(IDS),
        start_offset=0,
        end_offset=4,
        leader_epochs=(EpochEntry(0, 0),),
        max_timestamp_ms=NOW,
        size=1,
        broker_id=2,
        event_timestamp_ms=0,
    )
    remote.replay(broken.record())
    assert copied_up_to(log, remote) == 0
    assert not expired(log, remote, now_ms=NOW, copying=()).segments, "the end of the copy may be on its way"
    copy_all(log, remote)
    assert expired(log, remote, now_ms=NOW, copying=()).segments == [broken]
    assert expired(log, remote, now_ms=NOW, copying=(broken.id,)).segments == []
    remote.replay(broken.update(SegmentState.DELETE_STARTED, broker_id=1, now_ms=0))
    assert [each.id for each in expired(log, remote, now_ms=NOW, copying=()).segments] == [broken.id], "the store has not let it go yet"


def test_without_copying_retention_moves_the_start_as_ever() -> None:
    log, remote = a_log(count=22, local_retention_bytes=0, retention_ms=-1), RemoteLog(WHERE)
    copy_all(log, remote)
    log.delete_old_segments(NOW)
    append(log, 6)
    log.configure(LogConfig(remote_storage_enable=True, remote_log_copy_disable=True, retention_ms=-1, segment_bytes=5 * ENTRY))
    assert log.delete_old_segments(NOW) == 0 and log.log_start_offset == 0, "records in remote storage stay readable"
    log.configure(LogConfig(remote_storage_enable=True, remote_log_copy_disable=True, retention_ms=1000, segment_bytes=5 * ENTRY))
    log.delete_old_segments(NOW + 27_500)
    assert log.log_start_offset == 27


def a_segment(start: int, end: int, *epochs: EpochEntry, state: SegmentState = SegmentState.COPY_FINISHED) -> RemoteSegment:
    return RemoteSegment(
        where=WHERE,
        id=next(IDS),
        start_offset=start,
        end_offset=end,
        leader_epochs=epochs,
        max_timestamp_ms=NOW,
        size=1,
        broker_id=2,
        event_timestamp_ms=0,
        state=state,
    )


def put(remote: RemoteLog, segment: RemoteSegment) -> RemoteSegment:
    assert remote.replay(
        segment.record() if segment.state is SegmentState.COPY_STARTED else replace(segment, state=SegmentState.COPY_STARTED).record()
    )
    if segment.state is SegmentState.COPY_FINISHED:
        assert remote.replay(segment.update(SegmentState.COPY_FINISHED, broker_id=2, now_ms=0))
    return segment


def test_an_older_leader_does_not_judge_what_a_newer_one_copies() -> None:
    log, remote = a_log(count=12), RemoteLog(WHERE)
    copy_all(log, remote)
    put(remote, a_segment(3, 7, EpochEntry(0, 3), EpochEntry(5, 6), state=SegmentState.COPY_STARTED))
    assert not expired(log, remote, now_ms=NOW, copying=()).segments
    append(log, 1, epoch=6)
    assert len(expired(log, remote, now_ms=NOW, copying=()).segments) == 1


def test_of_a_copy_that_broke_off_only_what_the_log_has_must_be_elsewhere() -> None:
    log, remote = a_log(count=12), RemoteLog(WHERE)
    append(log, 6, epoch=3)
    lost = put(remote, a_segment(10, 25, EpochEntry(0, 10), state=SegmentState.COPY_STARTED))
    assert not remote.is_covered(log.epochs.entries, lost, 0) and remote.is_covered(log.epochs.entries, lost, 12)
    put(remote, a_segment(9, 11, EpochEntry(0, 9)))
    assert expired(log, remote, now_ms=NOW, copying=()).segments == [lost]


def test_what_was_covered_is_read_again_when_its_cover_is_gone() -> None:
    remote, lineage = RemoteLog(WHERE), [EpochEntry(0, 0)]
    small = [put(remote, a_segment(start, start + 4, EpochEntry(0, start))) for start in (0, 5, 10)]
    cover = put(remote, a_segment(3, 12, EpochEntry(0, 3)))
    inside = put(remote, a_segment(6, 8, EpochEntry(0, 6)))
    assert [remote.find_in(lineage, offset) and remote.find_in(lineage, offset).id for offset in (4, 5, 7, 13)] == [  # type: ignore[union-attr]
        cover.id,
        cover.id,
        cover.id,
        small[2].id,
    ]
    assert remote.replay(cover.update(SegmentState.DELETE_STARTED, broker_id=1, now_ms=0))
    assert remote.covered_from(lineage, 0) == 15
    assert remote.find_in(lineage, 7).id == small[1].id  # type: ignore[union-attr]
    for gone in (*small, inside):
        assert remote.replay(gone.update(SegmentState.DELETE_STARTED, broker_id=1, now_ms=0))
    assert remote.covered_from(lineage, 0) == 0 and not remote._by_epoch


def test_where_the_log_really_begins() -> None:
    log, remote = a_log(count=22, local_retention_bytes=0, retention_ms=-1), RemoteLog(WHERE)
    assert first_offset(log, remote) == 0
    copied = copy_all(log, remote)
    log.delete_old_segments(NOW)
    assert first_offset(log, remote) == 0
    for segment in copied[:2]:
        remote.replay(segment.update(SegmentState.DELETE_STARTED, broker_id=2, now_ms=0))
    assert first_offset(log, remote) == 10, "another leader let the first segments expire"
    for segment in copied[2:]:
        remote.replay(segment.update(SegmentState.DELETE_STARTED, broker_id=2, now_ms=0))
    assert first_offset(log, remote) == log.local_log_start_offset
    assert first_offset(log, RemoteLog(WHERE)) == 0, "metadata that says nothing at all may be lost"
    log.epochs.replace([EpochEntry(0, 20)])
    assert first_offset(log, remote) == 0, "a log whose epochs do not go back to its start knows too little"


def test_segments_of_a_history_that_ended_before_this_one_go() -> None:
    log, remote = a_log(count=0), RemoteLog(WHERE)
    append(log, 3, epoch=4)
    old = put(remote, a_segment(0, 900, EpochEntry(1, 0), EpochEntry(3, 50)))
    put(remote, a_segment(0, 900, EpochEntry(1, 0), EpochEntry(4, 50)))
    assert [each.id for each in expired(log, remote, now_ms=NOW, copying=()).segments] == [old.id]
    log.epochs.replace([EpochEntry(4, 2)])
    assert not expired(log, remote, now_ms=NOW, copying=()).segments


def test_a_local_segment_stays_whose_copy_goes_on_with_what_this_log_does_not_have() -> None:
    """Otherwise a log could begin within a remote segment after an unclean election, and no replica could begin as it does."""
    log, remote = a_log(count=7, local_retention_bytes=0, retention_ms=-1), RemoteLog(WHERE)
    put(remote, a_segment(0, 4, EpochEntry(0, 0)))
    put(remote, a_segment(5, 11, EpochEntry(0, 5)))
    assert copied_up_to(log, remote) == 5, "as a follower it has not come that far yet"
    append(log, 6)
    assert copied_up_to(log, remote) == 12
    log.truncate_to(7)
    append(log, 6, epoch=2)
    assert copied_up_to(log, remote) == 5, "the copy goes on with another history"
    log.roll(NOW)
    copied = copy_all(log, remote)
    assert copied[0].start_offset == 5 and copied_up_to(log, remote) == 13, "its own copy counts, though the other is read up to the fork"
    assert remote.find(0, 5).end_offset == 11  # type: ignore[union-attr]
    assert not segments_to_copy(log, copied_up_to(log, remote))
