"""◇ A log moves to another folder of the same broker while it is read and appended to.

    move = LogMove(files, log, "/b", unique)           for /a/orders-0
    move.begin()                                       /b/orders-0.<32 hex digits>-future
    while (step := move.next_step()) is not None:      on the loop: the next bytes to copy
        step.run()                                     blocks, touches nothing of the log
        move.done(step)
    manager.finish_move(move, now_ms)                  nearly caught up: copies the rest here and now, then swaps

Segments are copied as they are, byte for byte: offsets, producers, epochs and indexes are those of the log itself, which goes on all the
time.  A segment that compaction has replaced is copied anew, one that retention dropped is removed from the copy, and after a truncation
the copy begins again.

The swap survives a crash at every step, because two names tell how far it had come:

    /a/orders-0                     /b/orders-0.6f…-future     the log is the one in /a, the copy is thrown away and made again
    /a/orders-0.6f…-delete          /b/orders-0.6f…-future     the copy is whole: the next start takes the last step
    /a/orders-0.6f…-delete          /b/orders-0                done

Source: ReplicaAlterLogDirsThread, Partition.maybeReplaceCurrentWithFutureReplica; KIP-113.
Called by `manager` and `server/node/log_mover.py`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from moldau.storage.epochs import FILE_NAME as LEADER_EPOCHS
from moldau.storage.files import File, Files
from moldau.storage.flush.durability import sync_path
from moldau.storage.folders.checkpoints import PARTITION_METADATA
from moldau.storage.folders.names import FUTURE_SUFFIX, set_aside_name
from moldau.storage.log import Log
from moldau.storage.producers.state import SNAPSHOT_SUFFIX
from moldau.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_name

COPY_CHUNK: Final = 4 << 20
REST_BYTES: Final = 256 << 10
"""The most bytes that may be left for the swap itself, which stops the loop."""
SIDE_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
BESIDE_SEGMENTS: Final = (LEADER_EPOCHS, PARTITION_METADATA)


class TargetFailed(OSError):
    """The folder that the log moves to: its disk fails, not the log's."""


class CopyStep(NamedTuple):
    """The bytes `start` to `end` of one segment; `with_side_files` when that is the end of it."""

    move: "LogMove"
    segment: Segment
    source: File
    target: str
    start: int
    end: int
    end_offset: int
    """The end of the copy once this step is done (exclusive)."""
    with_side_files: bool
    with_sync: bool

    def run(self) -> None:
        """Copy.  Errors: OSError of the log's own disk, TargetFailed."""
        move = self.move
        target = move.opened(self.target, anew=self.start == 0)
        position = self.start
        while position < self.end:
            data = self.source.pread(min(COPY_CHUNK, self.end - position), position)
            if not data:
                break  # the log was truncated meanwhile: the copy begins again
            move.writing(lambda at=position, data=data: target.pwrite([data], at))  # type: ignore[misc]
            position += len(data)
        if self.with_side_files:
            move.copy_side_files(self.segment.base_offset)
        if self.with_sync:
            move.writing(target.sync)
        target.close()


class _Copied:
    """The copied part of one segment."""

    __slots__ = ("segment", "size", "synced_size")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.size = 0
        self.synced_size = -1


class LogMove:
    """See the module."""

    def __init__(self, files: Files, log: Log, parent: str, unique: UUID) -> None:
        self.log: Final = log
        self.source: Final = log.directory
        self.parent: Final = parent
        """The folder that the log moves to."""
        self.future: Final = f"{parent}/{set_aside_name(log.topic_partition, unique, FUTURE_SUFFIX)}"
        self.unique: Final = unique
        self.is_cancelled = False
        self.end_offset = log.segments[0].base_offset
        """The end of the copy (exclusive)."""
        self._files: Final = files
        self._copied: dict[int, _Copied] = {}
        self._truncations = log.truncations

    @property
    def size(self) -> int:
        """Bytes of records in the copy."""
        return sum(copied.size for copied in self._copied.values())

    @property
    def offset_lag(self) -> int:
        return max(0, self.log.log_end_offset - self.end_offset)

    def begin(self) -> None:
        """Begin.  Errors: TargetFailed."""
        self.writing(lambda: self._files.mkdir(self.future))
        self.writing(lambda: self._files.sync_dir(self.parent))

    def next_step(self) -> CopyStep | None:
        """The next step; None when little enough is left for the swap."""
        log = self.log
        if log.truncations != self._truncations:
            self._truncations = log.truncations
            self._copied.clear()
        for number, segment in enumerate(log.segments):
            copied = self._copied.get(segment.base_offset)
            if copied is None or copied.segment is not segment:
                copied = self._copied[segment.base_offset] = _Copied(segment)
            is_last = number + 1 == len(log.segments)
            end = min(segment.size, copied.size + COPY_CHUNK)
            if is_last and copied.synced_size >= 0 and segment.size - copied.synced_size <= REST_BYTES:
                return None
            is_whole = end == segment.size
            if copied.size < segment.size or copied.synced_size < segment.size:
                end_offset = self.end_offset if not is_whole else log.log_end_offset if is_last else log.segments[number + 1].base_offset
                return CopyStep(
                    self,
                    segment,
                    segment.file,
                    f"{self.future}/{file_name(segment.base_offset, LOG_SUFFIX)}",
                    copied.size,
                    end,
                    end_offset,
                    with_side_files=is_whole and not is_last,
                    with_sync=is_whole,
                )
        raise AssertionError("a log has an active segment")

    def done(self, step: CopyStep) -> None:
        copied = self._copied.get(step.segment.base_offset)
        if copied is None or copied.segment is not step.segment or self.log.truncations != self._truncations:
            return
        copied.size = step.end
        if step.with_sync:
            copied.synced_size = step.end
        self.end_offset = max(self.end_offset, step.end_offset)

    def complete(self) -> None:
        """Copy the rest while the log does not change: afterwards the copy is the log, on stable storage.

        Errors: OSError of the log's own disk, TargetFailed.
        """
        log = self.log
        assert log.truncations == self._truncations, "ask for the next step first"
        for segment in log.segments:
            copied = self._copied[segment.base_offset]
            assert copied.segment is segment, segment
            if copied.synced_size < segment.size:
                self.done(self._rest_of(segment, copied.size))
            if segment is log.active_segment:
                self.copy_side_files(segment.base_offset)
        log.epochs.save()
        for name in BESIDE_SEGMENTS:
            self._copy(name)
        self._remove_the_gone()
        self.writing(lambda: self._files.sync_dir(self.future))

    def _rest_of(self, segment: Segment, start: int) -> CopyStep:
        step = CopyStep(
            self,
            segment,
            segment.file,
            f"{self.future}/{file_name(segment.base_offset, LOG_SUFFIX)}",
            start,
            segment.size,
            self.log.log_end_offset,
            with_side_files=False,
            with_sync=True,
        )
        step.run()
        return step

    def _remove_the_gone(self) -> None:
        """Remove segments from the copy that are in the log no more."""
        bases = {segment.base_offset for segment in self.log.segments}
        wanted = {file_name(base_offset, suffix) for base_offset in bases for suffix in (LOG_SUFFIX, *SIDE_SUFFIXES)}
        for name in self._files.listdir(self.future):
            is_stale = name.endswith(SIDE_SUFFIXES) and not self._files.exists(f"{self.source}/{name}")
            if name not in BESIDE_SEGMENTS and (name not in wanted or is_stale):
                self.writing(lambda name=name: self._files.unlink(f"{self.future}/{name}"))  # type: ignore[misc]

    def copy_side_files(self, base_offset: int) -> None:
        """Copy the side files of a segment.  Errors: OSError, TargetFailed."""
        for suffix in SIDE_SUFFIXES:
            self._copy(file_name(base_offset, suffix))

    def _copy(self, name: str) -> None:
        try:
            content = self._files.read(f"{self.source}/{name}")
        except FileNotFoundError:
            return
        path = f"{self.future}/{name}"

        def write() -> None:
            file = self._files.open(path, create=True)
            file.truncate(0)
            file.pwrite([content], 0)
            file.close()
            sync_path(self._files, path)

        self.writing(write)

    def opened(self, path: str, *, anew: bool) -> File:
        """A file of the copy.  Errors: TargetFailed."""
        found: list[File] = []

        def open_it() -> None:
            found.append(self._files.open(path, create=True))
            if anew:
                found[0].truncate(0)

        self.writing(open_it)
        return found[0]

    @staticmethod
    def writing(action: Callable[[], object]) -> None:
        """Do an action on the target.  Errors: TargetFailed, so that the log's own folder is not taken for the failed one."""
        try:
            action()
        except OSError as error:
            raise TargetFailed(error.errno, error.strerror, error.filename) from error
