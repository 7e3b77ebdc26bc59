"""◇ Decides, on the loop, which part of a log is compacted.  The plan can be sent to another process."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from moldau.storage.config import LogConfig
from moldau.storage.index import AbortedTransaction
from moldau.storage.log import Log
from moldau.storage.segment import MAX_RELATIVE_OFFSET


class SegmentToClean(NamedTuple):
    base_offset: int
    size: int
    index_bytes: int


class LastRecord(NamedTuple):
    """The last record of a living producer: its last data offset, or -1 and the epoch of its last marker."""

    offset: int
    producer_epoch: int


class CleaningPlan(NamedTuple):
    """Everything that `clean` needs to know; it can be sent to another process."""

    name: str
    directory: str
    segments: tuple[SegmentToClean, ...]
    first_dirty_offset: int
    end_offset: int
    """The end of the cleanable part, exclusive."""
    aborted: tuple[AbortedTransaction, ...]
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    max_segment_bytes: int
    max_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    truncations: int


class CleanedGroup(NamedTuple):
    """One new segment and the segments that it replaces."""

    base_offset: int
    replaced: tuple[int, ...]


class CleaningResult(NamedTuple):
    groups: tuple[CleanedGroup, ...]
    clean_offset: int
    """The offset below which everything is compacted now (exclusive), for the cleaner's checkpoint."""
    truncations: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int


class Dirtiness(NamedTuple):
    """How much of a log waits for compaction."""

    clean_bytes: int
    dirty_bytes: int
    first_dirty_offset: int
    end_offset: int
    is_overdue: bool
    """Whether max.compaction.lag.ms has passed for some record in it."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)

    def wants_cleaning(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def dirtiness(log: Log, checkpointed_offset: int | None, now_ms: int, *, unflushed_too: bool = False) -> Dirtiness:
    """The dirty part of a log.  `checkpointed_offset`: this log's offset in the cleaner's checkpoint.

    `unflushed_too` counts records, too, that a flush would make cleanable.
    """
    first = log.log_start_offset if checkpointed_offset is None else checkpointed_offset
    if not log.log_start_offset <= first <= log.log_end_offset:
        first = log.log_start_offset  # the log was shortened since
    config = log.config
    end = min(log.last_stable_offset, log.active_segment.base_offset)
    overdue_since = now_ms - config.max_compaction_lag_ms
    is_overdue = False
    clean = dirty = 0
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset <= first:
            clean += segment.size
            continue
        is_young = config.min_compaction_lag_ms > 0 and segment.largest_timestamp > now_ms - config.min_compaction_lag_ms
        is_flushed = unflushed_too or following.base_offset <= log.recovery_point
        if following.base_offset > end or not is_flushed or is_young:
            end = min(end, max(segment.base_offset, first))
            break
        dirty += segment.size
        oldest = segment.first_timestamp
        is_overdue = is_overdue or (segment.size > 0 and oldest is not None and 0 <= oldest < overdue_since)
    return Dirtiness(clean, dirty, first, max(end, first), is_overdue)


def plan_cleaning(log: Log, dirt: Dirtiness, now_ms: int, *, map_bytes: int) -> CleaningPlan | None:
    """The plan; None when no whole segment is cleanable."""
    segments = tuple(
        SegmentToClean(segment.base_offset, segment.size, max(segment.offset_index.size, segment.time_index.size))
        for segment, following in zip(log.segments, log.segments[1:], strict=False)
        if following.base_offset <= dirt.end_offset
    )
    if not segments or dirt.dirty_bytes == 0:
        return None
    last_records = {entry.producer_id: LastRecord(entry.last_offset, entry.producer_epoch) for entry in log.producers.producers.values()}
    config = log.config
    return CleaningPlan(
        name=str(log.topic_partition),
        directory=log.directory,
        segments=segments,
        first_dirty_offset=dirt.first_dirty_offset,
        end_offset=dirt.end_offset,
        aborted=log.aborted_transactions(segments[0].base_offset, dirt.end_offset),
        last_records=last_records,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        max_segment_bytes=config.segment_bytes,
        max_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=map_bytes,
        truncations=log.truncations,
    )


def grouped(segments: Iterable[SegmentToClean], plan: CleaningPlan) -> Iterator[list[SegmentToClean]]:
    """Neighbouring segments that fit into one segment together, even if all of their records stay."""
    group: list[SegmentToClean] = []
    ends = {
        segment.base_offset: following
        for segment, following in zip(plan.segments, [s.base_offset for s in plan.segments[1:]], strict=False)
    }
    for segment in segments:
        end = ends.get(segment.base_offset, plan.end_offset)
        fits = (
            bool(group)
            and sum(member.size for member in group) + segment.size <= plan.max_segment_bytes
            and sum(member.index_bytes for member in group) + segment.index_bytes <= plan.max_index_bytes
            and end - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if group and not fits:
            yield group
            group = []
        group.append(segment)
    if group:
        yield group
