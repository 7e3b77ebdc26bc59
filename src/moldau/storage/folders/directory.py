"""◇ One of a node's log directories, its logs, and the checkpoint files beside them.

Long steps can run in a thread: `FoundLog.load` and `Checkpoint.write` touch nothing of the manager.
Source: LogManager, LogDirFailureChannel, OffsetCheckpointFile; KIP-112.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from moldau.storage.config import LogConfig
from moldau.storage.files import Files, Lock
from moldau.storage.folders.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    MetaProperties,
    Offsets,
    offsets_text,
    read_partition_metadata,
)
from moldau.storage.log import Log
from moldau.storage.recovery import TEMPORARY_SUFFIX, RecoveryProgress, bytes_to_recover
from moldau.storage.segment import Segment, delete_files_of
from moldau.types import TopicPartition


class LogDirectory:
    """One of `log.dirs`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.meta: MetaProperties | None = None
        self.failure: OSError | None = None
        self.logs: dict[TopicPartition, Log] = {}
        self.was_clean = False
        self.broker_epoch: int | None = None
        """The broker epoch of the clean stop before this start."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        self.lock: Lock | None = None
        self.generation = 0
        """The number of times that recovery points here were lowered: an older checkpoint must not stay."""
        self.owes_checkpoints = False
        """Whether deleted logs still stand in the checkpoints, because there was no room to write them.

        Until then no new log is made here.
        """
        self.owes_sync = False
        """Whether checkpoints got their names, but the directory is not synced yet."""
        self.written: dict[str, bytes] = {}
        """The content of each checkpoint file, so that unchanged files are not written again."""
        self._checkpoint_number = 0

    @property
    def is_online(self) -> bool:
        return self.failure is None

    @property
    def directory_id(self) -> UUID | None:
        return self.meta.directory_id if self.meta is not None else None

    def checkpoints(self) -> "Iterator[Checkpoint]":
        """The checkpoint files whose content has changed."""
        for name, offsets in self._offsets():
            content = offsets_text(offsets)
            if self.written.get(name) != content:
                self._checkpoint_number += 1
                yield Checkpoint(self, name, content, self.generation, self._checkpoint_number)

    def write_checkpoints(self, files: Files) -> None:
        """Write all changed checkpoints, here and now.  Errors: OSError."""
        for checkpoint in list(self.checkpoints()):
            checkpoint.write(files)
            checkpoint.take_effect(files)
        if self.owes_sync:
            files.sync_dir(self.path)
            self.owes_sync = False
        self.owes_checkpoints = False

    def _offsets(self) -> Iterator[tuple[str, Offsets]]:
        here = self.logs
        self.recovery_points = {where: log.recovery_point for where, log in here.items()}
        # Every start offset but zero is noted.  Kafka leaves out those that equal their first segment's base, but dropped segments may come
        # back.
        self.log_start_offsets = {where: log.certain_start_offset for where, log in here.items() if log.certain_start_offset > 0}
        self.high_watermarks = {where: log.high_watermark for where, log in here.items()}
        self.cleaner_offsets = {where: offset for where, offset in self.cleaner_offsets.items() if where in here}
        yield RECOVERY_POINTS, self.recovery_points
        yield LOG_START_OFFSETS, self.log_start_offsets
        yield HIGH_WATERMARKS, self.high_watermarks
        if self.cleaner_offsets or CLEANER_OFFSETS in self.written:
            yield CLEANER_OFFSETS, self.cleaner_offsets


class Checkpoint(NamedTuple):
    """A checkpoint file to write: `write` may run in a thread, `take_effect` gives it its name."""

    directory: LogDirectory
    name: str
    content: bytes
    generation: int
    number: int

    @property
    def temporary(self) -> str:
        return f"{self.directory.path}/{self.name}.{self.number}{TEMPORARY_SUFFIX}"

    def write(self, files: Files) -> None:
        """Write and sync the file beside the valid one.  Errors: OSError, and nothing is left of it."""
        file = files.open(self.temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite([self.content], 0)
            file.sync()
        except OSError:
            with suppress(OSError):
                files.unlink(self.temporary)
            raise
        finally:
            file.close()

    def take_effect(self, files: Files) -> bool:
        """Put the written file in place.  It is valid from now on, and durable once its directory is synced.

        False, and the file is removed, when a log was shortened or removed meanwhile: its content is then wrong.  Errors: OSError.
        """
        directory = self.directory
        if self.generation != directory.generation:
            files.unlink(self.temporary)
            return False
        files.rename(self.temporary, f"{directory.path}/{self.name}")
        directory.written[self.name] = self.content
        directory.owes_sync = True
        return True


class Deletion(NamedTuple):
    """Files that were set aside long enough ago: segments of one log, or a whole log.  `run` may run in a thread."""

    directory: LogDirectory
    segments: list[Segment]
    folder: str | None = None

    def run(self, files: Files) -> None:
        """Delete the files.  Errors: OSError."""
        delete_files_of(self.segments)
        if self.folder is not None:
            with suppress(FileNotFoundError):
                files.rmtree(self.folder)


class FoundLog:
    """A log that was found on the disk: `load` recovers it."""

    def __init__(self, files: Files, directory: LogDirectory, topic_partition: TopicPartition, config: LogConfig, now_ms: int) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.log: Log | None = None
        self.progress = RecoveryProgress()
        self._files = files
        self._config = config
        self._now_ms = now_ms

    @property
    def path(self) -> str:
        return f"{self.directory.path}/{self.topic_partition}"

    def measure(self) -> None:
        """The bytes that `load` will read.  An error of the disk shows there."""
        with suppress(OSError):
            self.progress.bytes_to_read = bytes_to_recover(
                self._files, self.path, self.directory.recovery_points.get(self.topic_partition, 0)
            )

    def load(self) -> Log:
        """Recover the log.  Errors: LogDamaged, CorruptCheckpoint, OSError."""
        where = self.topic_partition
        self.log = Log.open(
            self._files,
            self.path,
            where,
            self._config,
            now_ms=self._now_ms,
            recovery_point=self.directory.recovery_points.get(where, 0),
            log_start_offset=self.directory.log_start_offsets.get(where, 0),
            clean=self.directory.was_clean,
            topic_id=read_partition_metadata(self._files, self.path),
            progress=self.progress,
        )
        self.log.update_high_watermark(self.directory.high_watermarks.get(where, 0))
        return self.log
