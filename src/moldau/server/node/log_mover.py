"""● Moves logs between the folders of this broker: a task each, off the loop but for the swap.

What they copy a second together is limited by replica.alter.log.dirs.io.max.bytes.per.second, how many move at once by
num.replica.alter.log.dirs.threads.  A move that the last life of this broker did not finish is begun again.
Source: ReplicaAlterLogDirsManager.  The steps themselves are in `storage/folders/move.py`.  Called by AlterReplicaLogDirs and by `node.py`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.replication.throttle import Pace
from moldau.storage.files import Files
from moldau.storage.folders.directory import LogDirectory
from moldau.storage.folders.move import LogMove, TargetFailed
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)


class LogMover:
    """See the module.  `on_moved` is called when a log stands in its new folder."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        logs: LogManager,
        *,
        at_once: int,
        on_moved: Callable[[Log], None],
    ) -> None:
        self._files: Final = files
        self._clock: Final = clock
        self._logs: Final = logs
        self.pace: Final = Pace()
        self._on_moved: Final = on_moved
        self._turns: Final = asyncio.Semaphore(at_once)
        self._tasks: dict[LogMove, asyncio.Task[None]] = {}

    def move(self, where: TopicPartition, target: LogDirectory) -> None:
        """Begin a move, or go on with it.  Errors: OSError, and the target is offline."""
        move = self._logs.begin_move(where, target)
        if move is None or move in self._tasks:
            return
        task = in_background(self._run(move), name=f"move {where}")
        self._tasks[move] = task
        task.add_done_callback(lambda _: self._tasks.pop(move, None))

    def resume(self) -> None:
        """Begin moves again that were not finished before the last stop."""
        waiting, self._logs.interrupted_moves = self._logs.interrupted_moves, {}
        for where, target in waiting.items():
            if where not in self._logs.logs or not target.is_online:
                continue
            LOG.info("%s was on its way to %s: it begins again", where, target.path)
            try:
                self.move(where, target)
            except OSError as error:
                LOG.error("%s cannot move to %s: %s", where, target.path, error)

    async def stop(self) -> None:
        """Stop.  Unfinished moves begin again with the next start."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, move: LogMove) -> None:
        where = move.log.topic_partition
        async with self._turns:
            try:
                while not move.is_cancelled and move.log.failure is None:
                    now_ms = self._clock.monotonic_ms()
                    if delay_ms := self.pace.due_ms(now_ms) - now_ms:
                        await asyncio.sleep(delay_ms / 1000)
                        continue
                    step = move.next_step()
                    if step is None:
                        self._logs.finish_move(move, self._clock.now_ms())
                        LOG.info("%s moved to %s", where, move.parent)
                        self._on_moved(move.log)
                        return
                    self.pace.took(step.end - step.start, now_ms)
                    await self._files.run(step.run)
                    move.done(step)
            except OSError as error:
                if not move.is_cancelled or isinstance(error, TargetFailed):
                    LOG.error("%s did not move to %s: %s", where, move.parent, error)
                    self._logs.move_failed(move, error)
