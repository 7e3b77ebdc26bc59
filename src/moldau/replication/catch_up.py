"""◇ What a follower does to its log by what its leader answers to a fetch.

    records                             appended as the leader has them
    a diverging epoch (KIP-101, 595)    truncated: the records after it were never committed
    OFFSET_OUT_OF_RANGE                 truncated where the leader ends before it; begun anew where the leader begins after it
    OFFSET_MOVED_TO_TIERED_STORAGE      see `tier_start`

    leader     epoch 3 ended at 40 here
    follower   has epoch 3 itself                    ─▶    truncates to where that ended in both
               has nothing of it, but of 2 and 5     ─▶    truncates to where 2 ended, and asks again from there

A log may end elsewhere than it was told to: a tiered one that is cut below the first record on its disk begins anew.  Its end is what
counts from then on.
A fetch tells the leader where this log starts, and DeleteRecords is answered by that: a new start is to be noted on the disk first.
Source: AbstractFetcherThread, Partition.appendRecordsToFollowerOrFutureReplica.  To be called by the replica fetcher.
"""

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import batches
from moldau.storage.epochs import UNKNOWN_END, EpochEnd
from moldau.storage.log import AppendResult, Log
from moldau.storage.manager import LogManager
from moldau.storage.validator import AppendFailure


def append_fetched(
    logs: LogManager, log: Log, records: memoryview | bytearray, *, leader_epoch: int, leader_start_offset: int, now_ms: int
) -> AppendResult | AppendFailure:
    """Errors: as `Log.append_as_follower`; OSError where the log has to begin earlier, and its disk is offline."""
    result = log.append_as_follower(records, leader_epoch)
    start = log.log_start_offset
    if isinstance(result, AppendResult) or result.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
        return result
    if log.log_end_offset > max(start, leader_start_offset):
        return result
    # A DeleteRecords, or the end of another leader, had this log begin within a batch, which comes whole; and what is here is in the
    # leader's log no more.
    first = next((header.base_offset for _, header in batches(memoryview(records))), log.log_end_offset)
    if first >= log.log_end_offset:
        return result
    logs.truncate_fully_and_start_at(log, first, now_ms)
    result = log.append_as_follower(records, leader_epoch)
    log.raise_log_start_offset(min(max(start, leader_start_offset), log.log_end_offset))
    return result


def truncation_offset(log: Log, diverging: EpochEnd) -> int:
    """Where `log` is to end at the latest.  `diverging` is the largest epoch of the leader that is not newer, and its end there."""
    own = log.end_offset_for_epoch(diverging.epoch)
    if own == UNKNOWN_END:
        return min(diverging.end_offset, log.log_end_offset)
    if own.epoch != diverging.epoch:
        return min(own.end_offset, log.log_end_offset)
    return min(own.end_offset, diverging.end_offset, log.log_end_offset)


def begin_in_range(logs: LogManager, log: Log, *, leader_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
    """After OFFSET_OUT_OF_RANGE.  Nothing where the log's end lies in the leader's by now.  Errors: OSError, and its disk is offline."""
    if leader_end_offset < log.log_end_offset:
        logs.truncate_to(log, leader_end_offset, now_ms)
    elif leader_start_offset > log.log_end_offset:
        logs.truncate_fully_and_start_at(log, leader_start_offset, now_ms)
