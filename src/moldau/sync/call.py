"""● A coroutine that runs on a loop while the caller's thread waits for it, or is interrupted.

A signal handler may raise between any two steps of the waiting thread, also within the locks of `concurrent.futures.Future` and
`threading.Semaphore`, which then stay locked, so that the loop's thread waits for ever.  Here the thread waits for a bare lock, which is
acquired as a whole or not at all.
"""

import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Call(Generic[T]):
    """See the module.  `begin` and `give_up` are called on the loop's thread, `wait` on the other one."""

    def __init__(self, work: Coroutine[Any, Any, T], loop: "asyncio.AbstractEventLoop", take_back: Callable[[T], object] | None) -> None:
        self._work = work
        self._loop = loop
        self._take_back = take_back
        self._task: asyncio.Task[T] | None = None
        self._is_given_up = False
        self._running = threading.Lock()
        self._running.acquire()

    def begin(self) -> None:
        if self._is_given_up:
            self._work.close()
            return
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(lambda _: self._running.release())

    def wait(self) -> T:
        """The result.  Errors: those of the work; concurrent.futures.CancelledError."""
        self._running.acquire()
        assert self._task is not None
        if self._task.cancelled():
            from concurrent.futures import CancelledError

            raise CancelledError
        return self._task.result()

    def give_up(self) -> None:
        """Cancel the work: the caller waits no more."""
        self._is_given_up = True
        if self._task is None:
            return
        self._task.cancel()
        self._task.add_done_callback(self._lost)

    def _lost(self, task: "asyncio.Task[T]") -> None:
        if not task.cancelled() and task.exception() is None and self._take_back is not None:
            self._take_back(task.result())
