import dataclasses
import random
from collections.abc import Sequence

import pytest

from moldau.protocol.records.batch import batches, read_header
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.records.control import build_end_txn_marker
from moldau.storage.cleaner.copying import clean
from moldau.storage.cleaner.plan import CleaningResult, dirtiness, plan_cleaning
from moldau.storage.cleaner.swap import install
from moldau.storage.config import LogConfig
from moldau.storage.log import AppendResult, Log
from moldau.storage.producers.state import AppendOrigin
from moldau.testing.files import MemoryFiles
from proof.storage.logs import NOW_MS, open_log, stored_bytes, stored_records

COMPACTED = dataclasses.replace(LogConfig.load({}), cleanup_policy=("compact",), delete_retention_ms=1000, file_delete_delay_ms=0)
MAP_BYTES = 1 << 20


def a_log(files: MemoryFiles | None = None, **options: object) -> Log:
    return open_log(files or MemoryFiles(), "/t-0", dataclasses.replace(COMPACTED, **options))  # type: ignore[arg-type]


def put(log: Log, pairs: Sequence[tuple[str, str | None]], *, codec: Codec = Codec.NONE, **options: int) -> AppendResult:
    records = [NewRecord(NOW_MS, key.encode(), value.encode() if value is not None else None, [("h", b"1")]) for key, value in pairs]
    result = log.append_from_client(build_batch(records, codec=codec, **options), leader_epoch=0, now_ms=NOW_MS)  # type: ignore[arg-type]
    assert isinstance(result, AppendResult), result
    return result


def end_transaction(log: Log, *, producer_id: int, is_commit: bool) -> None:
    marker = build_end_txn_marker(is_commit=is_commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS)
    assert isinstance(log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR), AppendResult)


def compact(
    log: Log, *, now_ms: int = NOW_MS, checkpoint: int | None = None, map_bytes: int = MAP_BYTES, roll: bool = True
) -> CleaningResult:
    if roll:
        log.roll(now_ms)
    log.flush()
    log.update_high_watermark(log.log_end_offset)
    plan = plan_cleaning(log, dirtiness(log, checkpoint, now_ms), now_ms, map_bytes=map_bytes)
    assert plan is not None
    result = clean(log.files, plan)
    assert install(log, result, now_ms)
    return result


def content(log: Log) -> list[tuple[int, str, str | None]]:
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in stored_records(log)
        if not record.is_control
    ]


def test_the_table_of_keys_k1_to_k9() -> None:
    offsets = [13, 17, *range(19, 29)]
    keys = ["K1", "K5", "K2", "K7", "K8", "K4", "K1", "K1", "K1", "K9", "K8", "K2"]
    log = a_log()
    log.truncate_fully_and_start_at(13)
    for offset, key in zip(offsets, keys, strict=True):
        batch = build_batch([NewRecord(NOW_MS, key.encode(), b"V%d" % offset)], base_offset=offset, leader_epoch=0)
        assert isinstance(log.append_as_follower(batch, 0), AppendResult)
    compact(log)
    assert content(log) == [(offset, keys[offsets.index(offset)], f"V{offset}") for offset in (17, 20, 22, 25, 26, 27, 28)]


@pytest.mark.parametrize("codec", list(Codec))
def test_the_newest_value_of_each_key_stays_with_its_offset_time_and_headers(codec: Codec) -> None:
    log = a_log()
    put(log, [("a", "1"), ("b", "1"), ("a", "2")], codec=codec)
    put(log, [("c", "1"), ("b", "2")], codec=codec)
    untouched = stored_bytes(log)[len(stored_bytes(log)) - len(build_batch([])) :]
    result = compact(log)
    assert content(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]
    assert (result.clean_offset, result.records_read, result.records_kept) == (5, 5, 3)
    raw = stored_bytes(log)
    first, second = [header for _, header in batches(raw, strict=True)]
    assert (first.base_offset, first.last_offset, first.records_count, first.codec) == (0, 2, 1, codec)
    assert (second.base_offset, second.last_offset, second.records_count) == (3, 4, 2)
    assert untouched  # the second batch lost nothing, so its bytes are the same
    assert raw.endswith(untouched)


def test_a_log_that_begins_or_ends_with_dropped_batches_is_read_across() -> None:
    log = a_log()
    for number in range(6):
        put(log, [("a", str(number))])
    put(log, [("b", "x")])
    compact(log)
    assert content(log) == [(5, "a", "5"), (6, "b", "x")]
    assert log.log_start_offset == 0 and log.log_end_offset == 7
    data = log.read(0, 1000)
    assert not isinstance(data, int) and data.records is not None
    assert read_header(data.records.read()).base_offset == 5


def test_tombstones_live_for_their_retention_and_go() -> None:
    log = a_log()
    put(log, [("a", "1"), ("b", "1")])
    put(log, [("a", None)])
    first = compact(log)
    assert content(log) == [(1, "b", "1"), (2, "a", None)]
    assert all(header.has_delete_horizon == (header.base_offset == 2) for _, header in batches(stored_bytes(log)))
    put(log, [("c", "1")])
    second = compact(log, now_ms=NOW_MS + 999, checkpoint=first.clean_offset)
    assert (2, "a", None) in content(log)
    put(log, [("d", "1")])
    compact(log, now_ms=NOW_MS + 1000, checkpoint=second.clean_offset)
    assert content(log) == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]


def test_aborted_records_go_and_markers_follow_when_nothing_is_left() -> None:
    log = a_log()
    put(log, [("a", "kept")])
    put(log, [("a", "aborted")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=1)
    end_transaction(log, producer_id=1, is_commit=False)
    put(log, [("b", "committed")], producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=1)
    end_transaction(log, producer_id=2, is_commit=True)
    log.roll(NOW_MS)
    assert len(log.aborted_transactions(0, 100)) == 1
    assert log.remove_expired_producers(NOW_MS + 10, 5) == 2  # the last batch of a living producer would stay
    result = compact(log)
    assert content(log) == [(0, "a", "kept"), (3, "b", "committed")]
    assert [record.offset for record in stored_records(log) if record.is_control] == [2, 4]
    assert len(log.aborted_transactions(0, 100)) == 1
    put(log, [("z", "1")])
    result = compact(log, checkpoint=result.clean_offset)  # the aborted records are gone, so their marker gets a horizon
    assert [record.offset for record in stored_records(log) if record.is_control] == [2, 4]
    assert not log.aborted_transactions(0, 100)
    put(log, [("z", "2")])
    compact(log, now_ms=NOW_MS + 1000, checkpoint=result.clean_offset)
    assert [record.offset for record in stored_records(log) if record.is_control] == [4]


def test_an_open_transaction_stops_compaction() -> None:
    log = a_log()
    put(log, [("a", "1")])
    put(log, [("a", "2")])
    log.roll(NOW_MS)
    put(log, [("a", "3")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=1)
    put(log, [("a", "4")])
    result = compact(log)
    assert result.clean_offset == 2
    assert content(log) == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]


def test_the_last_batch_of_a_living_producer_stays_empty_if_need_be() -> None:
    files = MemoryFiles()
    log = a_log(files)
    put(log, [("a", "1")], producer_id=1, producer_epoch=0, base_sequence=0)
    put(log, [("a", "2")], producer_id=1, producer_epoch=0, base_sequence=1)
    put(log, [("a", "3")])
    compact(log)
    assert content(log) == [(2, "a", "3")]
    assert [(header.base_offset, header.records_count) for _, header in batches(stored_bytes(log))] == [(1, 0), (2, 1)]
    for path in files.listdir("/t-0"):
        if path.endswith(".snapshot"):
            files.unlink(f"/t-0/{path}")
    again = open_log(files, "/t-0", COMPACTED)
    assert again.producers.producers[1].last_sequence == 1
    duplicate = put(again, [("a", "2")], producer_id=1, producer_epoch=0, base_sequence=1)
    assert duplicate.is_duplicate and duplicate.first_offset == 1


def test_small_neighbours_become_one_segment() -> None:
    log = a_log()
    for number in range(8):
        put(log, [("a", str(number)), (f"k{number}", "x")])
        log.roll(NOW_MS)
    compact(log, roll=False)
    assert [segment.base_offset for segment in log.segments] == [0, 16]
    assert [offset for offset, _, _ in content(log)] == [1, 3, 5, 7, 9, 11, 13, 14, 15]
    assert [name for name in log.files.listdir("/t-0") if name.endswith(".snapshot")] == [f"{16:020d}.snapshot"]
    assert log.delete_due_files(NOW_MS) == 8
    assert not [name for name in log.files.listdir("/t-0") if "deleted" in name or "swap" in name or "cleaned" in name]


def test_the_new_segment_reaches_as_far_as_those_it_replaces() -> None:
    log = a_log()
    for number in range(6):
        put(log, [("a", str(number))])
        log.roll(NOW_MS)
    put(log, [("a", "6")])
    log.roll(NOW_MS)
    log.flush()
    log.update_high_watermark(7)
    dirt = dirtiness(log, None, NOW_MS)
    log.producers.clear(7)
    plan = plan_cleaning(log, dirt, NOW_MS, map_bytes=MAP_BYTES)
    assert plan is not None
    first, second = plan.segments[:3], plan.segments[3:]
    assert install(log, clean(log.files, plan._replace(max_segment_bytes=3 * plan.segments[0].size)), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 7] and len(first) == 3 and second
    assert [(header.base_offset, header.records_count) for _, header in batches(stored_bytes(log))] == [(2, 0), (5, 0), (6, 1)]


def test_a_full_map_cleans_a_part_and_the_next_round_goes_on() -> None:
    log = a_log(segment_bytes=400)
    for number in range(40):
        put(log, [(f"k{number % 10}", str(number))])
    checkpoint, rounds = None, 0
    log.roll(NOW_MS)
    while checkpoint is None or checkpoint < 40:
        result = compact(log, checkpoint=checkpoint, map_bytes=4 * 132, roll=False)
        assert result.clean_offset > (checkpoint or 0)
        checkpoint, rounds = result.clean_offset, rounds + 1
    assert rounds > 2
    assert content(log)[-10:] == [(number, f"k{number % 10}", str(number)) for number in range(30, 40)]


def test_beyond_a_full_map_a_segment_stays_as_it_is() -> None:
    log = a_log()
    put(log, [("a", "1")])
    without_key = build_batch([NewRecord(NOW_MS, None, b"v")], base_offset=1, leader_epoch=0)
    assert isinstance(log.append_as_follower(without_key, 0), AppendResult)
    result = compact(log, map_bytes=1)
    assert (result.clean_offset, result.records_kept) == (1, 2)
    assert compact(log, checkpoint=result.clean_offset, roll=False).records_kept == 1


def test_the_newest_time_is_that_of_the_records_that_stay() -> None:
    log = a_log()
    records = [NewRecord(NOW_MS + later, key, b"v") for key, later in [(b"a", 5000), (b"b", 1000), (b"c", 3000), (b"d", 2000)]]
    assert isinstance(log.append_from_client(build_batch(records), leader_epoch=0, now_ms=NOW_MS), AppendResult)
    put(log, [("a", "2")])
    compact(log)
    assert [header.max_timestamp - NOW_MS for _, header in batches(stored_bytes(log))] == [3000, 0]


def test_what_is_young_unflushed_or_active_is_not_cleanable() -> None:
    log = a_log(min_compaction_lag_ms=1000)
    put(log, [("a", "1")])
    log.roll(NOW_MS)
    put(log, [("a", "2")])
    log.update_high_watermark(2)
    assert dirtiness(log, None, NOW_MS + 5000).dirty_bytes == 0  # not on stable storage
    log.flush()
    assert dirtiness(log, None, NOW_MS + 999).dirty_bytes == 0  # too young
    dirt = dirtiness(log, None, NOW_MS + 1000)
    assert (dirt.dirty_bytes, dirt.first_dirty_offset, dirt.end_offset) == (log.segments[0].size, 0, 1)
    assert dirtiness(log, 1, NOW_MS + 1000).dirty_bytes == 0
    assert dirtiness(log, 77, NOW_MS + 1000).first_dirty_offset == 0  # a checkpoint beyond the log's end


def test_dirty_ratio_and_the_longest_lag_decide() -> None:
    log = a_log(max_compaction_lag_ms=10_000)
    for number in range(4):
        put(log, [("a", str(number))])
        log.roll(NOW_MS)
    log.flush()
    log.update_high_watermark(4)
    half = dirtiness(log, 2, NOW_MS)
    assert half.ratio == 0.5 and not half.wants_cleaning(log.config)
    assert dirtiness(log, 1, NOW_MS).wants_cleaning(log.config)
    assert not dirtiness(log, 2, NOW_MS + 10_000).is_overdue
    assert dirtiness(log, 2, NOW_MS + 10_001).wants_cleaning(log.config)


def test_a_damaged_batch_is_not_given_a_new_checksum() -> None:
    files = MemoryFiles()
    log = a_log(files)
    put(log, [("a", "1"), ("a", "2")])
    log.roll(NOW_MS)
    log.flush()
    log.update_high_watermark(2)
    files.open(f"/t-0/{0:020d}.log").pwrite([b"\xff"], 80)
    plan = plan_cleaning(log, dirtiness(log, None, NOW_MS), NOW_MS, map_bytes=MAP_BYTES)
    assert plan is not None
    with pytest.raises(Exception, match="the batch at offset 0 is damaged"):
        clean(files, plan)


def test_a_log_that_was_truncated_meanwhile_is_left_alone() -> None:
    log = a_log()
    for number in range(4):
        put(log, [("a", str(number))])
        log.roll(NOW_MS)
    log.flush()
    log.update_high_watermark(4)
    plan = plan_cleaning(log, dirtiness(log, None, NOW_MS), NOW_MS, map_bytes=MAP_BYTES)
    assert plan is not None
    result = clean(log.files, plan)
    log.truncate_to(2)
    assert not install(log, result, NOW_MS)
    assert [offset for offset, _, _ in content(log)] == [0, 1]
    assert not [name for name in log.files.listdir("/t-0") if "cleaned" in name]


def test_a_crash_at_every_step_of_the_swap_leaves_a_whole_log() -> None:
    files = MemoryFiles()
    files.mkdir("/t-0")
    log = a_log(files)
    for number in range(12):
        put(
            log,
            [(f"k{number % 3}", str(number)), ("once" if number == 0 else "x", str(number))],
            producer_id=5,
            producer_epoch=0,
            base_sequence=number * 2,
        )
        if number % 3 == 2:
            log.roll(NOW_MS)
    put(log, [("last", "1")])
    files.sync_everything()
    before = content(log)
    latest = {key: (offset, value) for offset, key, value in before}
    states = 0

    def crash_here(call: str, path: str) -> None:
        nonlocal states
        if call == "pread":
            return
        for seed in range(12 if call in ("rename", "sync_dir") else 2):
            after = files.crashed(random.Random(states * 10 + seed))
            again = open_log(after, "/t-0", COMPACTED, recovery_point=log.recovery_point)
            found = content(again)
            offsets = [offset for offset, _, _ in found]
            assert set(found) <= set(before) and offsets == sorted(set(offsets)), (call, path, seed)
            assert {key: (offset, value) for offset, key, value in found} == latest, (call, path, seed)
            assert again.log_end_offset == 25 and again.producers.producers[5].last_sequence == 23
            states += 1

    log.flush()
    log.update_high_watermark(25)
    plan = plan_cleaning(log, dirtiness(log, None, NOW_MS), NOW_MS, map_bytes=MAP_BYTES)
    assert plan is not None
    files.hook = crash_here
    result = clean(files, plan)
    assert install(log, result, NOW_MS)
    log.delete_due_files(NOW_MS)
    assert states > 100
    assert {key: (offset, value) for offset, key, value in content(log)} == latest


def test_an_aborted_transaction_of_the_clean_part_does_not_hide_its_producers_later_records() -> None:
    log = a_log()
    put(log, [("K1", "aborted")], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, producer_id=7, is_commit=False)
    first = compact(log)
    put(log, [("K2", "old")])
    put(log, [("K2", "new")], producer_id=7, producer_epoch=0, base_sequence=1, is_transactional=True)
    end_transaction(log, producer_id=7, is_commit=True)
    compact(log, checkpoint=first.clean_offset)
    assert content(log) == [(3, "K2", "new")]
