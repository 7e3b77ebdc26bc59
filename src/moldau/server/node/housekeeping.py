"""● The regular work of a broker: retention, compaction, checkpoints, flushes by age, expiry of producers.

Each job has its own period and never runs twice at once; blocking calls run in threads.  A failed job is logged and tried again.
Source: LogManager.startup, ReplicaManager.startHighWatermarkCheckPointThread.  Called by `node.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.server.node.options import ServerConfig
from moldau.storage.cleaner.compactor import Compactor, clean_elsewhere
from moldau.storage.config import CleanerConfig
from moldau.storage.files import Files, is_shortage
from moldau.storage.flush.flusher import Flusher
from moldau.storage.manager import LogManager

LOG: Final = logging.getLogger(__name__)

FLUSH_CHECK_MS: Final = 1000
"""The interval in milliseconds between two checks of flush.ms and flush.messages."""
DELETION_CHECK_MS: Final = 15_000
"""The interval in milliseconds between two checks of files that were set aside."""

Job = Callable[[], Awaitable[None]]


class Housekeeping:
    """See the module.  `start` once, `stop` once."""

    def __init__(
        self, *, options: ServerConfig, cleaner: CleanerConfig, files: Files, clock: Clock, logs: LogManager, flusher: Flusher
    ) -> None:
        self._options = options
        self._files: Final = files
        self._clock: Final = clock
        self._logs: Final = logs
        self._flusher: Final = flusher
        self._compactor: Final = Compactor(logs, clock, cleaner, flush=flusher.flush, clean_elsewhere=clean_elsewhere(files))
        self._tasks: list[asyncio.Task[None]] = []
        self._is_full_told = False

    def start(self) -> None:
        options = self._options
        first_ms = options.log_initial_task_delay_ms
        self._every(options.log_retention_check_interval_ms, self._retain, first_ms=first_ms)
        self._every(DELETION_CHECK_MS, self._delete, first_ms=first_ms)
        self._every(options.replica_high_watermark_checkpoint_interval_ms, self.checkpoint)
        self._every(options.log_flush_offset_checkpoint_interval_ms, self._flush_sealed)
        self._every(FLUSH_CHECK_MS, self._flush_due)
        self._every(options.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._compactor.start()

    def take_options(self, options: ServerConfig, cleaner: CleanerConfig) -> None:
        """Take options that were set while the broker runs.  The periods of jobs stay those of the start."""
        self._options = options
        self._compactor.take_options(cleaner)

    async def stop(self) -> None:
        await self._compactor.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _every(self, period_ms: int, job: Job, *, first_ms: int | None = None) -> None:
        name = job.__name__.strip("_")
        self._tasks.append(in_background(self._repeat(period_ms, job, period_ms if first_ms is None else first_ms), name=name))

    @staticmethod
    async def _repeat(period_ms: int, job: Job, first_ms: int) -> None:
        pause_ms = first_ms
        while True:
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = period_ms
            try:
                await job()
            except Exception:
                LOG.exception("%s failed, and is tried again in %d ms", job.__name__.strip("_"), period_ms)

    async def _retain(self) -> None:
        gone = self._logs.delete_old_segments(self._clock.now_ms(), self._clock.monotonic_ms())
        if gone:
            LOG.info("retention deleted %d segment(s)", gone)

    async def _delete(self) -> None:
        for deletion in self._logs.deletions(self._clock.now_ms()):
            try:
                await self._files.run(deletion.run, self._files)
            except OSError as error:
                self._logs.fail_directory(deletion.directory, error)

    async def checkpoint(self) -> None:
        """Note recovery points, log starts and high watermarks that have changed."""
        for checkpoint in self._logs.checkpoints():
            try:
                await self._files.run(checkpoint.write, self._files)
                if checkpoint.take_effect(self._files):
                    await self._files.run(self._files.sync_dir, checkpoint.directory.path)
            except OSError as error:
                if not is_shortage(error):
                    self._logs.fail_directory(checkpoint.directory, error)
                elif not self._is_full_told:
                    self._is_full_told = True
                    LOG.error(
                        "%s: %s: its checkpoints stay as they are, which costs time after a crash and nothing else.  Make room",
                        checkpoint.directory.path,
                        error.strerror,
                    )
                return
        self._is_full_told = False

    async def _flush_sealed(self) -> None:
        """Flush full segments early: otherwise a recovery would have to read all of them."""
        for log in self._logs.logs.values():
            if log.recovery_point < log.active_segment.base_offset:
                self._flusher.want(log)

    async def _flush_due(self) -> None:
        for log in self._logs.logs_to_flush(self._clock.now_ms()):
            self._flusher.want(log)

    async def _expire_producers(self) -> None:
        self._logs.remove_expired_producers(self._clock.now_ms(), self._options.producer_id_expiration_ms)
