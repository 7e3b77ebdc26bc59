"""◇ Group commit: who waits for stable storage, and which sync comes next.

    queue.want(log)              after an append that must be durable before it is answered
    job = queue.take()           what to sync now; None when nothing waits or enough is running
    job.sync()                   blocks: the shell runs it elsewhere
    queue.finish(job, error)     `log.recovery_point` has moved, or the log is offline

One log has one sync at a time; what is appended until the disk is asked shares it, the rest shares the next one.  So the number of syncs
follows the disk's speed and not the number of requests.  Logs take turns in the order in which they asked.
"""

from typing import Final

from moldau.storage.log import Flush, Log

SYNCS_AT_ONCE: Final = 4


class FlushJob:
    """One sync of one log."""

    __slots__ = ("flush", "log")

    def __init__(self, log: Log, flush: Flush) -> None:
        self.log = log
        self.flush = flush

    def sync(self) -> None:
        """Errors: OSError."""
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

    def take(self) -> FlushJob | None:
        if len(self._running) >= self._limit:
            return None
        for key, log in self._waiting.items():
            if key in self._running:
                continue  # its turn comes when the sync under way is done
            del self._waiting[key]
            if log.failure is not None or log.is_flushed:
                return self.take()
            self._running[key] = log
            return FlushJob(log, log.begin_flush())
        return None

    def finish(self, job: FlushJob, error: OSError | None = None) -> int:
        """The log's recovery point, which has not moved after an error: then the log is offline."""
        del self._running[id(job.log)]
        if error is not None and job.flush.moves == job.log.moves:
            job.log.fail(error)
            return job.log.recovery_point
        return job.log.end_flush(job.flush) if error is None else job.log.recovery_point
