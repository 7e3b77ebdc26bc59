"""◇ Cleaned segments take the place of the old ones, on the loop.

The swap survives a crash at every step: `.cleaned` (synced) → `.swap` → the old segments go → the final name, with the directory synced
after each; recovery finishes a swap whose files had reached `.swap`, and undoes any other.
"""

from collections.abc import Iterable

from moldau.storage.cleaner.plan import CleanedGroup, CleaningResult
from moldau.storage.files import Files
from moldau.storage.log import Log
from moldau.storage.recovery import CLEANED_SUFFIX, SWAP_SUFFIX
from moldau.storage.segment import Segment, unlink_segment


def install(log: Log, result: CleaningResult, now_ms: int) -> bool:
    """Put the cleaned segments in place of the old ones.  False when the log's past changed meanwhile: the cleaned segments are then thrown
    away.

    Errors: OSError.
    """
    bases = {segment.base_offset for segment in log.segments}
    if log.truncations != result.truncations:
        discard(log.files, log.directory, [group.base_offset for group in result.groups])
        return False
    for group in result.groups:
        if bases.issuperset(group.replaced):
            _swap(log, group, now_ms)
        else:  # retention was faster: these segments are gone
            discard(log.files, log.directory, [group.base_offset])
    return True


def _swap(log: Log, group: CleanedGroup, now_ms: int) -> None:
    cleaned = Segment.open(
        log.files,
        log.directory,
        group.base_offset,
        index_interval_bytes=log.config.index_interval_bytes,
        now_ms=now_ms,
        suffix=CLEANED_SUFFIX,
    )
    cleaned.rename_suffix(SWAP_SUFFIX)
    log.files.sync_dir(log.directory)
    log.replace_segments(group.replaced, cleaned, now_ms)


def discard(files: Files, directory: str, base_offsets: Iterable[int]) -> None:
    """Remove cleaned segments that are not wanted, as far as they were written.  Errors: OSError."""
    for base_offset in base_offsets:
        unlink_segment(files, directory, base_offset, CLEANED_SUFFIX)
