"""● The shell around `FlushQueue`: runs its syncs where they do not stop the loop, and tells whoever waits for them.

flusher = Flusher(files, on_flushed=replicas.log_flushed)
flusher.want(log)                      → later: replicas.log_flushed(log), with log.recovery_point moved or log.failure set
"""

import asyncio
from collections.abc import Callable

from moldau.storage.files import Files
from moldau.storage.flushing import FlushJob, FlushQueue
from moldau.storage.log import Log


class Flusher:
    """One per node."""

    def __init__(self, files: Files, on_flushed: Callable[[Log], None]) -> None:
        self._files = files
        self._on_flushed = on_flushed
        self._queue = FlushQueue()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_start_due = False

    def want(self, log: Log) -> None:
        """`on_flushed` is called once everything that is in `log` now is durable, or cannot become so."""
        self._queue.want(log)
        if not self._is_start_due:
            # The sockets are read once more before: the requests that have come by now share one sync.
            self._is_start_due = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._start)

    async def drain(self) -> None:
        """Until nothing waits any more."""
        while self._tasks or self._is_start_due:
            await asyncio.gather(asyncio.sleep(0), *self._tasks)

    def _start(self) -> None:
        self._is_start_due = False
        while (job := self._queue.take()) is not None:
            task = asyncio.get_running_loop().create_task(self._run(job))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    async def _run(self, first: FlushJob) -> None:
        """This one, then whatever waits."""
        job: FlushJob | None = first
        while job is not None:
            error: OSError | None = None
            try:
                await self._files.run(job.sync)
            except OSError as raised:
                error = raised
            self._queue.finish(job, error)
            self._on_flushed(job.log)
            job = self._queue.take()
