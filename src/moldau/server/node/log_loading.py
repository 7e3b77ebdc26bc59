"""● Loads all logs at a start, several at a time in every folder, and reports its progress.  A log that was not closed cleanly is
recovered, which reads everything that was not on stable storage; its size is known beforehand.  A folder whose disk fails goes offline and
the others are loaded.  Damaged logs stop the start once all logs have been checked, so that one error names all of them.

Source: LogManager.loadLogs.  Called by `node.py`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.storage.epochs import CorruptCheckpoint
from moldau.storage.files import Files
from moldau.storage.folders.directory import FoundLog, LogDirectory
from moldau.storage.manager import LogManager
from moldau.storage.recovery import LogDamaged

LOG: Final = logging.getLogger(__name__)

TELL_EVERY_MS: Final = 3000
SHOWN_DAMAGES: Final = 10
"""The most damaged logs that one message names."""


class SeveralDamaged(Exception):
    """More than one log cannot be opened; the text names them."""


class LogLoading:
    """See the module.  `tell` gets a line every few seconds, and none if loading ends sooner."""

    def __init__(
        self, files: Files, clock: Clock, logs: LogManager, *, threads_per_directory: int, tell: Callable[[str], None] = LOG.info
    ) -> None:
        self._files: Final = files
        self._clock: Final = clock
        self._logs: Final = logs
        self._threads_per_directory: Final = threads_per_directory
        self._tell: Final = tell
        self._done = 0
        self._damages: list[Exception] = []

    async def run(self, waiting: Sequence[FoundLog]) -> None:
        """Load the logs.  Errors: LogDamaged, CorruptCheckpoint, SeveralDamaged, DuplicateLog, OSError when no folder is left."""
        if not waiting:
            return
        began_ms = self._clock.monotonic_ms()
        unclean = [found for found in waiting if not found.directory.was_clean]
        LOG.info("loading %d log(s)%s", len(waiting), f", {len(unclean)} of them after an unclean stop" if unclean else "")
        await self._files.run(_measure, unclean)
        telling = in_background(self._keep_telling(waiting), name="recovery progress")
        try:
            await asyncio.gather(*(self._work(queue) for queue in _by_directory(waiting) for _ in range(self._threads_per_directory)))
        finally:
            telling.cancel()
        _raise(self._damages)
        if not any(directory.is_online for directory in self._logs.directories):
            raise self._logs.directories[0].failure or OSError("every log directory is offline")
        read = sum(found.progress.bytes_read for found in waiting)
        elapsed_s = (self._clock.monotonic_ms() - began_ms) / 1000
        LOG.info("loaded %d log(s) in %.1f s, %s were read to recover", self._done, elapsed_s, size_text(read))

    async def _work(self, queue: deque[FoundLog]) -> None:
        while queue:
            found = queue.popleft()
            if not found.directory.is_online:
                continue
            try:
                await self._files.run(found.load)
            except (LogDamaged, CorruptCheckpoint) as error:
                self._damages.append(error)
            except OSError as error:
                self._logs.fail_directory(found.directory, error)
            else:
                if found.directory.is_online:
                    self._logs.install(found)
            self._done += 1

    async def _keep_telling(self, waiting: Sequence[FoundLog]) -> None:
        while True:
            await asyncio.sleep(TELL_EVERY_MS / 1000)
            self._tell(self.progress_text(waiting))

    def progress_text(self, waiting: Sequence[FoundLog]) -> str:
        left = sum(max(0, found.progress.bytes_to_read - found.progress.bytes_read) for found in waiting if found.log is None)
        return f"loading logs: {self._done} of {len(waiting)}" + (f", {size_text(left)} left to read" if left else "")


def _measure(waiting: Sequence[FoundLog]) -> None:
    """Measure the bytes that each log will have to read, from the sizes of its files."""
    for found in waiting:
        found.measure()


def _by_directory(waiting: Sequence[FoundLog]) -> list[deque[FoundLog]]:
    """The logs by directory, the largest first, so that none is left over at the end."""
    queues: dict[LogDirectory, deque[FoundLog]] = {}
    for found in sorted(waiting, key=lambda found: found.progress.bytes_to_read, reverse=True):
        queues.setdefault(found.directory, deque()).append(found)
    return list(queues.values())


def _raise(damages: Sequence[Exception]) -> None:
    if len(damages) == 1:
        raise damages[0]
    if damages:
        more = f"\n… and {len(damages) - SHOWN_DAMAGES} more" if len(damages) > SHOWN_DAMAGES else ""
        raise SeveralDamaged(f"{len(damages)} logs cannot be opened:\n" + "\n".join(map(str, damages[:SHOWN_DAMAGES])) + more)


def size_text(count: int) -> str:
    """A size such as `3.2 GB`; powers of ten, as disks are sold."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
