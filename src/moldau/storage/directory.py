"""◇ One of a node's log directories, the logs that are found in it, and the checkpoint files beside them.

What may take long can run in a thread: `FoundLog.load` and `Checkpoint.write` touch nothing of the manager.
Source: LogManager, LogDirFailureChannel, OffsetCheckpointFile; KIP-112.
"""

from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from moldau.storage.checkpoints import MetaProperties, read_partition_metadata
from moldau.storage.config import LogConfig
from moldau.storage.files import Files, Lock
from moldau.storage.log import Log
from moldau.storage.recovery import TEMPORARY_SUFFIX, RecoveryProgress, bytes_to_recover
from moldau.types import TopicPartition


class LogDirectory:
    """One of `log.dirs`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.meta: MetaProperties | None = None
        self.failure: OSError | None = None
        self.was_clean = False
        self.broker_epoch: int | None = None
        """Of the clean stop before this start."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        self.lock: Lock | None = None
        self.generation = 0
        """How often recovery points here were lowered: a checkpoint from before must not stay."""
        self.written: dict[str, bytes] = {}
        """What stands in each checkpoint file, to leave alone what has not changed."""

    @property
    def is_online(self) -> bool:
        return self.failure is None

    @property
    def directory_id(self) -> UUID | None:
        return self.meta.directory_id if self.meta is not None else None


class Checkpoint(NamedTuple):
    """A file to be written: `write` may run in a thread, `LogManager.checkpointed` gives it its name."""

    directory: LogDirectory
    name: str
    content: bytes
    generation: int
    number: int

    @property
    def temporary(self) -> str:
        return f"{self.directory.path}/{self.name}.{self.number}{TEMPORARY_SUFFIX}"

    def write(self, files: Files) -> None:
        """Beside the one that holds, and synced.  Errors: OSError."""
        file = files.open(self.temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite([self.content], 0)
            file.sync()
        finally:
            file.close()


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
        """How much `load` will read; a disk that cannot tell will say so there."""
        with suppress(OSError):
            self.progress.bytes_to_read = bytes_to_recover(
                self._files, self.path, self.directory.recovery_points.get(self.topic_partition, 0)
            )

    def load(self) -> Log:
        """Errors: LogDamaged, CorruptCheckpoint, OSError."""
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
