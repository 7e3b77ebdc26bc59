"""◇ What leaves a log: at its start by retention and DeleteRecords, at its end by truncation, in its middle by compaction.

    start      `raise_log_start_offset` ─▶ noted on the disk ─▶ `drop_below_start`: whole segments, as far as they were flushed
    end        recovery point lowered on the disk ─▶ `truncate_to`

`manager` keeps that order.
"""

from bisect import bisect_right
from collections.abc import Callable

from moldau.errors import ErrorCode
from moldau.storage.files import is_shortage
from moldau.storage.log_core import LogCore
from moldau.storage.log_values import Past, sync_path
from moldau.storage.producer_state import SNAPSHOT_SUFFIX
from moldau.storage.recovery import load_producers, producers_at, snapshot_offsets
from moldau.storage.segment import Segment, file_name


class LogShortening(LogCore):
    """See the module."""

    @property
    def certain_start_offset(self) -> int:
        """What a checkpoint may say of the start: no crash leaves the log with an end below it.

        So a start beyond the end is damage, and no reason to let the log go.
        """
        return min(self.log_start_offset, max(self.recovery_point, self._bases[0]))

    def delete_records_before(self, offset: int) -> int | ErrorCode:
        """Records below `offset` are not to be seen any more; -1 means up to the high watermark.  The new log start offset.

        Errors: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.raise_log_start_offset(offset)
        return self.log_start_offset

    def raise_log_start_offset(self, offset: int) -> bool:
        """To `offset` if that is more; files go with the next `delete_old_segments`."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.update_high_watermark(offset)
        return True

    def apply_retention(self, now_ms: int, *, trusted_now_ms: int | None = None) -> bool:
        """Raise the log's start by what retention by size and by age lets go; `trusted_now_ms` is what age goes by.  Whether it moved."""
        config = self.config
        if not config.is_deleted:
            return False
        oldest_ms = now_ms if trusted_now_ms is None else trusted_now_ms
        if self.is_tiered and not config.remote_log_copy_disable:
            # The log's start is moved by what expires in remote storage; here only the local copies of what is there go, and only after a
            # flush: the epochs, by which the rest is found, are on the disk with it.
            wanted = self._passed(now_ms, config.effective_local_retention_bytes, config.effective_local_retention_ms, oldest_ms)
            number = bisect_right(self._bases, min(wanted, self.copied_offset, self.recovery_point)) - 1
            self._local_start_wanted = self._bases[max(number, 0)]
            return False
        passed = self._passed(now_ms, config.retention_bytes, config.retention_ms, oldest_ms)
        return passed > self._bases[0] and self.raise_log_start_offset(passed)

    def _passed(self, now_ms: int, retention_bytes: int, retention_ms: int, oldest_ms: int) -> int:
        """The offset up to which retention by size and by age lets segments go."""
        start = self._bases[0]
        if retention_bytes >= 0:
            excess = self.size - retention_bytes

            def is_excess(segment: Segment) -> bool:
                nonlocal excess
                excess -= segment.size
                return excess >= 0

            start = max(start, self._pass_over(now_ms, is_excess))
        if retention_ms >= 0:
            oldest = oldest_ms - retention_ms
            start = max(start, self._pass_over(now_ms, lambda segment: segment.age_timestamp < oldest))
        return start

    def _pass_over(self, now_ms: int, is_old: Callable[[Segment], bool]) -> int:
        """From the oldest segment on, as long as `is_old` and everything in it lies below the high watermark.  The end of the last one."""
        start = self._bases[0]
        for number, segment in enumerate(self.segments):
            is_active = segment is self._active
            end = self.log_end_offset if is_active else self._bases[number + 1]
            if end > self.high_watermark or (is_active and segment.size == 0) or not is_old(segment):
                break
            start = end
        if start > self._active.base_offset:
            if not self.files.has_spare_descriptors(for_new_log=False):
                return self._active.base_offset
            self.roll(now_ms)
        return start

    def drop_below_start(self, now_ms: int, *, is_start_noted: bool = True) -> int:
        """Segments that lie wholly below the log's start go.  Note that start on the disk first: a crash may bring some of them back.

        Where a full disk has no room for the note, they go one after the other.  What was not flushed yet waits for it.
        So do those go that the local retention of a tiered log lets go.  How many went.  Errors: OSError.
        """
        start = self.certain_start_offset
        if is_start_noted:  # else a crash may bring back what its epochs do not tell of any more
            try:
                self.epochs.truncate_from_start(start)
            except OSError as error:
                if not is_shortage(error):  # of what is gone they may tell, and this is what makes room
                    raise
        count = bisect_right(self._bases, max(start, self._local_start_wanted)) - 1
        if count <= 0:
            return 0
        if self.is_tiered:
            self._note_producers_before(self._bases[count], self.segments[:count])
        if is_start_noted and not self.is_tiered:
            self._drop(self.segments[:count], now_ms)
        else:
            # One after the other on the disk too.  The start that is noted does not say how far this has come, and after a crash that had
            # undone some of it in the middle, records would seem to be missing.
            for segment in self.segments[:count]:
                self._drop([segment], now_ms)
                self.files.sync_dir(self.directory)
        return count

    def _note_producers_before(self, offset: int, segments: list[Segment]) -> None:
        """Durably, what is known of them by `segments`, which are about to leave while their records stay to be read in remote storage.

        Without it a crash would leave nothing that tells of them: what was sent again would be stored twice, and a replica that is behind
        would show transactions that are open, and then what was aborted.  Errors: OSError, also where batches cannot be read.
        """
        content = producers_at(self.files, self.directory, segments, start_offset=self.log_start_offset, offset=offset)
        path = f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        if self.files.exists(path) and self.files.read(path) == content:  # a full disk has room for what is there
            sync_path(self.files, path)
            self.files.sync_dir(self.directory)
        else:
            self.files.write_atomically(path, content)

    def delete_old_segments(self, now_ms: int, *, trusted_now_ms: int | None = None) -> int:
        """Both steps, for a log that no manager keeps.  How many segments went."""
        self.apply_retention(now_ms, trusted_now_ms=trusted_now_ms)
        return self.drop_below_start(now_ms)

    def replace_segments(self, replaced: tuple[int, ...], swap: Segment, now_ms: int) -> None:
        """Take a compacted segment, which stands beside the log as `.swap`, in place of those with these base offsets.  Errors: OSError."""
        going = [segment for segment in self.segments if segment.base_offset in replaced]
        number = self.segments.index(going[0])
        self._set_aside(going, now_ms)
        self.files.sync_dir(self.directory)
        swap.rename_suffix("")
        self.files.sync_dir(self.directory)
        swap.adopt_indexes()
        rest = [segment for segment in self.segments if segment.base_offset not in replaced]
        self.segments = [*rest[:number], swap, *rest[number:]]
        self._bases = [segment.base_offset for segment in self.segments]
        self._unsynced = [segment for segment in self._unsynced if segment.base_offset not in replaced]
        for segment in going[1:]:
            self._delete_snapshot(segment.base_offset)

    def batch_boundary(self, offset: int) -> int:
        """Where the batch that holds `offset` begins; `offset` itself where none does.  Errors: CorruptBatch, OSError."""
        if self._bases[0] <= offset < self.log_end_offset:
            segment = self.segments[bisect_right(self._bases, offset) - 1]
            position = segment.position_of(offset)
            if position is not None:
                return min(offset, segment.header_at(position).base_offset)
        return offset

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """The log ends at `offset` at the latest, and with a whole batch.  Lower the recovery-point checkpoint first: see `manager`."""
        offset = self.batch_boundary(offset)
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(max(offset, self.log_end_offset))
            return False
        if offset < self.segments[0].base_offset:
            # Of what is in remote storage before it nothing here tells, without the records that follow: it begins as a new one.
            self.truncate_fully_and_start_at(min(offset, self.log_start_offset) if self.is_tiered else offset, now_ms)
            return True
        self.truncations += 1
        number = bisect_right(self._bases, offset) - 1
        self._drop(self.segments[number + 1 :], now_ms)
        self._active = self.segments[-1]
        self._active.unseal()
        self._active.truncate_to(offset)
        self._active.index_interval_bytes = self.config.index_interval_bytes
        self._unsynced = [segment for segment in self._unsynced if segment is not self._active]
        self._end_at(offset)
        self.epochs.truncate_from_end(offset)
        self._delete_snapshots_above(offset)
        self._reload_producers()
        return True

    def lower_recovery_point(self, offset: int) -> None:
        """Before a truncation: what is above is about to go."""
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0, log_start_offset: int | None = None) -> None:
        """Nothing is left; the next record gets `offset`."""
        self.truncations += 1
        self._drop(list(self.segments), now_ms)
        self._start_segment(offset, now_ms)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._end_at(offset)
        self.epochs.clear()
        self._delete_snapshots_above(-1)
        self.producers.clear(offset)

    def begin_after(self, past: Past, now_ms: int, *, log_start_offset: int) -> None:
        """Nothing of it is left; it goes on after what is in remote storage.  `manager` sees to it that a crash leaves no half of it."""
        assert log_start_offset <= past.end_offset, (log_start_offset, past.end_offset)
        self.truncate_fully_and_start_at(past.end_offset, now_ms, log_start_offset)
        self.update_high_watermark(past.end_offset)
        self.epochs.replace(past.epochs)
        self.producers.restore(past.snapshot, past.end_offset)
        self._write_snapshot(past.end_offset)

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.copied_offset = min(self.copied_offset, offset)
        self._local_start_wanted = min(self._local_start_wanted, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.update_high_watermark(self.high_watermark)

    def _reload_producers(self) -> None:
        load_producers(
            self.files, self.directory, self.producers, self.segments, start_offset=self.log_start_offset, end_offset=self.log_end_offset
        )
        self.producers.high_watermark_moved(self.high_watermark)

    def _delete_snapshots_above(self, offset: int) -> None:
        """They tell of batches that are no more, and must not come back when the log has grown past them again: synced at once."""
        for taken_at in snapshot_offsets(self.files, self.directory):
            if taken_at > offset:
                self._delete_snapshot(taken_at)
        self.files.sync_dir(self.directory)
