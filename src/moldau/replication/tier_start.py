"""● Finds where a follower begins if its leader has the follower's next record in remote storage only.

    fetch ─ OFFSET_MOVED_TO_TIERED_STORAGE ─▶ where does the leader's own log begin? ─▶ a remote segment that reaches there, all of it
    the leader's history ─▶ its epochs and producers, read and checked ─▶ the log is made anew, to go on after that segment ─▶ fetch

The replica then has no record older than that on its disk and knows all the same what a leader has to know: which epoch each of them is of,
so that they are found in remote storage, and what the producers had written.  Nothing here changes before everything is known; then the log
is replaced in one go, whole after a crash or empty (`storage/folders/unfinished.py`).

More is checked than Kafka does, each for a history that forked (unclean election): a segment that the last leader copied may go on with
records that this one never saw, and one may be missing between the log's start and there.
Source: TierStateMachine, AbstractFetcherThread.handleOffsetsMovedToTieredStorage, fetchEarliestPendingUploadOffset; KIP-405, 1023.
To be called by the replica fetcher, with the connection to the leader as `Leader`; `proof.tiering.simulation` drives it.
"""

import logging
from collections.abc import Iterator
from typing import Final, Protocol

from moldau.errors import ErrorCode, KafkaError
from moldau.replication.partition import Partition
from moldau.storage.epochs import EpochEnd
from moldau.storage.log import Past
from moldau.storage.manager import LogManager
from moldau.storage.tiered.past import UnusablePast
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import RemoteSegment, SegmentState
from moldau.types import OffsetAndEpoch

LOG: Final = logging.getLogger(__name__)


class Leader(Protocol):
    """The questions that a follower asks.  Each goes out under the leader epoch that both know; offset and epoch are -1 if unknown.

    Errors of each: KafkaError, OSError.
    """

    async def earliest_offset(self) -> OffsetAndEpoch:
        """ListOffsets -2."""
        ...

    async def earliest_local_offset(self) -> OffsetAndEpoch:
        """ListOffsets -4."""
        ...

    async def earliest_pending_upload_offset(self) -> OffsetAndEpoch:
        """ListOffsets -6."""
        ...

    async def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """OffsetForLeaderEpoch."""
        ...


class Tier(Protocol):
    """The follower's view of remote storage.  Errors: KafkaError while its metadata is not here, OSError of the store."""

    async def segments_of(self, partition: Partition) -> RemoteLog:
        """The segments of a partition, once everything is known that was written before."""
        ...

    async def past(self, segment: RemoteSegment) -> Past:
        """Errors also: UnusablePast."""
        ...


class NotYet(Exception):
    """Nothing was changed; another attempt may succeed."""


async def begin_after_tier(
    partition: Partition, leader: Leader, tier: Tier, logs: LogManager, now_ms: int, *, at_last_tiered: bool = False
) -> int:
    """Begin the log after the remote segments.  Returns the offset to fetch next.

    `at_last_tiered` (KIP-1023): copy as little as possible of the records that both of the leader's tiers have.

    Errors: NotYet; KafkaError, OSError of the leader, the store, or the disk, which is offline then.
    """
    log, leader_epoch = partition.log, partition.leader_epoch
    if not log.is_tiered:
        raise NotYet(f"{partition.topic_partition} is not tiered here, but its leader says so")
    start = await leader.earliest_offset()
    begin = await (_last_tiered(leader, start) if at_last_tiered else leader.earliest_local_offset())
    if begin.offset <= start.offset:  # nothing is in remote storage only, any more
        logs.truncate_fully_and_start_at(log, start.offset, now_ms)
        return log.log_end_offset
    remote = await tier.segments_of(partition)
    past = await _past_before(begin, start.offset, leader, tier, remote)
    if partition.leader_epoch != leader_epoch or partition.is_leader:
        raise NotYet(f"{partition.topic_partition} has another leader meanwhile")
    # Never go back: records that were deleted under an earlier leader stay deleted.
    own_start_offset = log.log_start_offset if log.log_start_offset <= past.end_offset else 0
    log_start_offset = max(start.offset, past.start_offset, own_start_offset)
    logs.begin_after(log, past, now_ms, log_start_offset=log_start_offset)
    LOG.info("%s begins anew at offset %d: everything from %d on is in remote storage", partition, past.end_offset, log_start_offset)
    return log.log_end_offset


async def _last_tiered(leader: Leader, start: OffsetAndEpoch) -> OffsetAndEpoch:
    """Errors: KafkaError OFFSET_NOT_AVAILABLE while a leader that is new does not know."""
    pending = await leader.earliest_pending_upload_offset()
    if pending.offset >= 0:
        return pending
    local = await leader.earliest_local_offset()
    if local.offset != start.offset:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "The leader does not know yet how far its segments are in remote storage")
    return local


async def _past_before(begin: OffsetAndEpoch, log_start_offset: int, leader: Leader, tier: Tier, remote: RemoteLog) -> Past:
    """The past of the first usable segment that reaches `begin` or beyond.  Errors: NotYet."""
    why = "no segment in remote storage reaches there"
    for segment in _candidates(remote, await _epoch_before(begin, leader), begin.offset - 1):
        last = segment.leader_epochs[-1].epoch
        end = await leader.end_offset_for_epoch(last)
        if end.epoch != last or end.end_offset <= segment.end_offset:
            why = f"{segment} goes on with records that the leader never saw"
            continue
        try:
            past = await tier.past(segment)
        except UnusablePast as reason:
            why = str(reason)
            LOG.warning("%s", reason)
            continue
        covered = remote.covered_from(past.epochs, max(log_start_offset, past.start_offset))
        if covered >= past.end_offset:
            return past
        why = f"offset {covered} is not in remote storage"
    raise NotYet(f"{remote.where} cannot begin at offset {begin.offset} as its leader does: {why}")


async def _epoch_before(begin: OffsetAndEpoch, leader: Leader) -> int:
    """The epoch of the last record before `begin`."""
    if begin.epoch <= 0:
        return begin.epoch
    end = await leader.end_offset_for_epoch(begin.epoch - 1)
    return end.epoch if end.end_offset >= begin.offset else begin.epoch


def _candidates(remote: RemoteLog, epoch: int, offset: int) -> Iterator[RemoteSegment]:
    """The segment that has `offset`, then any that reaches as far, the closest end first."""
    found = remote.find(epoch, offset)
    if found is not None:
        yield found
    others = (each for each in remote.segments.values() if each.state is SegmentState.COPY_FINISHED and each.end_offset >= offset)
    for segment in sorted(others, key=lambda each: (each.end_offset, each.start_offset)):
        if segment is not found:
            yield segment
