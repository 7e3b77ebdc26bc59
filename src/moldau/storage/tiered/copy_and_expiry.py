"""◇ Decides which segments are copied to remote storage, leave the local disk, or expire there.

    log start ─ … remote only … ─ local log start ─ … both … ─ copied up to ─ … local only … ─ last stable offset ─ log end
                                                                └─ sealed segments below the last stable offset are copied, oldest first

Local segments go by local.retention.ms and .bytes, and only when every record of them can be read from remote storage.  Remote segments go
by retention.ms and .bytes over both tiers: the log's start moves first, then what lies below it is deleted.
Source: RemoteLogManager.RLMCopyTask, RLMExpirationTask, UnifiedLog.deletableSegments; KIP-405.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from moldau.storage.epochs import EpochEntry
from moldau.storage.log import Log
from moldau.storage.segment import Segment
from moldau.storage.tiered.remote_log import Lineage, RemoteLog
from moldau.storage.tiered.segments import RemoteSegment, SegmentState


class Candidate(NamedTuple):
    """A local segment to be copied; `next_offset` exclusive."""

    segment: Segment
    next_offset: int


class Expiry(NamedTuple):
    """The result of expiry.  The log's start moves to `log_start_offset`, durably, before `segments` are deleted."""

    log_start_offset: int
    segments: list[RemoteSegment]


def copied_up_to(log: Log, remote: RemoteLog) -> int:
    """The first offset of the local log that is not in remote storage; 0 where nothing ever was."""
    lineage = log.epochs.entries
    return min(remote.kept_from(lineage, log.local_log_start_offset, log.log_end_offset), remote.highest_offset(lineage) + 1)


def leader_epochs_in(lineage: Lineage, start_offset: int, next_offset: int) -> tuple[EpochEntry, ...]:
    """The epochs of the records from `start_offset` to before `next_offset`, the first one from the range's beginning."""
    covering = [EpochEntry(entry.epoch, start_offset) for entry in lineage if entry.start_offset <= start_offset]
    return (*covering[-1:], *(entry for entry in lineage if start_offset < entry.start_offset < next_offset))


def segments_to_copy(log: Log, copied_offset: int) -> list[Candidate]:
    """Sealed segments that reach beyond `copied_offset` and lie wholly below the last stable offset."""
    return [
        Candidate(segment, following.base_offset)
        for segment, following in pairwise(log.segments)
        if copied_offset < following.base_offset <= log.last_stable_offset
    ]


def first_offset(log: Log, remote: RemoteLog) -> int:
    """The offset of the log's first record in either tier.  The noted start may be older, if another leader had let segments expire.

    If the log's own epochs do not go back to its start, its remote segments are not known, and the start stays.
    """
    lineage, local = log.epochs.entries, log.local_log_start_offset
    if not _is_complete(log) or remote.highest_offset(lineage) < 0:
        return log.log_start_offset
    first = remote.first_offset(lineage)
    return max(log.log_start_offset, local if first is None else min(first, local))


def _is_complete(log: Log) -> bool:
    """Whether its epochs tell of all of it."""
    earliest = log.epochs.earliest
    return earliest is not None and earliest.start_offset <= log.log_start_offset


def expired(log: Log, remote: RemoteLog, *, now_ms: int, copying: Collection[UUID]) -> Expiry:
    """`copying` are the segments that this broker is copying right now; another whose copy is not finished broke off, as far as is known.

    That it is finished may be on its way all the same, and others let their local segments go when they hear of it: so it is taken away
    only when what it holds of this log is in other segments, and never by a leader that is older than the one who copied it.
    After an unclean election there may be segments of a history that ended before this log's first epoch began: nobody reads them again.
    """
    start = _start_after_retention(log, remote, now_ms)
    lineage = log.epochs.entries
    oldest_epoch = lineage[0].epoch if _is_complete(log) else -1

    def is_broken_off(segment: RemoteSegment) -> bool:
        is_old = segment.state is SegmentState.COPY_STARTED and segment.leader_epochs[-1].epoch <= log.epochs.latest_epoch
        return is_old and remote.is_covered(lineage, segment, start)

    gone = [
        segment
        for segment in remote.segments.values()
        if segment.id not in copying
        and (
            segment.end_offset < start
            or segment.leader_epochs[-1].epoch < oldest_epoch
            or segment.state is SegmentState.DELETE_STARTED
            or is_broken_off(segment)
        )
    ]
    return Expiry(start, sorted(gone, key=lambda segment: segment.start_offset))


def _start_after_retention(log: Log, remote: RemoteLog, now_ms: int) -> int:
    config, start = log.config, log.log_start_offset
    if not config.is_deleted:
        return start
    excess = 0
    if config.retention_bytes >= 0:
        copied = copied_up_to(log, remote)
        only_local = sum(segment.size for segment in log.segments if segment.base_offset >= copied)
        excess = only_local + sum(segment.size for segment in _kept(log, remote)) - config.retention_bytes
    for segment in _kept(log, remote):
        is_old = config.retention_ms >= 0 and segment.max_timestamp_ms <= now_ms - config.retention_ms
        if not is_old and excess < segment.size:
            break
        excess -= segment.size
        start = max(start, segment.end_offset + 1)
    return start


def _kept(log: Log, remote: RemoteLog) -> Iterator[RemoteSegment]:
    """Oldest first; one by one, since without retention.bytes only the first few are looked at."""
    return (segment for segment in remote.readable(log.epochs.entries, log.log_end_offset) if segment.end_offset >= log.log_start_offset)
