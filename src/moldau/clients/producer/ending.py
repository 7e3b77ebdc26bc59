"""● The end of a transaction that outlives the call that began it: a cancelled block leaves its abort running."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

LOG: Final = logging.getLogger(__name__)


class Ending:
    """The newest commit or abort that a block has begun."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self.has_failed = False

    async def run(self, end: Coroutine[Any, Any, None]) -> None:
        """Commit or abort.  A failure is logged.  A caller that is cancelled goes at once, and the work goes on."""
        self.has_failed = False
        self._task = asyncio.get_running_loop().create_task(self._logged(end), name="end of a transaction")
        await self.wait()

    async def wait(self) -> None:
        """Wait until the last end is over."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _logged(self, end: Coroutine[Any, Any, None]) -> None:
        try:
            await end
        except Exception as error:
            self.has_failed = True
            LOG.warning("a transaction could not be ended: %s", error)
