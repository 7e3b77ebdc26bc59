"""◇ Makes a usable log from a directory as a crash may have left it.  The cases:

- Made anew from elsewhere, and not to the end: nothing of it is taken for a log (see `unfinished`).
- `.deleted`, `.cleaned`: is removed; `.swap`: compaction had decided, so the swap is finished (see `cleaner`).
- Closed cleanly: indexes and the producer snapshot are taken as they are, after the checks Kafka makes.
- Otherwise every segment from the one that holds the recovery point on is read batch by batch (length, CRC, offsets, leader epoch) and its
  indexes are made anew; the log ends with the last whole batch before the first that is not.  Everything below the recovery point was on
  stable storage: if it has changed, the log is refused (`LogDamaged`) and left as it is, so that a replica or a backup can help. -
  Producers: the latest usable snapshot, then the batches after it, in the same reading.

A second recovery finds nothing to do.

Source: LogLoader.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from moldau.protocol.records.batch import BatchHeader, CorruptBatch
from moldau.storage.config import LogConfig
from moldau.storage.epochs import LeaderEpochs
from moldau.storage.files import Files
from moldau.storage.folders.unfinished import discard, is_unfinished
from moldau.storage.index import CorruptIndex
from moldau.storage.producers.replay import headers_from, replay_producer
from moldau.storage.producers.state import SNAPSHOT_SUFFIX, CorruptSnapshot, ProducerStates, load_snapshot
from moldau.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, Segment, file_name
from moldau.storage.verification import BadBatch, OtherEpoch, verified

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"
BASE_DIGITS: Final = 20
OTHER_EPOCH: Final = (
    "{path} and leader-epoch-checkpoint contradict each other {bad}.  One of them is damaged, and nothing was changed.  Bring it back from "
    "a backup; or take leader-epoch-checkpoint away to believe the log"
)
START_BEYOND_END: Final = (
    "log-start-offset-checkpoint says that {name} starts at offset {start}, but {directory} ends at {end}: nothing was changed.  Correct "
    "its line, or take it out: then the log starts with its first segment"
)


class LogState(NamedTuple):
    """The result of a recovery."""

    segments: list[Segment]
    producers: ProducerStates
    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    unsynced: list[Segment]
    """Older segments that the next flush must cover."""
    is_as_closed: bool = False
    """Whether everything on the disk is as a clean stop left it."""


class RecoveryProgress:
    """The progress of a log's recovery.  The recovering thread counts, others read."""

    __slots__ = ("bytes_read", "bytes_to_read")

    def __init__(self) -> None:
        self.bytes_to_read = 0
        """The bytes to read, estimated from the sizes of the files."""
        self.bytes_read = 0


class LogDamaged(Exception):
    """Bytes that were on stable storage have changed.  The text names the file, the place, and the way out."""


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file's name; None for a name of another form."""
    digits = name.removesuffix(suffix)
    return int(digits) if name.endswith(suffix) and len(digits) == BASE_DIGITS and digits.isdigit() else None


def load_log(
    files: Files,
    directory: str,
    config: LogConfig,
    *,
    name: str,
    now_ms: int,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
    progress: RecoveryProgress | None = None,
    is_never_truncated: Callable[[], bool] = lambda: False,
) -> LogState:
    """Load a log, and recover it if need be.  `is_never_truncated`: see `Log.open`.  Errors: LogDamaged, CorruptCheckpoint, OSError."""
    if not files.is_dir(directory):
        files.mkdir(directory)
    if is_unfinished(files, directory):
        discard(files, directory)
        recovery_point = 0
    remove_leftovers(files, directory)
    epochs = LeaderEpochs(files, directory)
    producers = ProducerStates(name)
    segments = [
        Segment.open(files, directory, base_offset, index_interval_bytes=config.index_interval_bytes, now_ms=now_ms)
        for base_offset in _base_offsets(files, directory)
    ]
    dropped = []  # the records were deleted before; a crash brought them back
    while len(segments) > 1 and segments[1].base_offset <= log_start_offset:
        dropped.append(segments.pop(0))
    if not segments:
        if recovery_point > log_start_offset:
            what = f"{directory} holds no segment, but everything below offset {recovery_point} was on stable storage"
            raise LogDamaged(way_out(what))
        return _new_log(files, directory, config, (epochs, producers), start_offset=log_start_offset, now_ms=now_ms)
    if not config.remote_storage_enable:  # otherwise earlier records are in remote storage
        log_start_offset = max(log_start_offset, segments[0].base_offset)
    replay = ProducerReplay(files, directory, producers, log_start_offset)
    recovery = _Recovery(
        segments,
        epochs,
        replay,
        recovery_point,
        gaps_allowed=config.is_compacted,
        is_never_truncated=is_never_truncated,
        progress=progress or RecoveryProgress(),
    )
    try:
        log_end_offset = recovery.run(clean=clean)
        segments = recovery.segments
        if log_start_offset <= log_end_offset:
            replay.read_on(segments, log_end_offset)
    except CorruptBatch as error:
        raise LogDamaged(way_out(f"the batches of {name} cannot be read: {error}")) from None
    if log_start_offset > log_end_offset:
        raise LogDamaged(START_BEYOND_END.format(name=name, start=log_start_offset, end=log_end_offset, directory=directory))
    for segment in dropped:
        segment.delete_files()
    epochs.loaded(log_end_offset)
    for segment in segments:
        segment.txn_index.release()
    replay.finish()
    _remove_stray_snapshots(files, directory, segments, log_end_offset)
    for segment in segments[:-1]:
        segment.seal()
    if not clean:  # bytes that were cut off, now or by the process before, must not come back behind new appends
        segments[-1].file.sync()
        files.sync_dir(directory)
    recovery_point = min(recovery_point, log_end_offset)
    unsynced = _settle_rebuilt(files, directory, recovery, recovery_point)
    is_as_closed = clean and recovery_point == log_end_offset and not recovery.rebuilt and not dropped
    return LogState(segments, producers, epochs, log_start_offset, log_end_offset, recovery_point, unsynced, is_as_closed)


def _settle_rebuilt(files: Files, directory: str, recovery: "_Recovery", recovery_point: int) -> list[Segment]:
    """The older segments whose rebuilt files are not synced yet.  A segment below the recovery point would not be read again after the next
    crash, so its rebuilt files are synced here.
    """
    ends = {before.base_offset: after.base_offset for before, after in pairwise(recovery.segments)}
    unsynced = []
    for segment in recovery.rebuilt:
        end = ends.get(segment.base_offset)
        if end is None:
            continue
        if end <= recovery_point:
            segment.sync_indexes()
            files.sync_dir(directory)
        unsynced.append(segment)
    return unsynced


def _new_log(
    files: Files, directory: str, config: LogConfig, state: tuple[LeaderEpochs, ProducerStates], *, start_offset: int, now_ms: int
) -> LogState:
    segment = Segment.create(files, directory, start_offset, index_interval_bytes=config.index_interval_bytes, now_ms=now_ms)
    epochs, producers = state
    epochs.loaded(-1)
    _remove_stray_snapshots(files, directory, [segment], -1)
    producers.clear(start_offset)
    return LogState([segment], producers, epochs, start_offset, start_offset, start_offset, [])


class _Recovery:
    """The state of one log's recovery.  Nothing on the disk changes before all checks are done."""

    def __init__(
        self,
        segments: list[Segment],
        epochs: LeaderEpochs,
        replay: "ProducerReplay",
        recovery_point: int,
        *,
        gaps_allowed: bool,
        is_never_truncated: Callable[[], bool],
        progress: RecoveryProgress,
    ) -> None:
        self.segments = segments
        self.rebuilt: list[Segment] = []
        """Segments whose indexes are made anew."""
        self._epochs = epochs
        self._replay = replay
        self._recovery_point = recovery_point
        self._gaps_allowed = gaps_allowed
        self._is_never_truncated = is_never_truncated
        self._progress = progress
        self._found_epochs: list[tuple[int, int]] = []
        self._adopted_end: int | None = None

    def run(self, *, clean: bool) -> int:
        """Recover the log.  Returns its end offset.  Errors: LogDamaged."""
        last = len(self.segments) - 1
        # If the recovery point is a segment's base, the segment before it may have been cut there without a sync: it is read, too.
        first = last + 1 if clean else first_to_read([segment.base_offset for segment in self.segments], self._recovery_point)
        if not self._epochs.entries and any(segment.size for segment in self.segments):
            first = 0  # the file is gone or empty: the batches give the epochs
        if clean:  # all of it was on stable storage, whatever the checkpoint says
            self._recovery_point = max(self._recovery_point, self.segments[last].base_offset)
        end: int | None = None  # the end of the segment before, if it was read
        for segment in self.segments:
            segment.txn_index.hold()
        for number, segment in enumerate(self.segments):
            if number < first and self._adopted(segment, is_last=number == last):
                end = self._adopted_end if number == last else None
                continue
            end, bad = self._verify(number, end)
            if bad is not None:
                self._cut(number, bad)
                break
        assert end is not None
        if end < self._recovery_point:
            path = self.segments[-1].path(LOG_SUFFIX)
            raise LogDamaged(way_out(f"{path} ends at offset {end}, but everything below {self._recovery_point} was on stable storage"))
        for epoch, start_offset in self._found_epochs:
            if epoch > self._epochs.latest_epoch:
                self._epochs.assign(epoch, start_offset)
        return end

    def _adopted(self, segment: Segment, *, is_last: bool) -> bool:
        """Whether a segment's indexes can be taken as they are."""
        try:
            if is_last:
                segment.load_indexes()
                self._adopted_end = segment.next_offset()
            else:
                segment.adopt_indexes()
        except (CorruptIndex, CorruptBatch, OSError):
            return False
        return True

    def _verify(self, number: int, end_before: int | None) -> tuple[int, BadBatch | None]:
        """Read one segment, make its indexes and go on with the producers.  Returns its end, and the first bad batch.

        Errors: LogDamaged.
        """
        segment, replay = self.segments[number], self._replay
        self.rebuilt.append(segment)
        replay.read_on(self.segments[:number], segment.base_offset)
        segment.txn_index.forget()
        next_offset = segment.base_offset if end_before is None else end_before
        progress, read_before = self._progress, self._progress.bytes_read
        segment.forget_indexes()
        epoch, epoch_end = -2, -1  # already checked: offsets below `epoch_end` belong to `epoch`
        try:
            if segment.base_offset < next_offset or (segment.base_offset > next_offset and not self._gaps_allowed):
                raise BadBatch(0, next_offset, f"the segment begins at {segment.base_offset}")
            next_offset = segment.base_offset
            for position, header in verified(segment, next_offset):
                if header.base_offset != next_offset or header.partition_leader_epoch != epoch or next_offset >= epoch_end:
                    self._check_place(position, header, next_offset)
                    epoch, epoch_end = header.partition_leader_epoch, self._epochs.end_of_epoch_at(header.base_offset)
                segment.note(position, header)
                if header.producer_id >= 0:
                    replay.note(segment, position, header)
                next_offset = header.next_offset
                progress.bytes_read = read_before + position
            progress.bytes_read = read_before + segment.size
            replay.end_offset = max(replay.end_offset, next_offset)
        except BadBatch as bad:
            was_flushed, path = bad.offset < self._recovery_point, segment.path(LOG_SUFFIX)
            if isinstance(bad, OtherEpoch) and (was_flushed or self._is_never_truncated()):
                raise LogDamaged(OTHER_EPOCH.format(path=path, bad=bad)) from None
            if was_flushed:
                what = f"{path} is damaged {bad}; everything below offset {self._recovery_point} was on stable storage"
                raise LogDamaged(way_out(what)) from None
            replay.end_offset = max(replay.end_offset, bad.offset)
            return bad.offset, bad
        return next_offset, None

    def _check_place(self, position: int, header: BatchHeader, next_offset: int) -> None:
        """Check the fields that the CRC does not cover: the base offset and the leader epoch.  Errors: BadBatch."""
        if header.base_offset != next_offset and not self._gaps_allowed:
            raise BadBatch(position, next_offset, f"offset {header.base_offset} does not follow")
        epoch = header.partition_leader_epoch
        known = self._epochs.epoch_for_offset(header.base_offset)
        newest = self._found_epochs[-1][0] if self._found_epochs else -1
        if (known >= 0 and epoch != known) or epoch < newest:
            raise OtherEpoch(position, next_offset, f"leader epoch {epoch} does not fit, {max(known, newest)} does")
        if epoch > newest:
            self._found_epochs.append((epoch, header.base_offset))

    def _cut(self, number: int, bad: BadBatch) -> None:
        """Cut the log before `bad`; the batches after it were never acknowledged."""
        self.segments[number].cut_at(bad.position)
        for segment in self.segments[number + 1 :]:
            segment.delete_files()
        del self.segments[number + 1 :]
        if bad.position == 0 and number > 0:
            self.segments.pop().delete_files()
            self.segments[-1].unseal()


def first_to_read(base_offsets: list[int], recovery_point: int) -> int:
    """The number of the segment that holds the last offset below the recovery point."""
    return max((number for number, base_offset in enumerate(base_offsets) if base_offset < recovery_point), default=0)


def bytes_to_recover(files: Files, directory: str, recovery_point: int) -> int:
    """The bytes that a recovery will have to read, by the sizes of the files.  Errors: OSError."""
    base_offsets = _base_offsets(files, directory)
    waiting = base_offsets[first_to_read(base_offsets, recovery_point) :]
    return sum(files.size(f"{directory}/{file_name(base_offset, LOG_SUFFIX)}") for base_offset in waiting)


def has_begun(files: Files, directory: str) -> bool:
    """Whether a log ever had a record, by the names and sizes of its files.  Errors: OSError."""
    return any(_base_offsets(files, directory)) or bytes_to_recover(files, directory, 0) > 0


def way_out(what: str) -> str:
    return (
        f"{what}.  The log was not opened and nothing in it was changed.  Move its directory away to have it copied from another "
        "replica, or restore it from a backup; or take its line out of recovery-point-offset-checkpoint to keep only the records "
        "before the damage"
    )


def _base_offsets(files: Files, directory: str) -> list[int]:
    found = (base_offset_of(name, LOG_SUFFIX) for name in files.listdir(directory))
    return sorted(base_offset for base_offset in found if base_offset is not None)


def remove_leftovers(files: Files, directory: str) -> None:
    """Remove files that were on their way in or out.  A swap whose log file stands is finished, an unfinished cleaning is undone."""
    names = files.listdir(directory)
    for name in names:
        if name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)):
            files.unlink(f"{directory}/{name}")
    finish_swaps(files, directory)
    logs = {name.removesuffix(LOG_SUFFIX) for name in files.listdir(directory) if name.endswith(LOG_SUFFIX)}
    for name in files.listdir(directory):
        stem, _, kind = name.partition(".")
        if kind in ("index", "timeindex", "txnindex") and stem not in logs:
            files.unlink(f"{directory}/{name}")


def finish_swaps(files: Files, directory: str) -> None:
    """Finish compactions that had reached `.swap`, and undo the others."""
    names = files.listdir(directory)
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            files.unlink(f"{directory}/{name}")
    swaps = [name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in swaps:
        finish_swap(files, directory, name)
    for name in files.listdir(directory):
        if name.endswith(SWAP_SUFFIX):
            files.unlink(f"{directory}/{name}")


def finish_swap(files: Files, directory: str, name: str) -> None:
    """Finish one swap.  `name` is the log file's.  First the replaced segments are removed: those whose base offset lies in its range."""
    base_offset = base_offset_of(name.removesuffix(SWAP_SUFFIX), LOG_SUFFIX)
    assert base_offset is not None, name
    swap = Segment.open(files, directory, base_offset, index_interval_bytes=1, now_ms=0, suffix=SWAP_SUFFIX)
    end = max(swap.next_offset(), base_offset + 1)
    for replaced in _base_offsets(files, directory):
        if base_offset <= replaced < end:
            Segment.open(files, directory, replaced, index_interval_bytes=1, now_ms=0).delete_files()
    files.sync_dir(directory)
    swap.rename_suffix("")
    files.sync_dir(directory)


def _remove_stray_snapshots(files: Files, directory: str, segments: list[Segment], log_end_offset: int) -> None:
    """Remove the snapshots at no segment's base, except the newest one that is not beyond the end."""
    offsets = snapshot_offsets(files, directory)
    bases = {segment.base_offset for segment in segments}
    usable = [offset for offset in offsets if offset <= log_end_offset]
    for offset in offsets:
        if offset > log_end_offset or (offset not in bases and offset != usable[-1]):
            files.unlink(f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    found = (base_offset_of(name, SNAPSHOT_SUFFIX) for name in files.listdir(directory))
    return sorted(offset for offset in found if offset is not None)


class ProducerReplay:
    """Brings the producers' state up to a reading of the log: the newest usable snapshot, then batch by batch."""

    def __init__(self, files: Files, directory: str, producers: ProducerStates, start_offset: int) -> None:
        self.producers = producers
        self.end_offset = -1
        """The offset (exclusive) up to which the producers are known.  Below 0 until the first snapshot was searched."""
        self._files = files
        self._directory = directory
        self._start_offset = start_offset
        self._corrupt: list[str] = []

    def read_on(self, segments: list[Segment], offset: int) -> None:
        """Read on up to `offset`, by the headers of the batches in `segments`.  Errors: CorruptBatch."""
        if self.end_offset < 0:
            self._begin(offset)
        if self.end_offset < offset:
            for segment, position, header in headers_from(segments, self.end_offset):
                if header.producer_id >= 0:
                    self.note(segment, position, header)
            self.end_offset = offset

    def note(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Note the next batch of a producer."""
        if header.last_offset >= self._start_offset:
            replay_producer(self.producers, header, segment, partial(segment.batch_at, position, header))

    def finish(self) -> None:
        """Remove snapshots that could not be read.  Nothing on the disk changes before this."""
        for path in self._corrupt:
            self._files.unlink(path)
        self.producers.end_offset = max(self.end_offset, self._start_offset)
        self.producers.note_first_unstable()

    def _begin(self, newest: int) -> None:
        """Begin with the newest usable snapshot that is not after `newest`."""
        self.producers.clear(self._start_offset)
        self.end_offset = self._start_offset
        for offset in reversed(snapshot_offsets(self._files, self._directory)):
            if not self._start_offset <= offset <= newest:
                continue
            path = f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
            try:
                load_snapshot(self._files, path, self.producers, offset)
            except CorruptSnapshot:
                self._corrupt.append(path)
                continue
            self.end_offset = offset
            return


def producers_at(files: Files, directory: str, segments: list[Segment], *, start_offset: int, offset: int) -> bytes:
    """The snapshot at the end of `segments`, with which a replica begins.  A recovered log does not have one at each segment.

    Errors: OSError, also where batches cannot be read.
    """
    producers = ProducerStates(directory)
    with suppress(FileNotFoundError, CorruptSnapshot):
        content = files.read(f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
        producers.restore(content, offset)
        return content
    try:
        ProducerReplay(files, directory, producers, start_offset).read_on(segments, offset)
    except CorruptBatch as error:
        raise OSError(f"the producers of {directory} at offset {offset} are not known: {error}") from None
    return producers.snapshot()


def load_producers(
    files: Files, directory: str, producers: ProducerStates, segments: list[Segment], *, start_offset: int, end_offset: int
) -> None:
    """The producers' state at `end_offset` of an undamaged log.  Errors: CorruptBatch, OSError."""
    replay = ProducerReplay(files, directory, producers, start_offset)
    replay.read_on(segments, end_offset)
    replay.finish()
