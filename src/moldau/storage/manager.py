"""◇ All logs of a node: its log directories, the place of each log, and the regular work on them.

A start goes in three steps, so that the shell can load many logs at once:

    manager = LogManager(files, ["/data/a", "/data/b"], config, unique=uuid4)
    manager.open(now_ms)                              locks, meta.properties, checkpoints; a directory that fails is offline
    for found in manager.found(config_of, now_ms):    one for each log on the disk
        found.load()                                  recovery: blocks, touches nothing of the manager, may run in a thread
        manager.install(found)

Afterwards nothing happens by itself: the shell calls `delete_old_segments`, `logs_to_flush`, `checkpoints`, … with the time at hand.
A directory whose disk fails takes its logs offline (`on_directory_failure`); the others serve on.
Source: LogManager, LogDirFailureChannel; KIP-112, KIP-858.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EMFILE, ENODEV
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.storage.config import LogConfig
from moldau.storage.files import Files, LockHeld, is_shortage
from moldau.storage.folders.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    clean_shutdown_text,
    read_clean_shutdown,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
)
from moldau.storage.folders.directory import Checkpoint, Deletion, FoundLog, LogDirectory
from moldau.storage.folders.move import LogMove, TargetFailed
from moldau.storage.folders.names import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX, partition_of, set_aside_name, set_aside_of
from moldau.storage.folders.unfinished import begin as begin_anew
from moldau.storage.folders.unfinished import end as end_anew
from moldau.storage.log import Log, Past
from moldau.storage.log_segments import DeletionDelay
from moldau.storage.recovery import TEMPORARY_SUFFIX, has_begun
from moldau.storage.retention_clock import RetentionClock
from moldau.types import METADATA_TOPIC, RESERVED_UUIDS, TopicPartition

MAX_PREFERRED: Final = 10_000
CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)

ConfigOf = Callable[[str], LogConfig]


class LogManager:
    """See the module.  `unique` gives ids for the names of deleted directories."""

    def __init__(self, files: Files, paths: Iterable[str], config: LogConfig, *, unique: Callable[[], UUID]) -> None:
        self.files = files
        self.config = config
        self.directories = [LogDirectory(path) for path in paths]
        self.logs: dict[TopicPartition, Log] = {}
        self.moves: dict[TopicPartition, LogMove] = {}
        """Logs on their way to another directory."""
        self.interrupted_moves: dict[TopicPartition, LogDirectory] = {}
        """Moves that the end of an earlier process broke off, with their targets.  They begin again once the logs are loaded."""
        self.on_directory_failure: Callable[[LogDirectory, OSError], None] | None = None
        self._unique = unique
        self._waiting_deletion: list[tuple[DeletionDelay, LogDirectory, str]] = []
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        self._clock = RetentionClock()

    # ---------------------------------------------------------------- starting

    def open(self, now_ms: int) -> None:
        """Take the directories.  Errors: LockHeld when another process has one, CorruptCheckpoint for a file that cannot be read."""
        for directory in self.directories:
            try:
                self._open(directory)
            except LockHeld:
                raise
            except OSError as error:
                directory.failure = error
        if not any(directory.is_online for directory in self.directories):
            raise self.directories[0].failure or OSError("no log directory is configured")
        self._settle_moves()
        self._schedule_leftovers(now_ms)

    def _open(self, directory: LogDirectory) -> None:
        files, path = self.files, directory.path
        if not files.is_dir(path):
            files.mkdir(path)
            files.sync_dir(path.rpartition("/")[0] or "/")
        directory.lock = files.lock(f"{path}/{LOCK}")
        for name in files.listdir(path):
            if name.startswith(CHECKPOINTS) and name.endswith(TEMPORARY_SUFFIX):
                files.unlink(f"{path}/{name}")
        directory.meta = read_meta_properties(files, path)
        directory.recovery_points = read_offsets(files, f"{path}/{RECOVERY_POINTS}")
        directory.log_start_offsets = read_offsets(files, f"{path}/{LOG_START_OFFSETS}")
        directory.high_watermarks = read_offsets(files, f"{path}/{HIGH_WATERMARKS}")
        directory.cleaner_offsets = read_offsets(files, f"{path}/{CLEANER_OFFSETS}")
        directory.broker_epoch = read_clean_shutdown(files, path)
        directory.was_clean = directory.broker_epoch is not None
        if directory.was_clean:
            files.unlink(f"{path}/{CLEAN_SHUTDOWN}")  # from here on a crash is an unclean stop
            files.sync_dir(path)

    def name_directories(self, new_id: Callable[[], UUID]) -> dict[str, UUID]:
        """The id of each folder.  A folder that was formatted before there were ids gets its own (KIP-858).  Errors: OSError."""
        ids = {}
        for directory in self.directories:
            meta = directory.meta
            if meta is None:
                continue
            if meta.directory_id is None:
                meta = directory.meta = meta._replace(directory_id=new_id())
                self.files.write_atomically(f"{directory.path}/{META_PROPERTIES}", meta.text())
            assert meta.directory_id is not None
            ids[directory.path] = meta.directory_id
        return ids

    def _settle_moves(self) -> None:
        """Finish or undo the moves that a crash interrupted: a move that had reached its swap is finished, the copies of others are
        deleted.  See `move`.

        A copy without its log stays: the log may be in a directory that is offline.
        """
        names = [(directory, name) for directory in self._online() for name in self.files.listdir(directory.path)]
        deleted = {name.removesuffix(DELETE_SUFFIX) for _, name in names if name.endswith(DELETE_SUFFIX)}
        logs = {name for _, name in names}
        for directory, name in names:
            where = set_aside_of(name) if name.endswith(FUTURE_SUFFIX) else None
            if where is None:
                continue
            stem = name.removesuffix(FUTURE_SUFFIX)
            if stem in deleted:
                becomes = str(where)
            elif str(where) in logs:
                becomes = stem + DELETE_SUFFIX
                self.interrupted_moves[where] = directory
            else:
                continue
            try:
                self.files.rename(f"{directory.path}/{name}", f"{directory.path}/{becomes}")
                self.files.sync_dir(directory.path)
            except OSError as error:
                directory.failure = error

    def _schedule_leftovers(self, now_ms: int) -> None:
        for directory in self._online():
            for name in self.files.listdir(directory.path):
                if name.endswith(DELETE_SUFFIX) and self.files.is_dir(f"{directory.path}/{name}"):
                    self._waiting_deletion.append((DeletionDelay(now_ms, 0), directory, name))

    def found(self, config_of: ConfigOf, now_ms: int) -> Iterator[FoundLog]:
        """Every log on the disk.

        Each must be loaded with its topic's own options: recovery takes gaps between offsets for damage where nothing was compacted.
        """
        for directory in self._online():
            for where, _ in self._logs_in(directory):
                yield FoundLog(self.files, directory, where, config_of(where.topic), now_ms)

    def set_strays_aside(
        self, is_stray: Callable[[str, TopicPartition, UUID | None], bool], told: Callable[[TopicPartition], UUID | None]
    ) -> list[str]:
        """Rename logs that the cluster does not know, before the logs are loaded.  Returns the new paths.

        `is_stray` is asked with its path and the topic id that the log was made for; None where a crash took that, before anything was
        in the log.  `told` is the directory that the cluster knows of a partition: it decides where a partition is in several.
        Errors: CorruptCheckpoint.
        """
        kept: list[str] = []
        found: dict[TopicPartition, list[LogDirectory]] = {}
        for directory in self._online():
            with self._starting(directory):
                for where, path in list(self._logs_in(directory)):
                    if is_stray(path, where, read_partition_metadata(self.files, path)):
                        kept.append(self._keep_aside(directory, where))
                    else:
                        found.setdefault(where, []).append(directory)
                self.files.sync_dir(directory.path)
        for where, directories in found.items():
            for directory in self._wrong_ones(where, directories, told(where)):
                with self._starting(directory):
                    kept.append(self._keep_aside(directory, where))
                    self.files.sync_dir(directory.path)
        return kept

    def _keep_aside(self, directory: LogDirectory, where: TopicPartition) -> str:
        path = f"{directory.path}/{set_aside_name(where, self._unique(), STRAY_SUFFIX)}"
        self.files.rename(f"{directory.path}/{where}", path)
        return path

    def _wrong_ones(self, where: TopicPartition, directories: Sequence[LogDirectory], told: UUID | None) -> list[LogDirectory]:
        """The directories in which a partition was begun and is no more; none where that is not certain.

        A disk that fails while a log is made, or while a replica leaves, keeps what it has; the log is then made on another disk.
        """
        if len(directories) == 1:
            return []
        right = [one for one in directories if one.is_online and one.directory_id == told]
        if not right:
            for directory in directories:
                with self._starting(directory):
                    if has_begun(self.files, f"{directory.path}/{where}"):
                        right.append(directory)
        online = [one for one in directories if one.is_online]
        return [one for one in online if one not in (right or online[:1])]

    @contextmanager
    def _starting(self, directory: LogDirectory) -> Iterator[None]:
        """Take a directory whose disk fails for offline, before anybody can be told."""
        try:
            yield
        except OSError as error:
            directory.failure = error

    def _logs_in(self, directory: LogDirectory) -> Iterator[tuple[TopicPartition, str]]:
        """The logs in a directory, without the metadata log, which the raft driver owns."""
        for name in self.files.listdir(directory.path):
            where = partition_of(name)
            if where is not None and where.topic != METADATA_TOPIC and self.files.is_dir(f"{directory.path}/{name}"):
                yield where, f"{directory.path}/{name}"

    def install(self, found: FoundLog) -> Log:
        """Take in a log that `found.load` made.  Errors: DuplicateLog when it stands in two directories."""
        assert found.log is not None, "load it first"
        if found.topic_partition in self.logs:
            before = self.directory_of(found.topic_partition)
            raise DuplicateLog(f"{found.topic_partition} stands in {before.path} and in {found.directory.path}: move one of them away")
        self._take(found.directory, found.log)
        return found.log

    def load_all(self, config_of: ConfigOf, now_ms: int) -> None:
        """Load all logs one after the other, here and now."""
        for found in self.found(config_of, now_ms):
            found.load()
            self.install(found)

    # ---------------------------------------------------------------- logs

    def get(self, where: TopicPartition) -> Log | None:
        return self.logs.get(where)

    def directory_of(self, where: TopicPartition) -> LogDirectory:
        """The directory of a log.  Errors: KeyError."""
        for directory in self.directories:
            if where in directory.logs:
                return directory
        raise KeyError(where)

    def get_or_create(
        self,
        where: TopicPartition,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: UUID | None = None,
        directory_id: UUID | None = None,
        is_new: bool = True,
    ) -> Log:
        """The log of a partition, made in the directory asked for or in the one with the fewest logs.

        Without `is_new` the partition has been here before, so no new log of it is made while a directory is offline.  A new one is tried
        on the next disk if a disk fails.  Errors: OSError, and nothing has changed where there is only no room.
        """
        log = self.logs.get(where)
        if log is not None:
            return log
        if not self.files.has_spare_descriptors():  # a shortage is no disk's fault: all existing logs go on
            raise OSError(EMFILE, "too many files are open: raise the limit (ulimit -n) and start again")
        preferred = self._preferred.pop(where, None)
        directory = preferred if preferred is not None and preferred.is_online else self._place(directory_id, is_new=is_new)
        path = f"{directory.path}/{where}"
        was_there = self.files.exists(path)
        try:
            if where in directory.recovery_points or where in directory.log_start_offsets or directory.owes_checkpoints:
                directory.write_checkpoints(self.files)  # the entries are of a deleted log of this name
            log = Log.open(self.files, path, where, config, now_ms=now_ms)
            if topic_id is not None:
                log.belongs_to(topic_id)
        except OSError as error:
            if not is_shortage(error):
                self.fail_directory(directory, error)
                if is_new and not _is_assigned(directory_id) and any(self._online()):
                    return self.get_or_create(where, config, now_ms=now_ms, topic_id=topic_id, directory_id=directory_id)
            elif not was_there:
                with suppress(OSError):
                    self.files.rmtree(path)
            raise
        self._take(directory, log)
        return log

    def _place(self, directory_id: UUID | None, *, is_new: bool) -> LogDirectory:
        """The directory for a new log.

        Errors: OSError when the log may be in a directory that is offline: an empty one in its place would lose it.
        """
        online = list(self._online())
        for directory in online:
            if directory_id is not None and directory.directory_id == directory_id:
                return directory
        if len(online) < len(self.directories) and (_is_assigned(directory_id) or not is_new):
            raise OSError(ENODEV, "a log directory is offline, and the log may be in it")
        if not online:
            raise OSError(ENODEV, "every log directory is offline")
        return min(online, key=lambda directory: len(directory.logs))

    def _take(self, directory: LogDirectory, log: Log) -> None:
        log.on_failure = lambda _, error: self.fail_directory(directory, error)
        self.logs[log.topic_partition] = directory.logs[log.topic_partition] = log

    def _let_go(self, where: TopicPartition) -> LogDirectory:
        """Take a log out of the manager.  Returns its directory."""
        self.cancel_move(where)
        directory = self.directory_of(where)
        del self.logs[where], directory.logs[where]
        return directory

    def delete(self, wheres: Iterable[TopicPartition], now_ms: int) -> int:
        """Delete logs: they are gone at once, and off the disk after file.delete.delay.ms.  A disk that fails takes its directory offline.
        Returns the number of logs.
        """
        going: dict[LogDirectory, list[Log]] = {}
        for where in wheres:
            log = self.logs.get(where)
            if log is not None:
                going.setdefault(self._let_go(where), []).append(log)
        for directory, logs in going.items():
            if directory.is_online:
                with suppress(OSError):
                    self._set_aside(directory, logs, DELETE_SUFFIX)
            for log in logs:
                delay = DeletionDelay(now_ms, log.config.file_delete_delay_ms)
                self._waiting_deletion.append((delay, directory, log.directory.rpartition("/")[2]))
        return sum(map(len, going.values()))

    def set_stray(self, where: TopicPartition) -> str:
        """Keep a log that the cluster does not know under another name.  Returns the new path.  Errors: OSError."""
        log = self.logs[where]
        self._set_aside(self._let_go(where), [log], STRAY_SUFFIX)
        return log.directory

    def _set_aside(self, directory: LogDirectory, logs: Sequence[Log], suffix: str) -> None:
        """Rename logs, all with one sync.  Errors: OSError."""
        directory.generation += 1
        for offsets in (directory.recovery_points, directory.log_start_offsets, directory.high_watermarks, directory.cleaner_offsets):
            for log in logs:
                offsets.pop(log.topic_partition, None)
        try:
            try:
                directory.write_checkpoints(self.files)  # a new log of such a name must not inherit these entries
            except OSError as error:
                if not is_shortage(error):  # deleting logs makes room
                    raise
                directory.owes_checkpoints = True
            for log in logs:
                path = f"{directory.path}/{set_aside_name(log.topic_partition, self._unique(), suffix)}"
                self.files.rename(log.directory, path)
                log.moved_to(path)
                for segment in log.segments:
                    segment.close()
            self.files.sync_dir(directory.path)
        except OSError as error:
            self.fail_directory(directory, error)
            raise

    def delete_records_before(self, log: Log, offset: int) -> int | ErrorCode:
        """Delete as `Log.delete_records_before`, and note the new start on the disk, as far as the deleted records were flushed.

        Errors beside its own: KAFKA_STORAGE_ERROR.
        """
        result = log.delete_records_before(offset)
        if not isinstance(result, ErrorCode) and (not self.write_checkpoints() or log.failure is not None):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return result

    def truncate_to(self, log: Log, offset: int, now_ms: int) -> bool:
        """Truncate as `Log.truncate_to`, with the recovery point on the disk lowered first.  Errors: OSError."""
        with self._failing(log, and_raise=True):
            offset = log.batch_boundary(offset)
            if self._begins_anew(log, offset):
                with self._making_anew(log, start=offset):
                    return log.truncate_to(offset, now_ms)
            if offset < log.log_end_offset:
                self._lower_recovery_point(log, offset, start=offset)
            return log.truncate_to(offset, now_ms)

    def truncate_fully_and_start_at(self, log: Log, offset: int, now_ms: int, *, log_start_offset: int | None = None) -> None:
        """Truncate as `Log.truncate_fully_and_start_at`, with the recovery point on the disk lowered first.  Errors: OSError."""
        with self._failing(log, and_raise=True):
            if log.is_tiered:
                with self._making_anew(log, start=offset):
                    log.truncate_fully_and_start_at(offset, now_ms, log_start_offset)
            else:
                self._lower_recovery_point(log, 0, start=offset)
                log.truncate_fully_and_start_at(offset, now_ms, log_start_offset)

    def begin_after(self, log: Log, past: Past, now_ms: int, *, log_start_offset: int) -> None:
        """Begin as `Log.begin_after`: after a crash at any step the log is whole or empty, never in between.  Errors: OSError."""
        with self._failing(log, and_raise=True), self._making_anew(log, start=log.log_start_offset):
            log.begin_after(past, now_ms, log_start_offset=log_start_offset)

    @contextmanager
    def _making_anew(self, log: Log, *, start: int) -> Iterator[None]:
        """Guard the replacement of all of a tiered log: half of it would look like a log of unknown past.  Errors: OSError."""
        directory = self.directory_of(log.topic_partition)
        self._lower_recovery_point(log, 0, start=start)
        begin_anew(self.files, log.directory)
        yield
        flush = log.begin_flush()
        flush.sync()
        # The start comes first, and the recovery point only when the log is whole: neither may lie beyond the end that a crash leaves.
        directory.write_checkpoints(self.files)
        end_anew(self.files, log.directory)
        log.end_flush(flush)

    def _lower_recovery_point(self, log: Log, offset: int, *, start: int) -> None:
        """Lower the recovery point, and the start to `start` at most, here and on the disk: a noted start beyond the end would look like
        damage.  Errors: OSError.
        """
        where = log.topic_partition
        directory = self.directory_of(where)
        directory.generation += 1
        log.lower_recovery_point(offset)
        log.log_start_offset = min(log.log_start_offset, start)
        if directory.recovery_points.get(where, 0) > offset or directory.log_start_offsets.get(where, 0) > start:
            directory.write_checkpoints(self.files)

    @staticmethod
    def _begins_anew(log: Log, offset: int) -> bool:
        """Whether a truncation to `offset` leaves nothing of a log whose past is in remote storage."""
        return log.is_tiered and offset < log.segments[0].base_offset

    def fail_directory(self, directory: LogDirectory, error: OSError) -> None:
        """Take all logs of a directory offline for the life of this process: its disk cannot be trusted."""
        if directory.failure is not None:
            return
        directory.failure = error
        for where, move in list(self.moves.items()):
            if move.parent == directory.path or where in directory.logs:
                self.cancel_move(where)
        for log in directory.logs.values():
            log.fail(error)
        if self.on_directory_failure is not None:
            self.on_directory_failure(directory, error)

    # ---------------------------------------------------------------- moving

    def prefer(self, where: TopicPartition, directory: LogDirectory) -> None:
        """Remember the directory for a log that may be made here one day.  Forgotten with this process."""
        if len(self._preferred) < MAX_PREFERRED:
            self._preferred[where] = directory

    def directory_at(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self.directories if directory.path == path), None)

    def begin_move(self, where: TopicPartition, target: LogDirectory) -> LogMove | None:
        """Begin a move to another directory; None when the log is there already.  A move to somewhere else is broken off.

        Errors: OSError, and the target is offline unless it is only full.
        """
        under_way = self.moves.get(where)
        if under_way is not None and under_way.parent == target.path:
            return under_way
        self.cancel_move(where)
        if where in target.logs:
            return None
        move = LogMove(self.files, self.logs[where], target.path, self._unique())
        try:
            move.begin()
        except OSError as error:
            if not is_shortage(error):
                self.fail_directory(target, error)
            raise
        self.moves[where] = move
        return move

    def cancel_move(self, where: TopicPartition) -> None:
        """Break a move off; the next deletion removes the copy."""
        move = self.moves.pop(where, None)
        if move is None:
            return
        move.is_cancelled = True
        target = self.directory_at(move.parent)
        if target is None or not target.is_online:
            return
        gone = set_aside_name(where, move.unique, DELETE_SUFFIX)
        try:
            self.files.rename(move.future, f"{target.path}/{gone}")
            self.files.sync_dir(target.path)
        except OSError as error:
            self.fail_directory(target, error)
        else:
            self._waiting_deletion.append((DeletionDelay(0, 0), target, gone))

    def move_failed(self, move: LogMove, error: OSError) -> None:
        """Note that a step failed: its disk goes offline.  A disk that is only full loses the copy again, and nothing else."""
        if isinstance(error, TargetFailed) and is_shortage(error):
            self.cancel_move(move.log.topic_partition)
        if not move.is_cancelled:
            target = self.directory_at(move.parent)
            assert target is not None, move.parent
            self.fail_directory(target if isinstance(error, TargetFailed) else self.directory_of(move.log.topic_partition), error)

    def finish_move(self, move: LogMove, now_ms: int) -> None:
        """Complete a copy that lacks only a little, and swap.  Errors: OSError, and one of the directories is offline."""
        log = move.log
        where = log.topic_partition
        source, target = self.directory_of(where), self.directory_at(move.parent)
        assert target is not None and target is not source, move.future
        try:
            move.complete()
            self._note_arrival(log, source, target)
        except OSError as error:
            self.move_failed(move, error)
            raise
        gone = set_aside_name(where, move.unique, DELETE_SUFFIX)
        del self.moves[where]  # from here on the copy may be all there is: the move is not broken off any more
        try:
            self.files.rename(log.directory, f"{source.path}/{gone}")
            self.files.sync_dir(source.path)
        except OSError as error:
            self.fail_directory(source, error)
            raise
        self._waiting_deletion.append((DeletionDelay(now_ms, log.config.file_delete_delay_ms), source, gone))
        del source.logs[where]
        self._take(target, log)
        log.relocated(f"{target.path}/{where}")
        try:
            self.files.rename(move.future, log.directory)
            self.files.sync_dir(target.path)
        except OSError as error:
            self.fail_directory(target, error)
            raise
        try:
            source.write_checkpoints(self.files)  # a new log of this name there must not inherit these entries
        except OSError as error:
            self.fail_directory(source, error)

    def _note_arrival(self, log: Log, source: LogDirectory, target: LogDirectory) -> None:
        """Note the log in the target's checkpoints before it is there.  Errors: TargetFailed."""
        where = log.topic_partition
        for directory in (source, target):
            directory.generation += 1
        if where in source.cleaner_offsets:
            target.cleaner_offsets[where] = source.cleaner_offsets.pop(where)
        target.logs[where] = log
        try:
            LogMove.writing(lambda: target.write_checkpoints(self.files))
        finally:
            del target.logs[where]

    # ---------------------------------------------------------------- regular work

    def trusted_now_ms(self, now_ms: int, monotonic_ms: int) -> int:
        """The time from which retention counts age."""
        return self._clock.trusted(now_ms, monotonic_ms)

    def delete_old_segments(self, now_ms: int, monotonic_ms: int) -> int:
        """Apply retention to every log: note the new starts on the disk, if it has room, then drop segments.  Returns their number."""
        trusted = self.trusted_now_ms(now_ms, monotonic_ms)
        for log in self.working_logs():
            with self._failing(log):
                log.apply_retention(now_ms, trusted_now_ms=trusted)
        is_noted = self.write_checkpoints()
        gone = 0
        for log in self.working_logs():
            with self._failing(log):
                gone += log.drop_below_start(now_ms, is_start_noted=is_noted)
        return gone

    def deletions(self, now_ms: int) -> Iterator[Deletion]:
        """The segments and logs that were set aside long enough ago."""
        for directory in self._online():
            for log in list(directory.logs.values()):
                segments = log.due_segments(now_ms)
                if segments:
                    yield Deletion(directory, segments)
        due = [(directory, name) for delay, directory, name in self._waiting_deletion if delay.is_over(now_ms)]
        self._waiting_deletion = [waiting for waiting in self._waiting_deletion if not waiting[0].is_over(now_ms)]
        for directory, name in due:
            if directory.is_online and self.files.exists(f"{directory.path}/{name}"):
                yield Deletion(directory, [], f"{directory.path}/{name}")

    def delete_due_files(self, now_ms: int) -> int:
        """Delete them here and now; a directory whose disk fails goes offline.  Returns the number of segments and logs."""
        gone = 0
        for deletion in self.deletions(now_ms):
            gone += len(deletion.segments) or 1
            try:
                deletion.run(self.files)
            except OSError as error:
                self.fail_directory(deletion.directory, error)
        return gone

    def logs_to_flush(self, now_ms: int) -> list[Log]:
        """The logs whose flush.messages or flush.ms is due."""
        return [log for log in self.working_logs() if log.wants_flush(now_ms)]

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        return sum(log.remove_expired_producers(now_ms, expiration_ms) for log in self.working_logs())

    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoint files whose content has changed.  `write` may run in a thread, whatever happens to the logs meanwhile."""
        return [checkpoint for directory in self._online() for checkpoint in directory.checkpoints()]

    def write_checkpoints(self) -> bool:
        """Write all changed files, here and now; a directory whose disk fails goes offline.  False when one could not be written.  On a
        full disk the old note stays valid: it covers less, but is never wrong.
        """
        are_written = True
        for directory in self._online():
            try:
                directory.write_checkpoints(self.files)
            except OSError as error:
                are_written = False
                if not is_shortage(error):
                    self.fail_directory(directory, error)
        return are_written

    # ---------------------------------------------------------------- stopping

    def close(self, broker_epoch: int | None = -1) -> dict[str, OSError]:
        """Save, sync and note everything; the next start of each working directory is then a clean one.

        Returns the errors, by path, of directories that have no room for that: their next start is not a clean one.

        If the start ended before all logs were loaded, the notes of the others must stay, and the next start is as clean as this one was.
        The same holds without an epoch: that broker never served.
        """
        served = broker_epoch is not None
        complete = [directory for directory in self._online() if self._is_loaded(directory) and (served or directory.logs)]
        errors = {directory.path: error for directory in self._online() if (error := self._close_logs(directory)) is not None}
        for directory in self._online():
            if directory.path in errors:
                continue
            is_complete = directory in complete
            epoch = broker_epoch if is_complete and broker_epoch is not None else directory.broker_epoch
            try:
                if is_complete:
                    directory.write_checkpoints(self.files)
                if epoch is not None:
                    self.files.write_atomically(f"{directory.path}/{CLEAN_SHUTDOWN}", clean_shutdown_text(epoch))
            except OSError as error:
                if is_shortage(error):
                    errors[directory.path] = error
                else:
                    self.fail_directory(directory, error)
        self.release()
        return errors

    def release(self) -> None:
        """Release the directories without noting anything."""
        for directory in self.directories:
            if directory.lock is not None:
                directory.lock.release()
            directory.logs.clear()
        self.logs.clear()

    def _close_logs(self, directory: LogDirectory) -> OSError | None:
        """Close a directory's logs, on a full disk as far as there is room.  Returns the error of one that had none."""
        full: OSError | None = None
        for log in directory.logs.values():
            try:
                log.close()
            except (OSError, KafkaError) as error:
                if not (isinstance(error, OSError) and is_shortage(error)):
                    self.fail_directory(directory, error if isinstance(error, OSError) else OSError(str(error)))
                    return None
                full = error
        return full

    # ---------------------------------------------------------------- below the surface

    def _is_loaded(self, directory: LogDirectory) -> bool:
        """Whether every log in a directory is known here."""
        try:
            return all(where in directory.logs for where, _ in self._logs_in(directory))
        except OSError as error:
            self.fail_directory(directory, error)
            return False

    def _online(self) -> Iterator[LogDirectory]:
        return (directory for directory in self.directories if directory.is_online)

    @contextmanager
    def _failing(self, log: Log, *, and_raise: bool = False) -> Iterator[None]:
        """Take the log's directory offline if its disk fails; the others serve on.  Work that a full disk refuses is done later."""
        try:
            yield
        except OSError as error:
            if and_raise or not is_shortage(error):
                log.fail(error)
            if and_raise:
                raise

    def working_logs(self) -> list[Log]:
        return [log for log in self.logs.values() if log.failure is None]


def _is_assigned(directory_id: UUID | None) -> bool:
    return directory_id is not None and directory_id.int >= RESERVED_UUIDS


class DuplicateLog(Exception):
    """The same partition is in two directories, and it is not known which one is right."""
