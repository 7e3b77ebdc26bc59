"""◇ Group commit: which logs wait for stable storage, and which sync comes next.

    queue.want(log)              after an append that must be durable before it is answered
    job = queue.take()           what to sync now; None when nothing waits or enough is running
    job.sync()                   blocks: the shell runs it elsewhere
    queue.finish(job, error)     `log.recovery_point` has moved, or the log is offline: the waiters of the log are told

One log has one sync at a time.  Appends before the disk is asked share that sync; later appends share the next one.  So the number of syncs
follows the disk's speed and not the number of requests.  Logs take turns in the order in which they asked.  Every `want` is followed by a
`finish` of that log, also when another flush has covered it meanwhile: then the job has nothing to sync.
"""

from typing import Final

from moldau.storage.flush.durability import Flush
from moldau.storage.log import Log

SYNCS_AT_ONCE: Final = 4


class FlushJob:
    """One sync of one log."""

    __slots__ = ("flush", "log")

    def __init__(self, log: Log, flush: Flush | None) -> None:
        """`flush`: None where nothing is left to be synced, and only the waiters must be told."""
        self.log = log
        self.flush = flush

    def sync(self) -> None:
        """Errors: OSError."""
        if self.flush is not None:
            self.flush.sync()


class FlushQueue:
    """See the module."""

    def __init__(self, limit: int = SYNCS_AT_ONCE) -> None:
        self._limit = limit
        self._waiting: dict[int, Log] = {}
        self._running: dict[int, Log] = {}

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._running

    def want(self, log: Log) -> None:
        """Everything in `log` now shall become durable."""
        self._waiting[id(log)] = log
        log.note_end()

    def take(self) -> FlushJob | None:
        if len(self._running) >= self._limit:
            return None
        for key, log in self._waiting.items():
            if key not in self._running:  # else its turn comes when the sync under way is done
                del self._waiting[key]
                self._running[key] = log
                is_over = log.failure is not None or log.is_flushed
                return FlushJob(log, None if is_over else log.begin_flush())
        return None

    def finish(self, job: FlushJob, error: OSError | None = None) -> int:
        """The log's recovery point, which has not moved after an error: then the log is offline."""
        log, flush = job.log, job.flush
        del self._running[id(log)]
        if flush is None:
            return log.recovery_point
        if error is not None:
            if flush.moves == log.moves:
                log.fail(error)
            return log.recovery_point
        recovery_point = log.end_flush(flush)
        if recovery_point < min(flush.upto, log.log_end_offset) and log.failure is None:
            self.want(log)  # the log's past or its epochs changed meanwhile, so this one does not count
        return recovery_point
