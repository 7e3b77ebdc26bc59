"""● The shell around `FlushQueue`: runs its syncs where they do not stop the loop, and tells their waiters.

flusher = Flusher(files, on_flushed=replicas.log_flushed)
flusher.want(log)                      → later: replicas.log_flushed(log), with log.recovery_point moved or log.failure set
await flusher.flush(log)               → the same, and waits for it
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from moldau.background import in_background
from moldau.storage.files import Files
from moldau.storage.flush.queue import FlushJob, FlushQueue
from moldau.storage.log import Log

LOG: Final = logging.getLogger(__name__)


class Flusher:
    """The flusher of a node."""

    def __init__(self, files: Files, on_flushed: Callable[[Log], None]) -> None:
        self._files = files
        self._on_flushed = on_flushed
        self._queue = FlushQueue()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._waiters: dict[int, list[tuple[int, asyncio.Future[None]]]] = {}
        """The waiters by log: the offset up to which each waits (exclusive)."""
        self._is_start_due = False

    def want(self, log: Log) -> None:
        """Call `on_flushed` once everything that is in `log` now is durable, or cannot become so."""
        self._queue.want(log)
        self._start_soon()

    async def flush(self, log: Log) -> None:
        """Return once everything that is in `log` now is durable, or cannot become so: then `log.failure` is set, or the log was cut."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(id(log), []).append((log.log_end_offset, future))
        self.want(log)
        await future

    async def drain(self) -> None:
        """Wait until nothing waits any more."""
        while self._tasks or self._is_start_due:
            await asyncio.gather(asyncio.sleep(0), *self._tasks)

    def _start_soon(self) -> None:
        if not self._is_start_due:
            # Read the sockets once more before: the requests that have come by now share one sync.
            self._is_start_due = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._start)

    def _start(self) -> None:
        self._is_start_due = False
        while (job := self._queue.take()) is not None:
            task = in_background(self._run(job))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    async def _run(self, first: FlushJob) -> None:
        """Run this sync, then all that wait."""
        job: FlushJob | None = first
        while job is not None:
            error: OSError | None = None
            if job.flush is not None:
                try:
                    await self._files.run(job.sync)
                except OSError as raised:
                    error = raised
            self._queue.finish(job, error)
            self._tell(job.log)
            job = self._queue.take()

    def _tell(self, log: Log) -> None:
        try:
            self._on_flushed(log)
        except Exception:  # an error of one log's waiters: other logs have waiters, too
            LOG.exception("%s: the flush was not told to everyone who waits for it", log.topic_partition)
        waiters = self._waiters.pop(id(log), [])
        reached = log.recovery_point if log.failure is None else log.log_end_offset
        waiting = [waiter for waiter in waiters if min(waiter[0], log.log_end_offset) > reached]
        if waiting:
            self._waiters[id(log)] = waiting
        for offset, future in waiters:
            if min(offset, log.log_end_offset) <= reached and not future.done():
                future.set_result(None)
