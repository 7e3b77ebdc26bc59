"""◇ Applies the leader's answer to a fetch to a follower's log.

    verdict = take(logs, partition, answer, now_ms)

    records                             appended as the leader has them
    a diverging epoch (KIP-101, 595)    truncated: the records after it were never committed
    OFFSET_OUT_OF_RANGE                 truncated where the leader ends before it; begun anew where the leader begins after it
    OFFSET_MOVED_TO_TIERED_STORAGE      see `tier_start`

    leader     epoch 3 ended at 40 here
    follower   has epoch 3 itself                    ─▶    truncates to where that ended in both
               has nothing of it, but of 2 and 5     ─▶    truncates to where 2 ended, and asks again from there

A truncated log may end elsewhere than asked: a tiered log that is cut below the first record on its disk begins anew.  Its actual end
counts from then on. A fetch tells the leader where this log starts, and the leader answers DeleteRecords by it.  So a new start must be
noted on the disk first.
Source: AbstractFetcherThread, Partition.appendRecordsToFollowerOrFutureReplica.  Called by `fetcher.py`.
"""

import logging
from enum import Enum
from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import PartitionData
from moldau.protocol.records.batch import batches
from moldau.replication.partition import Partition
from moldau.storage.epochs import UNKNOWN_END, EpochEnd
from moldau.storage.log import AppendResult, Log
from moldau.storage.manager import LogManager
from moldau.storage.validator import AppendFailure

LOG: Final = logging.getLogger(__name__)


class Verdict(Enum):
    """The effect of an answer on the log."""

    NOTHING = "nothing has changed"
    TAKEN = "the log has changed"
    OUT_OF_RANGE = "the log ends where the leader's does not reach"
    IN_REMOTE_STORAGE = "the leader has the next record in remote storage only"
    REFUSED = "the leader does not serve it now"
    DROPPED = "it is not served before the metadata changes, or the disk is broken"


VERDICTS: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE: Verdict.OUT_OF_RANGE,
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: Verdict.IN_REMOTE_STORAGE,
    ErrorCode.FENCED_LEADER_EPOCH: Verdict.DROPPED,
}
EXPECTED: Final = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID)
"""Refusals that occur while metadata is still on its way."""


def begin_following(logs: LogManager, partition: Partition, now_ms: int) -> None:
    """Prepare a log before the first fetch under a leader epoch.  Errors: OSError, and its disk is offline.

    A log without epochs cannot be compared with its leader's, so every record that is not certainly committed is removed.
    """
    log = partition.log
    if log.log_end_offset > log.high_watermark and log.epochs.earliest is None:
        LOG.info("%s has records without leader epochs: truncated to its high watermark, %d", partition, log.high_watermark)
        logs.truncate_to(log, log.high_watermark, now_ms)


# hot: 12 µs a partition with data beside CRC and write
def take(logs: LogManager, partition: Partition, answer: PartitionData, now_ms: int) -> Verdict:
    """Apply one partition's part of a fetch response, asked for from the log's end.  Errors: OSError, and its disk is offline."""
    if answer.error_code:
        return _refused(partition, ErrorCode.of(answer.error_code))
    if answer.diverging_epoch.epoch >= 0 or answer.diverging_epoch.end_offset >= 0:
        return _truncated(logs, partition, EpochEnd(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset), now_ms)
    log, end_offset = partition.log, partition.log.log_end_offset
    if answer.records:
        records = answer.records
        assert isinstance(records, memoryview | bytearray), "a response holds bytes that were received"
        start = answer.log_start_offset
        result = append_fetched(logs, log, records, leader_epoch=partition.leader_epoch, leader_start_offset=start, now_ms=now_ms)
        if isinstance(result, AppendFailure):
            LOG.error("%s cannot take what leader %d sent: %s", partition, partition.leader_id, result.detail)
            return Verdict.REFUSED if log.failure is None else Verdict.DROPPED
    start_before = log.log_start_offset
    partition.heard_from_leader(high_watermark=answer.high_watermark, log_start_offset=answer.log_start_offset)
    has_moved = log.log_end_offset != end_offset or log.log_start_offset != start_before
    return Verdict.TAKEN if has_moved else Verdict.NOTHING


def _refused(partition: Partition, code: ErrorCode) -> Verdict:
    verdict = VERDICTS.get(code, Verdict.REFUSED)
    if verdict is Verdict.REFUSED and code not in EXPECTED:
        LOG.warning("%s is refused by leader %d: %s", partition, partition.leader_id, code.name)
    return verdict


def _truncated(logs: LogManager, partition: Partition, diverging: EpochEnd, now_ms: int) -> Verdict:
    log = partition.log
    offset = truncation_offset(log, diverging)
    if offset < log.high_watermark:
        LOG.warning("%s is truncated to %d, below its high watermark %d: its leader has no more", partition, offset, log.high_watermark)
    else:
        LOG.info("%s is truncated to %d: leader %d never had the records after it", partition, offset, partition.leader_id)
    logs.truncate_to(log, offset, now_ms)
    return Verdict.TAKEN


def append_fetched(
    logs: LogManager, log: Log, records: memoryview | bytearray, *, leader_epoch: int, leader_start_offset: int, now_ms: int
) -> AppendResult | AppendFailure:
    """Append fetched batches.

    Errors: as `Log.append_as_follower`; OSError where the log has to begin earlier, and its disk is offline.
    """
    result = log.append_as_follower(records, leader_epoch)
    start = log.log_start_offset
    if isinstance(result, AppendResult) or result.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
        return result
    if log.log_end_offset > max(start, leader_start_offset):
        return result
    # A DeleteRecords, or the end of another leader, let this log begin within a batch.  The batch comes whole, and the leader's log no
    # longer has the records here.
    first = next((header.base_offset for _, header in batches(memoryview(records))), log.log_end_offset)
    if first >= log.log_end_offset:
        return result
    logs.truncate_fully_and_start_at(log, first, now_ms)
    result = log.append_as_follower(records, leader_epoch)
    log.raise_log_start_offset(min(max(start, leader_start_offset), log.log_end_offset))
    return result


def truncation_offset(log: Log, diverging: EpochEnd) -> int:
    """The offset at which `log` must end at the latest.

    `diverging` is the leader's largest epoch that is not newer than the follower's, and its end there.
    """
    own = log.end_offset_for_epoch(diverging.epoch)
    if own == UNKNOWN_END:
        return min(diverging.end_offset, log.log_end_offset)
    if own.epoch != diverging.epoch:
        return min(own.end_offset, log.log_end_offset)
    return min(own.end_offset, diverging.end_offset, log.log_end_offset)


def begin_in_range(logs: LogManager, log: Log, *, leader_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
    """Put the log into the leader's range after OFFSET_OUT_OF_RANGE.

    This does nothing if the log's end lies in the leader's range by now.  Errors: OSError, and its disk is offline.
    """
    if leader_end_offset < log.log_end_offset:
        logs.truncate_to(log, leader_end_offset, now_ms)
    elif leader_start_offset > log.log_end_offset:
        logs.truncate_fully_and_start_at(log, leader_start_offset, now_ms)
