"""● The event loop behind all blocking clients, in a thread of its own.  asyncio is loaded with the first client.

A process that was forked has a portal of its own: the thread of its parent is not there.  Clients that were made before the fork refuse to
work, because they would wait for that thread for ever.
"""

import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.sync.call import Call

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")


class Portal:
    """The loop that all blocking clients of a process share.  The first client starts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.is_of_parent = False

    @property
    def loop(self) -> "asyncio.AbstractEventLoop":
        with self._lock:
            if self._loop is None:
                import asyncio

                loop = asyncio.SelectorEventLoop()  # Windows' own loop cannot watch sockets
                thread = threading.Thread(target=loop.run_forever, name="moldau-sync", daemon=True)
                thread.start()
                # Last, because an interrupt before this line must not leave a loop that nobody runs.
                self._loop, self._thread = loop, thread
            return self._loop

    @property
    def has_loop(self) -> bool:
        """Whether a client has asked for the loop.  One that has not has nothing to close."""
        return self._loop is not None

    def is_here(self) -> bool:
        """Whether the caller is on the loop's thread, as callbacks are."""
        return threading.current_thread() is self._thread

    def forked(self) -> None:
        """Note that this process is a child of the one that made the portal."""
        self.is_of_parent = True

    def check_process(self) -> None:
        """Errors: FatalError in a process that was forked after the client was made."""
        if self.is_of_parent:
            from moldau.clients.errors import FatalError
            from moldau.errors import ErrorCode

            raise FatalError(ErrorCode.INVALID_REQUEST, "this client was made before the process forked: make clients after the fork")

    def run(self, work: Coroutine[Any, Any, T], *, take_back: Callable[[T], object] | None = None) -> T:
        """Run on the loop, and wait for the result.

        KeyboardInterrupt, or whatever a signal handler raises, cancels the work.  `take_back` is called on the loop with a result that came
        too late for that, and that no caller gets.

        Errors: those of `work`; FatalError where waiting would never end.
        """
        try:
            self.check_process()
            self._check_thread()
            loop = self.loop
            call = Call(work, loop, take_back)
        except BaseException:
            work.close()
            raise
        try:
            loop.call_soon_threadsafe(call.begin)
            return call.wait()
        except BaseException:
            loop.call_soon_threadsafe(call.give_up)
            raise

    def _check_thread(self) -> None:
        if self.is_here():
            from moldau.clients.errors import FatalError
            from moldau.errors import ErrorCode

            detail = "a callback of a blocking client cannot wait for a blocking client: hand the work to another thread"
            raise FatalError(ErrorCode.INVALID_REQUEST, detail)

    def spawn(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine without waiting for it."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call on the loop's thread without waiting for it."""
        self.loop.call_soon_threadsafe(function)

    def call(self, function: Callable[[], T]) -> T:
        """Call on the loop's thread, where the clients' state is changed."""

        async def work() -> T:
            return function()

        return self.run(work())


_PORTALS = [Portal()]


def the_portal() -> Portal:
    """The portal of this process, for a new client."""
    return _PORTALS[0]


def _forked() -> None:
    _PORTALS[0].forked()
    _PORTALS[0] = Portal()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forked)


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run on the loop that all blocking clients share, for calls without a blocking form here.  Errors: whatever the call raises."""
    return the_portal().run(work)
