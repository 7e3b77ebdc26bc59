"""● Tasks that run beside everything else and that nobody waits for.

An exception of such a task stays in the task.  asyncio logs it only when the task is collected, which never happens while the task is held,
and everything that depends on the task waits for ever.  Here the exception is logged at once.  Work that has to go on after an exception
catches it itself.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


def in_background(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Run `work` on the running loop.  The caller keeps the task, and cancels it when its time is over."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_tell)
    return task


def _tell(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        LOG.error("%s ended by a mistake of ours", task.get_name(), exc_info=error)
