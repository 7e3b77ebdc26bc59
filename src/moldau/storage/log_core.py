"""◇ What a log is made of: segments one after the other, offsets that say who may see how far, and what becomes of it when its disk fails.

One log is written in four files, and none of them is of use without the others: see `log`.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.storage.checkpoints import PARTITION_METADATA
from moldau.storage.config import LogConfig
from moldau.storage.files import Files, is_shortage
from moldau.storage.index import OFFSET_ENTRY, TIME_ENTRY
from moldau.storage.producer_state import SNAPSHOT_SUFFIX
from moldau.storage.recovery import LogState
from moldau.storage.segment import DELETED_SUFFIX, Segment, delete_files_of, file_name
from moldau.storage.validator import AppendFailure, Rules
from moldau.types import INTERNAL_TOPICS, METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC, TopicPartition

NEVER_TIERED: Final = INTERNAL_TOPICS | {METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC}


class LogCore:
    """See the module."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        state: LogState,
        *,
        topic_id: UUID | None = None,
    ) -> None:
        self.files = files
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments = state.segments
        self.producers = state.producers
        self.epochs = state.epochs
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = state.log_start_offset
        self.recovery_point = state.recovery_point
        self.last_flush_ms = 0
        self.failure: OSError | None = None
        """Set once its disk has failed: nothing is appended, read or acknowledged any more."""
        self.on_failure: Callable[[LogCore, OSError], None] | None = None
        self.verifies_transactions = True
        self._active = state.segments[-1]
        self._bases = [segment.base_offset for segment in state.segments]
        self._unsynced = state.unsynced
        # A log is made without waiting for the disk; its first flush covers what the one who made it, or this process before, left undone.
        self._unsynced_paths: list[str] = [] if state.is_as_closed else [f"{directory}/{PARTITION_METADATA}"]
        self._names_changed = not state.is_as_closed
        self._is_named = state.is_as_closed
        self._closed_at = (state.log_end_offset, 0) if state.is_as_closed else None
        """Where it ended when all of it was saved and synced last, after how many truncations; None while that cannot be said."""
        self.truncations = 0
        """How often its past was changed: whoever works beside the loop compares before and after."""
        self.moves = 0
        """How often all its files went to another disk: what fails on the one before is not its failure."""
        self._waiting_deletion: list[tuple[int, Segment]] = []
        self.copied_offset = 0
        """Exclusive: everything below it can be read from remote storage, so its local copy may go."""
        self._local_start_wanted = 0
        self.configure(config)

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    def configure(self, config: LogConfig) -> None:
        """The options from now on."""
        self.config = config
        self._rules = Rules.of(config)
        self._max_offset_entries = config.segment_index_bytes // OFFSET_ENTRY.size
        self._max_time_entries = config.segment_index_bytes // TIME_ENTRY.size - 1  # the last one is for the roll
        self._active.index_interval_bytes = config.index_interval_bytes
        self._roll_after_ms = self._jittered(config)
        if not self.is_tiered:
            self.log_start_offset = max(self.log_start_offset, self._bases[0])  # what was in remote storage only is gone

    # ---------------------------------------------------------------- offsets

    @property
    def active_segment(self) -> Segment:
        return self._active

    @property
    def is_tiered(self) -> bool:
        """Whether older segments are in remote storage."""
        return self.config.remote_storage_enable and self.topic_partition.topic not in NEVER_TIERED

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that can be read here."""
        return max(self.log_start_offset, self._bases[0])

    @property
    def size(self) -> int:
        """Bytes of records that are here, without indexes."""
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """Exclusive: below it no transaction is undecided."""
        first = self.producers.first_unstable_offset
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start_offset)

    def update_high_watermark(self, offset: int) -> int:
        """The new one, which never leaves what the log holds."""
        moved = min(max(offset, self.log_start_offset), self.log_end_offset)
        if moved != self.high_watermark:
            self.high_watermark = moved
            if self.producers.unreplicated:
                self.producers.high_watermark_moved(moved)
        return moved

    # ---------------------------------------------------------------- segments

    def _must_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        active = self._active
        if not active.has_room_for(last_offset, size):
            return True
        is_due = active.size > 0 and (
            active.size > self._rules.segment_bytes - size
            or active.waited_ms(now_ms, max_timestamp) > self._roll_after_ms
            or active.offset_index.count >= self._max_offset_entries
            or active.time_index.count >= self._max_time_entries
        )
        # A segment that outgrows its size does no harm, a log that cannot go on does.
        return is_due and self.files.has_spare_descriptors(for_new_log=False)

    def roll(self, now_ms: int, next_offset: int | None = None) -> Segment:
        """A new active segment at the log's end (or at `next_offset`, beyond it, for a follower with a gap to fill).  Errors: OSError."""
        base_offset = max(self.log_end_offset, next_offset or 0)
        if self._active.size == 0 and self._active.base_offset == base_offset:
            return self._active
        before = self._active
        if before.size == 0:
            self._drop([before], now_ms)
            self._start_segment(base_offset, now_ms)
            return self._active
        # Each step may fail and be taken again; nothing of the log changes before the last one has succeeded.
        before.save_indexes()
        self._write_snapshot(base_offset)
        if not self._is_named:  # else a crash might leave the second segment without the first: where the log begins would be lost
            self.files.sync_dir(self.directory)
        self._start_segment(base_offset, now_ms)
        before.seal()
        self._unsynced.append(before)
        return self._active

    def _start_segment(self, base_offset: int, now_ms: int) -> None:
        interval = self.config.index_interval_bytes
        self._active = Segment.create(self.files, self.directory, base_offset, index_interval_bytes=interval, now_ms=now_ms)
        self.segments.append(self._active)
        self._bases.append(base_offset)
        self._names_changed = True
        self._roll_after_ms = self._jittered(self.config)

    def _jittered(self, config: LogConfig) -> int:
        """segment.ms less this segment's share of the jitter: a number that is the same whenever it is asked for."""
        limit = min(config.segment_jitter_ms, config.segment_ms)
        if limit <= 0:
            return config.segment_ms
        mixed = (hash_of(str(self.topic_partition)) * 31 + self._active.base_offset * 2654435761) & 0x7FFFFFFF
        return config.segment_ms - mixed % limit

    def _write_snapshot(self, offset: int) -> None:
        """Of the producers' state at the log's end.  Not synced here: a torn one fails its CRC, and the flush that counts syncs it."""
        path = f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        file = self.files.open(path, create=True)
        content = self.producers.snapshot()
        file.truncate(0)
        file.pwrite([content], 0)
        file.close()
        self._unsynced_paths.append(path)
        self._names_changed = True

    def _drop(self, segments: list[Segment], now_ms: int) -> None:
        """Out of the log at once, off the disk after file.delete.delay.ms: readers may still be at it."""
        going = set(map(id, segments))
        self.segments = [segment for segment in self.segments if id(segment) not in going]
        self._bases = [segment.base_offset for segment in self.segments]
        self._unsynced = [segment for segment in self._unsynced if id(segment) not in going]
        self._set_aside(segments, now_ms)
        for segment in segments:
            self._delete_snapshot(segment.base_offset)

    def _set_aside(self, segments: list[Segment], now_ms: int) -> None:
        for segment in segments:
            segment.rename_suffix(DELETED_SUFFIX)
            segment.close()
            self._waiting_deletion.append((now_ms + self.config.file_delete_delay_ms, segment))
        self._names_changed = True

    def _delete_snapshot(self, offset: int) -> None:
        path = f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        if self.files.exists(path):
            self.files.unlink(path)

    def due_segments(self, now_ms: int) -> list[Segment]:
        """Those that have waited long enough, for `delete_files_of`, which may run in a thread: the log knows them no more."""
        due = [segment for at, segment in self._waiting_deletion if at <= now_ms]
        if due:
            self._waiting_deletion = [(at, segment) for at, segment in self._waiting_deletion if at > now_ms]
        return due

    def delete_due_files(self, now_ms: int) -> int:
        """Here and now.  How many segments' files went."""
        due = self.due_segments(now_ms)
        count = len(due)
        delete_files_of(due)
        return count

    # ---------------------------------------------------------------- failing

    def fail(self, error: OSError) -> None:
        """Its disk cannot be trusted any more: the log goes offline, for good."""
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure(self, error)

    def _write_failed(self, error: OSError) -> AppendFailure:
        """Take the torn bytes away again; a disk that is only full has lost nothing and may have room later."""
        try:
            self._active.file.truncate(self._active.size)
        except OSError as second:
            self.fail(second)
        else:
            if not is_shortage(error):
                self.fail(error)
        return AppendFailure(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {error}")

    def _storage_failure(self) -> AppendFailure:
        return AppendFailure(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline: {self.failure}")

    def _list_too_large(self, size: int) -> AppendFailure:
        return AppendFailure(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes in one append exceed the segment size of {self._rules.segment_bytes} bytes"
        )


def hash_of(text: str) -> int:
    """The same in every process, unlike `hash`."""
    value = 0
    for byte in text.encode():
        value = (value * 31 + byte) & 0x7FFFFFFF
    return value
