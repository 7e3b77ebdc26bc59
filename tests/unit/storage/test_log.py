import random
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import batches, read_header, records_of, verify_crc
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import build_end_txn_marker
from moldau.storage.config import LogConfig
from moldau.storage.log import AppendResult, FetchData, Log
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.recovery import LogDamaged
from moldau.storage.validator import AppendFailure
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition
from proof.storage.logs import offset_of_max_timestamp

NOW = 1_700_000_000_000
DIRECTORY = "/data/t-0"


def a_batch(count: int = 1, *, timestamp: int = NOW, size: int = 10, **options: int) -> bytearray:
    records = [NewRecord(timestamp + n, b"k%d" % n, b"v" * size) for n in range(count)]
    return build_batch(records, **options)  # type: ignore[arg-type]


def a_disk() -> MemoryFiles:
    files = MemoryFiles()
    files.mkdir("/data")
    files.sync_everything()
    return files


def a_log(files: MemoryFiles | None = None, *, clean: bool = False, recovery_point: int = 0, **options: object) -> Log:
    config = LogConfig(**options)  # type: ignore[arg-type]
    files = files or a_disk()
    return Log.open(files, DIRECTORY, TopicPartition("t", 0), config, now_ms=NOW, clean=clean, recovery_point=recovery_point)


def append(log: Log, batch: bytearray, *, epoch: int = 0, now_ms: int = NOW) -> AppendResult:
    result = log.append_from_client(batch, leader_epoch=epoch, now_ms=now_ms)
    assert isinstance(result, AppendResult), result
    return result


def refused(log: Log, batch: bytearray) -> AppendFailure:
    result = log.append_from_client(batch, leader_epoch=0, now_ms=NOW)
    assert isinstance(result, AppendFailure), result
    return result


def fetch(log: Log, offset: int, max_bytes: int = 1 << 20, *, limit_offset: int | None = None, min_one_batch: bool = True) -> list[int]:
    """The base offsets of the whole batches that the read returns."""
    data = log.read(offset, max_bytes, limit_offset=limit_offset, min_one_batch=min_one_batch)
    assert isinstance(data, FetchData), data
    return [header.base_offset for _, header in batches(data.records.read())] if data.records else []


def stored(log: Log) -> Sequence[tuple[int, bytes]]:
    found = []
    data = log.read(log.log_start_offset, 1 << 30)
    while isinstance(data, FetchData) and data.records is not None:
        raw = memoryview(data.records.read())
        end = 0
        for position, header in batches(raw, strict=True):
            found += [(record.offset, bytes(record.value or b"")) for record in records_of(raw[position:])]
            end = header.next_offset
        data = log.read(end, 1 << 30)
    return found


def test_offsets_are_given_in_order_and_written_into_the_batch() -> None:
    log = a_log()
    first, second = append(log, a_batch(3)), append(log, a_batch(2), epoch=4)
    assert (first.first_offset, first.last_offset, second.first_offset, second.last_offset) == (0, 2, 3, 4)
    assert (log.log_end_offset, log.high_watermark, log.log_start_offset) == (5, 0, 0)
    data = log.read(0, 1 << 20)
    assert isinstance(data, FetchData) and data.records is not None
    headers = [header for _, header in batches(data.records.read(), strict=True)]
    assert [(header.base_offset, header.partition_leader_epoch) for header in headers] == [(0, 0), (3, 4)]
    assert log.end_offset_for_epoch(0) == (0, 3)


def test_a_reader_sees_up_to_its_limit_and_whole_first_batches() -> None:
    log = a_log()
    for _ in range(5):
        append(log, a_batch(2))
    size = len(a_batch(2))
    assert fetch(log, 0) == [0, 2, 4, 6, 8]
    assert fetch(log, 3) == [2, 4, 6, 8]
    assert fetch(log, 3, limit_offset=6) == [2, 4]
    assert fetch(log, 3, limit_offset=2) == []
    assert fetch(log, 2, max_bytes=size * 2) == [2, 4]
    assert fetch(log, 2, max_bytes=size + 5) == [2]
    assert fetch(log, 2, max_bytes=1) == [2]
    assert fetch(log, 2, max_bytes=1, min_one_batch=False) == []
    assert fetch(log, 10) == []
    assert log.read(11, 100) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(-1, 100) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_roll_by_size_and_every_offset_is_found_again() -> None:
    size = len(a_batch(3, size=100))
    log = a_log(segment_bytes=size * 4, index_interval_bytes=1)
    for _ in range(30):
        append(log, a_batch(3, size=100))
    assert [segment.base_offset for segment in log.segments] == list(range(0, 90, 12))
    for offset in range(90):
        assert fetch(log, offset, max_bytes=1) == [offset // 3 * 3], offset


def test_segments_roll_by_the_records_time() -> None:
    log = a_log(segment_ms=1000, message_timestamp_after_max_ms=10**9)
    for step in (0, 900, 1001, 1500, 2002):
        append(log, a_batch(timestamp=NOW + step))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_a_full_index_rolls() -> None:
    log = a_log(segment_index_bytes=24, index_interval_bytes=0)
    for _ in range(9):
        append(log, a_batch())
    assert len(log.segments) > 2
    assert [fetch(log, offset, max_bytes=1) for offset in range(9)] == [[offset] for offset in range(9)]


@pytest.mark.parametrize(
    ("change", "without_the_disk"),
    [
        (lambda log: log.configure(log.config), True),
        (lambda log: append(log, a_batch()), False),
        (lambda log: log.truncate_to(2), False),
        (lambda log: log.belongs_to(UUID(int=7)), False),
        (lambda log: log.roll(NOW), False),
    ],
)
def test_a_log_that_nothing_happened_to_is_closed_without_the_disk(change: Callable[[Log], object], without_the_disk: bool) -> None:
    files = a_disk()
    log = a_log(files)
    append(log, a_batch(3))
    log.close()
    again = a_log(files, clean=True, recovery_point=3)
    change(again)
    calls: set[str] = set()

    def note(call: str, path: str) -> None:
        calls.add(call)

    files.hook = note
    again.close()
    assert ("sync" not in calls and "sync_dir" not in calls) is without_the_disk, calls


def test_a_clean_close_is_reopened_as_it_was() -> None:
    files = a_disk()
    log = a_log(files, segment_bytes=600, index_interval_bytes=50)
    for number in range(20):
        append(log, a_batch(2, producer_id=7, producer_epoch=0, base_sequence=number * 2))
    before = stored(log)
    log.close()
    assert log.recovery_point == 40
    files.crash(random.Random(1))
    again = a_log(files, clean=True, recovery_point=40, segment_bytes=600)
    assert stored(again) == before
    assert again.log_end_offset == 40 and again.recovery_point == 40
    assert again.producers.producers[7].last_sequence == 39
    append(again, a_batch(1, producer_id=7, producer_epoch=0, base_sequence=40))


@pytest.mark.parametrize("segment_bytes", [600, 1 << 20])
def test_a_torn_tail_goes_and_what_was_flushed_stays(segment_bytes: int) -> None:
    for seed in range(40):
        files = a_disk()
        log = a_log(files, segment_bytes=segment_bytes)
        for number in range(8):
            append(log, a_batch(2, producer_id=7, producer_epoch=0, base_sequence=number * 2))
        log.flush()
        for number in range(8, 12):
            append(log, a_batch(2, producer_id=7, producer_epoch=0, base_sequence=number * 2))
        before = stored(log)
        files.crash(random.Random(seed))
        again = a_log(files, recovery_point=16, segment_bytes=segment_bytes)
        after = stored(again)
        assert len(after) >= 16 and after == before[: len(after)], seed
        assert again.producers.producers[7].last_sequence == again.log_end_offset - 1
        final = a_log(files, recovery_point=16, segment_bytes=segment_bytes)
        assert stored(final) == after


def test_damage_below_the_recovery_point_is_refused_and_nothing_is_touched() -> None:
    files = a_disk()
    log = a_log(files)
    for _ in range(4):
        append(log, a_batch(2))
    log.flush()
    path = log.active_segment.path(".log")
    file = files.open(path)
    file.pwrite([b"\xff"], log.active_segment.size // 2)
    content = files.read(path)
    with pytest.raises(LogDamaged, match=r"damaged at byte .* below offset 8 was on stable storage"):
        a_log(files, recovery_point=8)
    assert files.read(path) == content
    assert a_log(files, recovery_point=0).log_end_offset == 4


def test_duplicates_gaps_and_old_epochs() -> None:
    log = a_log()

    def of(sequence: int, count: int = 2, epoch: int = 1) -> bytearray:
        return a_batch(count, producer_id=9, producer_epoch=epoch, base_sequence=sequence)

    assert append(log, of(5)).first_offset == 0  # an unknown producer may start anywhere
    for sequence in range(7, 17, 2):
        append(log, of(sequence))
    assert append(log, of(15)) == AppendResult(10, 11, NOW + 1, 0, -1, 2, 0, True)  # the time is the batch's, as in Kafka
    assert append(log, of(7)).first_offset == 2
    assert refused(log, of(5)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # this is older than the last five
    assert refused(log, of(19)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, of(17, epoch=0)).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, of(17, epoch=2)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, of(0, epoch=2)).first_offset == 12
    assert log.log_end_offset == 14


@pytest.mark.parametrize("between", [0, 3, 300])
def test_a_batch_sent_again_is_recognised_after_a_clean_stop_though_the_snapshot_tells_of_the_last_only(between: int) -> None:
    files = a_disk()
    log = a_log(files, segment_bytes=1024)

    def of(sequence: int, epoch: int = 1) -> bytearray:
        return a_batch(2, producer_id=9, producer_epoch=epoch, base_sequence=sequence)

    append(log, of(0, epoch=0))
    offsets = {}
    for sequence in range(0, 14, 2):
        offsets[sequence] = append(log, of(sequence)).first_offset
        for _ in range(between):
            append(log, a_batch())
    log.close()
    end = log.log_end_offset
    log = a_log(files, clean=True, segment_bytes=1024)
    for sequence in range(4, 14, 2):
        result = append(log, of(sequence))
        assert (result.is_duplicate, result.first_offset) == (True, offsets[sequence])
    assert refused(log, of(2)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, of(16)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == end
    append(log, of(14))
    assert append(log, of(6)).is_duplicate
    assert refused(log, of(4)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_an_older_epoch_are_not_recalled() -> None:
    files = a_disk()
    log = a_log(files)
    append(log, a_batch(2, producer_id=9, producer_epoch=0, base_sequence=0))
    append(log, a_batch(2, producer_id=9, producer_epoch=1, base_sequence=0))
    append(log, a_batch(2, producer_id=9, producer_epoch=1, base_sequence=2))
    log.close()
    log = a_log(files, clean=True)
    assert append(log, a_batch(2, producer_id=9, producer_epoch=1, base_sequence=0)).first_offset == 2
    assert len(log.producers.producers[9].batches) == 2


def test_the_sequence_wraps() -> None:
    log = a_log()
    append(log, a_batch(3, producer_id=9, producer_epoch=0, base_sequence=(1 << 31) - 3))
    assert append(log, a_batch(1, producer_id=9, producer_epoch=0, base_sequence=0)).first_offset == 3


def test_a_follower_takes_the_leaders_offsets_and_stops_at_a_newer_epoch() -> None:
    leader, follower = a_log(), a_log()
    append(leader, a_batch(3), epoch=1)
    append(leader, a_batch(2), epoch=2)
    append(leader, a_batch(2), epoch=5)
    data = leader.read(0, 1 << 20)
    assert isinstance(data, FetchData) and data.records is not None
    raw = data.records.read()
    result = follower.append_as_follower(memoryview(raw)[:-3], 2)
    assert isinstance(result, AppendResult) and (result.first_offset, result.last_offset) == (0, 4)
    assert follower.epochs.entries == leader.epochs.entries[:2]
    assert follower.append_as_follower(memoryview(raw), 9).error is ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[union-attr]
    broken = bytearray(raw)
    broken[80] ^= 1
    assert a_log().append_as_follower(broken, 9).error is ErrorCode.CORRUPT_MESSAGE  # type: ignore[union-attr]


def test_truncation_takes_records_epochs_and_producers_back() -> None:
    log = a_log(segment_bytes=400)
    for number in range(12):
        append(log, a_batch(2, producer_id=7, producer_epoch=0, base_sequence=number * 2), epoch=number // 4)
    before = stored(log)
    log.update_high_watermark(24)
    assert log.truncate_to(10)
    assert stored(log) == before[:10]
    assert (log.log_end_offset, log.high_watermark) == (10, 10)
    assert log.epochs.latest_epoch == 1
    assert log.producers.producers[7].last_sequence == 9
    assert append(log, a_batch(2, producer_id=7, producer_epoch=0, base_sequence=10), epoch=1).first_offset == 10
    assert not log.truncate_to(100)
    log.truncate_fully_and_start_at(50)
    assert stored(log) == [] and log.log_end_offset == 50 and not log.producers.producers
    assert append(log, a_batch(), epoch=3).first_offset == 50


def test_a_flush_after_a_recovery_covers_what_the_last_life_left_unsynced() -> None:
    files = a_disk()
    log = a_log(files, segment_bytes=400)
    append(log, a_batch(2))
    log.flush()
    for _ in range(9):
        append(log, a_batch(2))
    before = stored(log)
    again = a_log(files, segment_bytes=400, recovery_point=2)  # the process was killed, the machine was not
    assert stored(again) == before and again.recovery_point == 2
    assert again.flush() == 20
    for seed in range(20):
        assert stored(a_log(files.crashed(random.Random(seed)), segment_bytes=400, recovery_point=20)) == before


def test_indexes_made_anew_below_the_recovery_point_are_durable_at_once() -> None:
    files = a_disk()
    log = a_log(files, segment_bytes=400)
    log.verifies_transactions = False
    append(log, a_batch(2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=1))
    marker = build_end_txn_marker(is_commit=False, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW)
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    for _ in range(9):
        append(log, a_batch(2))
    log.flush()
    files.unlink(f"{DIRECTORY}/{0:020d}.index")
    files.sync_everything()
    again = a_log(files, segment_bytes=400, recovery_point=21)
    assert files.exists(f"{DIRECTORY}/{0:020d}.index") and len(again.aborted_transactions(0, 21)) == 1
    for seed in range(20):
        after = a_log(files.crashed(random.Random(seed)), segment_bytes=400, recovery_point=21)
        assert len(after.aborted_transactions(0, 21)) == 1, seed


def test_a_snapshot_from_before_a_truncation_is_not_believed_when_the_log_has_grown_past_it() -> None:
    files = a_disk()
    log = a_log(files)
    log.verifies_transactions = False
    append(log, a_batch(2))
    append(log, a_batch(2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=1))
    log.close()  # close leaves a snapshot at 4 with an open transaction
    again = a_log(files, clean=True, recovery_point=4)
    again.truncate_to(2)
    for _ in range(4):
        append(again, a_batch(1), epoch=1)
    again.close()
    files.unlink(f"{DIRECTORY}/{6:020d}.snapshot")
    after = a_log(files, clean=True, recovery_point=6)
    assert (after.log_end_offset, after.producers.open_transactions) == (6, {})


def test_a_reader_after_a_truncation_finds_the_new_batches() -> None:
    log = a_log()
    for _ in range(6):
        append(log, a_batch(1))
    log.truncate_to(2)
    append(log, a_batch(3, size=100))
    append(log, a_batch(1))
    assert [fetch(log, offset, max_bytes=1) for offset in range(6)] == [[0], [1], [2], [2], [2], [5]]


def test_a_truncation_at_a_segments_base_may_come_back_in_a_crash_and_is_seen() -> None:
    for seed in range(60):
        files = a_disk()
        log = a_log(files, segment_bytes=300)
        for _ in range(3):
            append(log, a_batch(2))
        log.flush()
        before = stored(log)
        assert [segment.base_offset for segment in log.segments] == [0]
        log.truncate_to(4)
        log.roll(NOW)
        append(log, a_batch(2, size=30), epoch=1)
        after = stored(log)
        files.crash(random.Random(seed))
        again = a_log(files, recovery_point=4, segment_bytes=300)
        found = stored(again)
        assert found in (before[:4], after), seed
        assert again.log_end_offset == len(found)


def test_a_base_offset_that_does_not_follow_is_damage_though_no_checksum_covers_it() -> None:
    files = a_disk()
    log = a_log(files)
    for _ in range(4):
        append(log, a_batch(2))
    path, third = log.active_segment.path(".log"), log.active_segment.position_of(4)
    assert third is not None
    files.open(path).pwrite([b"\x01"], third + 6)
    assert a_log(files).log_end_offset == 4
    compacted = a_disk()
    compacted.mkdir(DIRECTORY)
    follower = a_log(compacted, cleanup_policy=("compact",))
    for offset in (0, 7, 9):
        assert isinstance(follower.append_as_follower(a_batch(1, base_offset=offset, leader_epoch=0), 0), AppendResult)
    assert a_log(compacted, cleanup_policy=("compact",)).log_end_offset == 10  # compaction left the gap in such a log


def test_the_last_stable_offset_stays_below_what_is_undecided() -> None:
    log = a_log()
    log.verifies_transactions = False
    append(log, a_batch(2))
    append(log, a_batch(2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=1))
    append(log, a_batch(1))
    assert [log.update_high_watermark(mark) and log.last_stable_offset for mark in (1, 2, 3, 5)] == [1, 2, 2, 2]
    marker = build_end_txn_marker(is_commit=False, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW)
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    assert [log.update_high_watermark(mark) and log.last_stable_offset for mark in (4, 5, 6)] == [2, 2, 6]
    data = log.read(0, 1 << 20, with_aborted=True)
    assert isinstance(data, FetchData) and [entry[:3] for entry in data.aborted] == [(7, 2, 5)]
    assert log.read(0, 100, limit_offset=2, with_aborted=True).aborted == ()  # type: ignore[union-attr]
    with_deleted = log.delete_records_before(4)
    assert with_deleted == 4 and log.last_stable_offset == 6


def test_retention_deletes_the_oldest_below_the_high_watermark_only() -> None:
    size = len(a_batch(2))
    log = a_log(segment_bytes=size * 2, retention_bytes=size * 4, retention_ms=-1, file_delete_delay_ms=100)
    for _ in range(10):
        append(log, a_batch(2))
    assert log.delete_old_segments(NOW) == 0  # nothing is below the high watermark yet
    log.update_high_watermark(9)
    assert log.delete_old_segments(NOW) == 0  # nothing is on stable storage yet
    log.flush()
    assert log.delete_old_segments(NOW) == 2
    log.update_high_watermark(20)
    assert log.delete_old_segments(NOW) == 1
    assert (log.log_start_offset, log.segments[0].base_offset) == (12, 12)
    names = log.files.listdir(DIRECTORY)
    assert [name for name in names if name.endswith(".log.deleted")] == [f"{n:020d}.log.deleted" for n in (0, 4, 8)]
    assert log.delete_due_files(NOW + 99) == 0 and log.delete_due_files(NOW + 100) == 3
    assert not [name for name in log.files.listdir(DIRECTORY) if "deleted" in name]


def test_retention_by_time_goes_by_the_newest_record_and_may_take_all() -> None:
    log = a_log(segment_bytes=400, retention_ms=1000)
    for step in range(10):
        append(log, a_batch(2, timestamp=NOW + step * 10))
    log.update_high_watermark(20)
    log.flush()
    assert log.delete_old_segments(NOW + 1031) == 0
    assert log.delete_old_segments(NOW + 1032) == 1
    assert log.delete_old_segments(NOW + 99999, trusted_now_ms=NOW + 1032) == 0
    log.delete_old_segments(NOW + 99999)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (20, 20, 1)


def test_delete_records_moves_the_start() -> None:
    log = a_log(segment_bytes=400)
    for _ in range(10):
        append(log, a_batch(2))
    log.update_high_watermark(15)
    assert log.delete_records_before(16) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records_before(5) == 5
    assert log.read(4, 100) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(log, 5, max_bytes=1) == [4]
    assert log.delete_records_before(-1) == 15
    assert log.certain_start_offset == 0 and log.wants_flush(NOW)
    assert log.delete_old_segments(NOW) == 0
    log.flush()
    assert log.certain_start_offset == 15 and log.delete_old_segments(NOW) == 1


def test_look_up_by_timestamp() -> None:
    log = a_log(segment_bytes=400, index_interval_bytes=1)
    for step in range(10):
        append(log, a_batch(2, timestamp=NOW + step * 10))
    assert log.offset_for_timestamp(0) == (NOW, 0)
    assert log.offset_for_timestamp(NOW + 51) == (NOW + 51, 11)
    assert log.offset_for_timestamp(NOW + 52) == (NOW + 60, 12)
    assert log.offset_for_timestamp(NOW + 92) is None
    assert offset_of_max_timestamp(log) == (NOW + 91, 19)
    append(log, a_batch(1, timestamp=NOW + 5000))
    append(log, a_batch(1, timestamp=NOW))
    assert offset_of_max_timestamp(log) == (NOW + 5000, 20)


def test_log_append_time_is_the_brokers() -> None:
    log = a_log(message_timestamp_type="LogAppendTime")
    result = append(log, a_batch(2, timestamp=5), now_ms=NOW + 7)
    assert result.log_append_time_ms == NOW + 7
    assert offset_of_max_timestamp(log) == (NOW + 7, 0)
    data = log.read(0, 1000)
    assert isinstance(data, FetchData) and data.records is not None
    assert [record.timestamp for record in records_of(data.records.read())] == [NOW + 7, NOW + 7]


def test_a_batch_that_says_it_has_the_brokers_time_is_stored_with_its_own() -> None:
    log = a_log()
    append(log, a_batch(2, timestamp=NOW - 9, log_append_time_ms=NOW + 5))
    stored = log.read(0, 10_000)
    assert isinstance(stored, FetchData) and stored.records is not None
    content = stored.records.file.pread(stored.records.size, 0)  # type: ignore[attr-defined]
    header = read_header(content)
    assert verify_crc(memoryview(content), 0, header) and header.timestamp_type == 0 and header.max_timestamp == NOW + 5
    assert [record.timestamp for record in records_of(content)] == [NOW - 9, NOW - 8]


def test_epochs_end_where_the_log_starts_once_their_records_are_deleted() -> None:
    log = a_log()
    for epoch, count in ((0, 3), (2, 4), (5, 2)):
        append(log, a_batch(count), epoch=epoch)
    log.update_high_watermark(9)
    assert [log.end_offset_for_epoch(epoch) for epoch in (-2, -1, 0, 1, 2, 5, 6)] == [
        (-2, 0), (-1, -1), (0, 3), (0, 3), (2, 7), (5, 9), (-1, -1)
    ]  # fmt: skip
    log.delete_records_before(5)
    assert [log.end_offset_for_epoch(epoch) for epoch in (-2, -1, 0, 1, 2, 5, 6)] == [
        (-2, 5), (-1, -1), (0, 5), (1, 5), (2, 7), (5, 9), (-1, -1)
    ]  # fmt: skip
    log.delete_records_before(9)
    assert [log.end_offset_for_epoch(epoch) for epoch in (-2, 2, 5)] == [(-2, 9), (2, 9), (5, 9)]


def test_a_batch_of_a_new_epoch_does_not_wait_for_the_disk_and_is_found_after_the_process_was_killed() -> None:
    files = a_disk()
    log = a_log(files)
    append(log, a_batch(2), epoch=3)
    log.flush()
    files.hook = lambda call, path: pytest.fail(f"{call} {path}") if call in ("sync", "sync_dir") else None
    append(log, a_batch(2), epoch=4)
    files.hook = None
    again = a_log(files, recovery_point=2)  # what was not synced is still there
    assert again.log_end_offset == 4 and again.epochs.entries == log.epochs.entries == [(3, 0), (4, 2)]
    again.flush()
    after = a_log(files.crashed(random.Random(0)), recovery_point=4)
    assert after.log_end_offset == 4 and after.epochs.entries == [(3, 0), (4, 2)]


def test_a_new_epoch_after_a_truncation_is_on_the_disk_before_its_batch() -> None:
    """Batches that were cut off may come back with a crash, and only the epochs tell them from the batches in their place."""
    files = a_disk()
    log = a_log(files)
    for epoch in (0, 3):
        for _ in range(4):
            append(log, a_batch(), epoch=epoch)
    log.flush()
    files.sync_everything()
    log.truncate_to(4)
    for number in range(4):
        append(log, a_batch(size=10), epoch=4 + number // 3)
    for seed in range(200):
        after = a_log(files.crashed(random.Random(seed)), recovery_point=4)
        data = after.read(4, 1 << 20)
        assert isinstance(data, FetchData)
        held = data.records.file.pread(data.records.size, data.records.position) if data.records is not None else b""  # type: ignore[attr-defined]
        found = [header.partition_leader_epoch for _, header in batches(held)]
        assert found in ([3] * len(found), [4, 4, 4, 5][: len(found)]), f"seed {seed}: a mixture of two histories"


def test_a_full_disk_refuses_and_loses_nothing() -> None:
    files = a_disk()
    log = a_log(files)
    append(log, a_batch(2))
    files.capacity = log.size + 150
    failure = refused(log, a_batch(5, size=100))
    assert failure.error is ErrorCode.KAFKA_STORAGE_ERROR and "No space" in failure.detail
    assert log.failure is None and log.active_segment.file.size() == log.size
    assert append(log, a_batch(1)).first_offset == 2


def test_after_a_failed_sync_nothing_is_taken_or_promised_any_more() -> None:
    from moldau.errors import KafkaError
    from moldau.testing.files import Fault

    files = a_disk()
    log = a_log(files)
    seen: list[OSError] = []
    log.on_failure = lambda _, error: seen.append(error)
    append(log, a_batch(2))
    files.hook = lambda call, path: Fault() if call == "sync" else None
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        log.flush()
    files.hook = None
    assert log.recovery_point == 0 and len(seen) == 1
    assert refused(log, a_batch()).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.read(0, 100) is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError):
        log.flush()


def test_internal_appends_may_have_several_batches() -> None:
    log = a_log()
    both = a_batch(2) + a_batch(3)
    result = log.append_as_leader(both, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    assert isinstance(result, AppendResult) and (result.first_offset, result.last_offset, result.records_count) == (0, 4, 5)
    assert fetch(log, 0) == [0, 2]


def test_a_flush_after_recovery_makes_durable_what_recovery_wrote() -> None:
    """Nobody looks at indexes below the next recovery point again: one torn by a second power failure would lead readers astray."""
    sizes = {"segment_bytes": 2000, "index_interval_bytes": 200}
    files = a_disk()
    log = a_log(files, **sizes)
    for _ in range(60):
        append(log, a_batch(2, size=50))
    log.flush()
    middle = (log.segments[1].base_offset + log.segments[2].base_offset) // 2

    files = files.crashed(random.Random(1))
    unsynced: dict[str, None] = {}

    def note(call: str, path: str) -> None:
        if call == "pwrite":
            unsynced[path] = None
        elif call == "sync":
            unsynced.pop(path, None)

    files.hook = note
    log = a_log(files, recovery_point=middle, **sizes)
    assert f"{DIRECTORY}/{log.segments[1].base_offset:020}.index" in unsynced, "recovery rebuilds the index"
    log.flush()
    assert not unsynced
