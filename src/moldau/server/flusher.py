"""● Group commit: one sync for all produces that wait for stable storage.

A partition says that someone waits on it; at the end of the loop's turn everything that was said is synced together, off the loop, and
meanwhile the next group gathers.  So a client that sends one record at a time pays one sync a record, and a thousand clients share one.
An idle broker does nothing here.  Called by `replication/partition.py` through `want`.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from moldau.replication.partition import Partition
from moldau.storage.files import Files
from moldau.storage.log import Flush

PARALLEL: Final = 4
"""Syncs of different files run side by side: the disk orders them better than we could."""


class Flusher:
    """See the module."""

    def __init__(self, files: Files) -> None:
        self._files: Final = files
        self._wanted: dict[Partition, None] = {}
        self._task: asyncio.Task[None] | None = None

    def want(self, partition: Partition) -> None:
        """Make everything that is in its log now durable, then tell it."""
        self._wanted[partition] = None
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def settle(self) -> None:
        """Nothing is wanted any more."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while self._wanted:
                group, self._wanted = list(self._wanted), {}
                await self._flush(group)
        finally:
            self._task = None

    async def _flush(self, group: list[Partition]) -> None:
        begun = [(partition, partition.log.begin_flush()) for partition in group if partition.log.failure is None]
        shares = [begun[start::PARALLEL] for start in range(min(PARALLEL, len(begun)))]
        outcomes = [
            outcome
            for share in await asyncio.gather(*(self._files.run(_sync, [flush for _, flush in share]) for share in shares))
            for outcome in share
        ]
        in_order = [each for share in shares for each in share]
        for (partition, flush), error in zip(in_order, outcomes, strict=True):
            if error is not None:
                partition.log.fail(error)
                partition.failed()
            else:
                partition.log.end_flush(flush)
                partition.flushed()


def _sync(flushes: Sequence[Flush]) -> list[OSError | None]:
    """In a thread: touches nothing but the files it was given."""
    outcomes: list[OSError | None] = []
    for flush in flushes:
        try:
            flush.sync()
        except OSError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes
