"""● Threads for tests that decide where a blocking call stops.  The loop stands still until the call has ended or waits at the gate.

    threads = HandedOver()
    threads.shut()                                 # from now on `pass_gate` within a blocking call stops that call
    result = await threads.run(blocking, ...)      # the loop goes on when the call has ended, or has stopped
    threads.open()                                 # all stopped calls go on, each to its end or to the next gate

One thread runs at a time, so the order of events depends on no scheduler and no clock.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

WITHIN_S: Final = 60.0
"""A call that neither ends nor comes to a gate is a defect of the test."""


class HandedOver:
    """See the module."""

    def __init__(self) -> None:
        self._is_open = True
        self._stopped: list[_Call] = []
        self._running: _Call | None = None

    async def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Like `moldau.storage.threads.BlockingThreads.run`: a call that has begun goes on even if nobody waits for it any more."""
        call = _Call(fn, args)
        self._go_on(call)
        return await call.future

    def shut(self) -> None:
        self._is_open = False

    def pass_gate(self) -> None:
        """Stop here if the gate is shut.  Called on the thread of a call."""
        if not self._is_open:
            call = self._running
            assert call is not None
            self._stopped.append(call)
            call.stop()

    def open(self) -> None:
        self._is_open = True
        while self._stopped:
            self._go_on(self._stopped.pop(0))

    def _go_on(self, call: "_Call") -> None:
        self._running = call
        call.go_on()
        self._running = None


class _Call:
    """One call on its thread."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.future: Final[asyncio.Future[Any]] = asyncio.get_running_loop().create_future()
        self._fn: Final = fn
        self._args: Final = args
        self._result: Any = None
        self._error: BaseException | None = None
        self._has_ended = False
        self._may_run: Final = threading.Semaphore(0)
        self._has_paused: Final = threading.Semaphore(0)
        self._thread: Final = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Let the call run until it has ended or stopped.  Called on the loop's thread."""
        self._may_run.release()
        assert self._has_paused.acquire(timeout=WITHIN_S), "the call neither ends nor comes to a gate"
        if self._has_ended and not self.future.cancelled():
            if self._error is not None:
                self.future.set_exception(self._error)
            else:
                self.future.set_result(self._result)

    def stop(self) -> None:
        """Stop until `go_on`.  Called on the call's own thread."""
        self._has_paused.release()
        self._may_run.acquire()

    def _run(self) -> None:
        self._may_run.acquire()
        try:
            self._result = self._fn(*self._args)
        except BaseException as error:  # the caller gets any exception
            self._error = error
        self._has_ended = True
        self._has_paused.release()
