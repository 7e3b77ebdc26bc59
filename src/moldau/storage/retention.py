"""◇ Retention by size and by age: it deletes whole segments from the oldest on, as far as every in-sync replica has their records.

Source: UnifiedLog.deleteOldSegments, deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments.  Called by `log`.
"""

from collections.abc import Callable

from moldau.storage.log_segments import LogSegments
from moldau.storage.segment import Segment


def passed(segments: LogSegments, *, retention_bytes: int, retention_ms: int, oldest_ms: int, end_offset: int, high_watermark: int) -> int:
    """The offset up to which retention deletes segments.  It lies beyond the active segment's base if all of that segment may go, too.

    `oldest_ms`: the time from which age is counted; -1 for bytes or ms means no limit; the log ends at `end_offset`.
    """
    start = segments.bases[0]
    if retention_bytes >= 0:
        excess = segments.size - retention_bytes

        def is_excess(segment: Segment) -> bool:
            nonlocal excess
            excess -= segment.size
            return excess >= 0

        start = max(start, _pass_over(segments, is_excess, end_offset=end_offset, high_watermark=high_watermark))
    if retention_ms >= 0:
        oldest = oldest_ms - retention_ms

        def is_old(segment: Segment) -> bool:
            return segment.age_timestamp < oldest

        start = max(start, _pass_over(segments, is_old, end_offset=end_offset, high_watermark=high_watermark))
    return start


def _pass_over(segments: LogSegments, may_go: Callable[[Segment], bool], *, end_offset: int, high_watermark: int) -> int:
    """The end of the last segment, from the oldest on, that `may_go` and lies wholly below the high watermark."""
    start = segments.bases[0]
    for number, segment in enumerate(segments.all):
        is_active = segment is segments.active
        end = segments.end_of(number) or end_offset
        if end > high_watermark or (is_active and segment.size == 0) or not may_go(segment):
            break
        start = end
    return start
