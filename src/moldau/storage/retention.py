"""◇ What retention by size and by age lets go: whole segments from the oldest on, as far as everybody has their records.

Source: UnifiedLog.deleteOldSegments, deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments.  Called by `log`.
"""

from collections.abc import Callable

from moldau.storage.log_segments import LogSegments
from moldau.storage.segment import Segment


def passed(segments: LogSegments, *, retention_bytes: int, retention_ms: int, oldest_ms: int, end_offset: int, high_watermark: int) -> int:
    """The offset up to which retention lets segments go: beyond the active segment's base when all of that may go, too.

    `oldest_ms` is the time that age is counted from; -1 for bytes or ms means no limit; the log ends at `end_offset`.
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
    """From the oldest segment on, as long as it `may_go` and all of it lies below the high watermark.  The end of the last one."""
    start = segments.bases[0]
    for number, segment in enumerate(segments.all):
        is_active = segment is segments.active
        end = segments.end_of(number) or end_offset
        if end > high_watermark or (is_active and segment.size == 0) or not may_go(segment):
            break
        start = end
    return start
