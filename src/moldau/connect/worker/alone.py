"""● A worker alone: configurations and states in memory, offsets in a file, and a group of one.

Source: StandaloneHerder.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Final

from moldau.connect.store.local_log import OPTION, MemoryLog, OffsetFile
from moldau.connect.store.log import Replay
from moldau.connect.worker.membership import Owner
from moldau.connect.worker.options import WorkerOptions
from moldau.connect.worker.storage import Logs
from moldau.storage.files import Files, SystemFiles

LOG: Final = logging.getLogger(__name__)
MYSELF: Final = "standalone"


class LocalStorage:
    is_alone = True

    def __init__(self, options: WorkerOptions, files: Files | None = None) -> None:
        self._path = os.path.realpath(options[OPTION])
        self._files = files or SystemFiles()

    async def open(self, replays: Mapping[str, Replay]) -> Logs:
        return Logs(MemoryLog(replays["config"]), MemoryLog(replays["status"]), OffsetFile(self._files, self._path, replays["offset"]))

    def member(self, owner: Owner) -> "Alone":
        return Alone(owner)

    async def flush(self) -> None:
        return

    async def close(self) -> None:
        return


class Alone:
    """The one member of a group, its leader, which gets every unit at once."""

    def __init__(self, owner: Owner) -> None:
        self.generation = 0
        self._owner = owner
        self._wants_rejoin = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._assign()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="membership")

    def rejoin(self) -> None:
        self._wants_rejoin.set()

    async def _run(self) -> None:
        while True:
            await self._wants_rejoin.wait()
            self._wants_rejoin.clear()
            try:
                await self._assign()
            except Exception:
                LOG.exception("the units could not be assigned")

    async def _assign(self) -> None:
        decided = await self._owner.assign(MYSELF, {MYSELF: self._owner.metadata()})
        await self._owner.assigned(MYSELF, self.generation, decided[MYSELF])

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
