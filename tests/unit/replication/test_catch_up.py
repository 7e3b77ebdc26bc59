"""A follower changes its log by what its leader answers."""

from uuid import UUID

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.catch_up import append_fetched, begin_in_range, truncation_offset
from moldau.storage.config import LogConfig
from moldau.storage.epochs import EpochEnd
from moldau.storage.log import AppendResult, Log
from moldau.storage.manager import LogManager
from moldau.storage.validator import AppendFailure
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition

NOW_MS = 1_700_000_000_000
WHERE = TopicPartition("t", 0)


def a_log(*epochs: tuple[int, int]) -> tuple[LogManager, Log]:
    """A log with so many records of each epoch, one to a batch."""
    logs = LogManager(MemoryFiles(), ["/d"], LogConfig.load({}), unique=lambda: UUID(int=1))
    logs.open(NOW_MS)
    log = logs.get_or_create(WHERE, logs.config, now_ms=NOW_MS)
    for epoch, count in epochs:
        for _ in range(count):
            assert isinstance(log.append_from_client(batch(1), leader_epoch=epoch, now_ms=NOW_MS), AppendResult)
    log.update_high_watermark(log.log_end_offset)
    return logs, log


def batch(count: int, *, offset: int = 0, epoch: int = 0) -> bytearray:
    return build_batch([NewRecord(NOW_MS, b"k", b"v")] * count, base_offset=offset, leader_epoch=epoch)


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [
        (EpochEnd(3, 7), 7),  # the leader has less of the epoch
        (EpochEnd(3, 30), 9),  # the follower has less of the epoch
        (EpochEnd(4, 12), 9),  # the follower has nothing of the epoch: it cuts to the end of the one before, and asks again
        (EpochEnd(2, 5), 4),
        (EpochEnd(6, 20), 11),  # the epoch is newer than all that the follower has
        (EpochEnd(6, 10), 10),
    ],
)
def test_where_a_log_that_went_astray_is_cut(diverging: EpochEnd, expected: int) -> None:
    _, log = a_log((1, 4), (3, 5), (5, 2))
    assert truncation_offset(log, diverging) == expected


def test_a_log_that_begins_within_the_leaders_batch_takes_all_of_it() -> None:
    logs, log = a_log()
    begin_in_range(logs, log, leader_start_offset=12, leader_end_offset=40, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (12, 12)
    result = append_fetched(logs, log, batch(5, offset=10, epoch=2), leader_epoch=2, leader_start_offset=12, now_ms=NOW_MS)
    assert isinstance(result, AppendResult)
    assert (log.log_start_offset, log.log_end_offset, log.segments[0].base_offset) == (12, 15, 10)


def test_what_the_leader_has_deleted_gives_way_to_its_batch() -> None:
    logs, log = a_log((1, 6))
    result = append_fetched(logs, log, batch(5, offset=4, epoch=2), leader_epoch=2, leader_start_offset=7, now_ms=NOW_MS)
    assert isinstance(result, AppendResult) and (log.log_start_offset, log.log_end_offset) == (7, 9)


def test_records_that_the_leader_still_has_are_not_thrown_away() -> None:
    logs, log = a_log((1, 6))
    result = append_fetched(logs, log, batch(5, offset=4, epoch=2), leader_epoch=2, leader_start_offset=3, now_ms=NOW_MS)
    assert isinstance(result, AppendFailure) and log.log_end_offset == 6


def test_out_of_range_on_either_side() -> None:
    logs, log = a_log((1, 6))
    begin_in_range(logs, log, leader_start_offset=2, leader_end_offset=8, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (0, 6), "the leader has come as far meanwhile"
    begin_in_range(logs, log, leader_start_offset=0, leader_end_offset=4, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (0, 4)
    begin_in_range(logs, log, leader_start_offset=9, leader_end_offset=20, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
