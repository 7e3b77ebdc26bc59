"""● The event loop behind all blocking clients, in a thread of its own.  asyncio is loaded with the first client."""

import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Portal:
    """The loop that all blocking clients share.  The first client starts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> "asyncio.AbstractEventLoop":
        with self._lock:
            if self._loop is None:
                import asyncio

                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="moldau-sync", daemon=True).start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Errors: those of `work`.  KeyboardInterrupt cancels the work."""
        import asyncio

        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine without waiting for it."""
        import asyncio

        asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, function: Callable[[], T]) -> T:
        """Call on the loop's thread, where the clients' state is changed."""

        async def work() -> T:
            return function()

        return self.run(work())


PORTAL: Final = Portal()


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run on the loop that all blocking clients share, for calls without a blocking form here.  Errors: whatever the call raises."""
    return PORTAL.run(work)
