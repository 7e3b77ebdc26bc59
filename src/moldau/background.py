"""● Work that runs beside everything else and that nobody waits for.

An exception of such a task stays in the task: asyncio tells of it when the task is collected, which is never while somebody holds it, and
what depends on the work waits for ever.  Here it is told at once.  What has to go on whatever happens catches exceptions itself.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


def in_background(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Run on the running loop.  The caller keeps the task, and cancels it when its time is over."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_tell)
    return task


def _tell(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        LOG.error("%s ended by a mistake of ours", task.get_name(), exc_info=error)
