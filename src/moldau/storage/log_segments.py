"""◇ The segments of one log in their order: finds the segment of an offset, begins new segments, and removes old ones.

    sealed segments …  │ active segment          only the active one is written to
    bases              base offsets of all       `bisect` finds a segment by them

A removed segment is out of the log at once and off the disk after file.delete.delay.ms, because readers may still use it.  Debts to the
disk are noted in `durability`.

Source: LogSegments, LocalLog.roll.  Called by `log`, `log_reader`, `retention`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moldau.storage.config import LogConfig
from moldau.storage.files import Files
from moldau.storage.flush.durability import Durability
from moldau.storage.index import OFFSET_ENTRY, TIME_ENTRY
from moldau.storage.segment import DELETED_SUFFIX, Segment


class DeletionDelay(NamedTuple):
    """The time (ms of the wall clock) that a file waits for its deletion, in case somebody still reads it."""

    since_ms: int
    delay_ms: int

    def is_over(self, now_ms: int) -> bool:
        """Whether the file may go.  A clock that was set back ends the delay, which would last for as long as the step back otherwise."""
        return not self.since_ms <= now_ms < self.since_ms + self.delay_ms


class LogSegments:
    """See the module."""

    def __init__(self, files: Files, directory: str, segments: list[Segment], durability: Durability, *, name: str) -> None:
        """`name` is the partition's: the jitter of segment.ms depends on it."""
        self.all = segments
        self.active = segments[-1]
        self.bases = [segment.base_offset for segment in segments]
        self._files = files
        self._directory = directory
        self._durability = durability
        self._jitter_seed = hash_of(name) * 31
        self._waiting_deletion: list[tuple[DeletionDelay, Segment]] = []

    def configure(self, config: LogConfig) -> None:
        """Take new options."""
        self._config = config
        self._max_offset_entries = config.segment_index_bytes // OFFSET_ENTRY.size
        self._max_time_entries = config.segment_index_bytes // TIME_ENTRY.size - 1  # the last one is for the roll
        self.active.index_interval_bytes = config.index_interval_bytes
        self._roll_after_ms = self._jittered()

    # ---------------------------------------------------------------- finding

    @property
    def size(self) -> int:
        """The bytes of records, without indexes."""
        return sum(segment.size for segment in self.all)

    def number_of(self, offset: int) -> int:
        """The number of the segment that holds `offset`, or would; -1 when it lies before all of them."""
        return bisect_right(self.bases, offset) - 1

    def end_of(self, number: int) -> int | None:
        """The end of segment `number` (exclusive); None for the active one, which ends with the log."""
        return self.bases[number + 1] if number + 1 < len(self.bases) else None

    def batch_boundary(self, offset: int, end_offset: int) -> int:
        """The start of the batch that holds `offset`; `offset` itself if there is none.  Errors: CorruptBatch, OSError."""
        if self.bases[0] <= offset < end_offset:
            segment = self.all[self.number_of(offset)]
            position = segment.position_of(offset)
            if position is not None:
                return min(offset, segment.header_at(position).base_offset)
        return offset

    # ---------------------------------------------------------------- rolling

    def must_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether to roll before `size` bytes whose last offset is `last_offset` are appended."""
        active = self.active
        if not active.has_room_for(last_offset, size):
            return True
        is_due = active.size > 0 and (
            active.size > self._config.segment_bytes - size
            or active.waited_ms(now_ms, max_timestamp) > self._roll_after_ms
            or active.offset_index.count >= self._max_offset_entries
            or active.time_index.count >= self._max_time_entries
        )
        # A segment that outgrows its size does no harm; a log that cannot go on does.
        return is_due and self._files.has_spare_descriptors(for_new_log=False)

    def start(self, base_offset: int, now_ms: int) -> None:
        """Start a new active segment; the one before it, if it stays, must be sealed.  Errors: OSError, and nothing has changed."""
        interval = self._config.index_interval_bytes
        self.active = Segment.create(self._files, self._directory, base_offset, index_interval_bytes=interval, now_ms=now_ms)
        self.all.append(self.active)
        self.bases.append(base_offset)
        self._durability.owe_names()
        self._roll_after_ms = self._jittered()

    def _jittered(self) -> int:
        """segment.ms less this segment's share of the jitter, which is the same at every call."""
        config = self._config
        limit = min(config.segment_jitter_ms, config.segment_ms)
        if limit <= 0:
            return config.segment_ms
        mixed = (self._jitter_seed + self.active.base_offset * 2654435761) & 0x7FFFFFFF
        return config.segment_ms - mixed % limit

    # ---------------------------------------------------------------- removal

    def drop(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Remove segments from the log at once, and from the disk after file.delete.delay.ms.  The last of the others must become active,
        or a new one start.

        Errors: OSError.
        """
        going = set(map(id, segments))
        self.all = [segment for segment in self.all if id(segment) not in going]
        self.bases = [segment.base_offset for segment in self.all]
        self._durability.forgive(segments)
        self._set_aside(segments, now_ms)

    def _set_aside(self, segments: Iterable[Segment], now_ms: int) -> None:
        for segment in segments:
            segment.rename_suffix(DELETED_SUFFIX)
            segment.close()
            self._waiting_deletion.append((DeletionDelay(now_ms, self._config.file_delete_delay_ms), segment))
        self._durability.owe_names()

    def cut_after(self, offset: int, now_ms: int) -> None:
        """Remove everything from `offset` on; the segment that holds `offset` becomes the active one.  Errors: CorruptBatch, OSError."""
        self.drop(self.all[self.number_of(offset) + 1 :], now_ms)
        self.active = self.all[-1]
        self.active.unseal()
        self.active.truncate_to(offset)
        self.active.index_interval_bytes = self._config.index_interval_bytes
        self._durability.forgive([self.active])

    def replace(self, replaced: tuple[int, ...], swap: Segment, now_ms: int) -> list[Segment]:
        """Put a compacted segment, which stands beside the log as `.swap`, in place of those with these base offsets.  Returns the replaced
        segments.

        Errors: OSError.
        """
        going = [segment for segment in self.all if segment.base_offset in replaced]
        number = self.all.index(going[0])
        self._set_aside(going, now_ms)
        self._files.sync_dir(self._directory)
        swap.rename_suffix("")
        self._files.sync_dir(self._directory)
        swap.adopt_indexes()
        rest = [segment for segment in self.all if segment.base_offset not in replaced]
        self.all = [*rest[:number], swap, *rest[number:]]
        self.bases = [segment.base_offset for segment in self.all]
        self._durability.forgive(going)
        return going

    def due(self, now_ms: int) -> list[Segment]:
        """The segments that have waited long enough, for `delete_files_of`, which may run in a thread: the log no longer has them."""
        due = [segment for delay, segment in self._waiting_deletion if delay.is_over(now_ms)]
        if due:
            self._waiting_deletion = [waiting for waiting in self._waiting_deletion if not waiting[0].is_over(now_ms)]
        return due

    # ---------------------------------------------------------------- life

    def moved_to(self, directory: str) -> None:
        """Note that the directory was renamed."""
        self._directory = directory
        for segment in (*self.all, *(segment for _, segment in self._waiting_deletion)):
            segment.moved_to(directory)

    def relocated(self, directory: str) -> None:
        """Note that all files are in another folder now, except those of segments that wait for deletion."""
        self._directory = directory
        self._waiting_deletion = []
        for segment in self.all:
            segment.close()
            segment.moved_to(directory)
            segment.txn_index.is_unsynced = False

    def close(self) -> None:
        for segment in self.all:
            segment.close()


def hash_of(text: str) -> int:
    """A hash that is the same in every process, unlike `hash`."""
    value = 0
    for byte in text.encode():
        value = (value * 31 + byte) & 0x7FFFFFFF
    return value
