"""● `SimLoop`: an asyncio loop without a selector, in virtual time, on which several machines live and die.

    loop = SimLoop()
    machine = Machine("node-1")
    loop.start(machine, node.start())              # all tasks, timers and callbacks that it starts belong to the machine
    loop.run_until_complete(workload())            # hours pass in seconds: when nothing is ready, the clock jumps to the next timer
    loop.kill(machine)                             # nothing of it runs any more, not even a `finally`

The order of events follows from the order of calls alone; there are no threads and there is no outside.  A loop on which nothing is ready
and no timer is set raises `Stuck` instead of hanging.
"""

import asyncio
import contextvars
import sys
from collections.abc import Coroutine
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar

from moldau.testing.trace import Trace

T = TypeVar("T")

MOST_AWAITS_AT_THE_END: Final = 100
"""The awaits in `finally` blocks of a dead task; more would be a loop."""


class Stuck(RuntimeError):
    """Every task waits for another one: nothing can ever happen any more."""


class Machine:
    """A broker or a client that can lose power."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.is_alive = True
        self.context = contextvars.copy_context()
        self.context.run(_CURRENT.set, self)

    def __repr__(self) -> str:
        return f"Machine({self.host!r}{'' if self.is_alive else ', dead'})"


_CURRENT: Final[contextvars.ContextVar[Machine | None]] = contextvars.ContextVar("machine", default=None)


def current_machine() -> Machine:
    """The machine that the running code belongs to."""
    machine = _CURRENT.get()
    assert machine is not None, "this code runs on no machine: start it by SimLoop.start"
    return machine


class _Timer(float):
    """A timer that is its own time.  The heap compares timers all the time, and compares numbers without a call of Python."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_loop", "_scheduled", "_source_traceback")

    _callback: Any
    _args: Any
    _context: contextvars.Context
    _loop: "SimLoop"

    def __init__(self, when: float) -> None:
        self._cancelled = False
        self._scheduled = True
        self._source_traceback = None

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._loop.note_cancelled(self._scheduled)
            self._callback = self._args = None

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return float(self)

    def get_context(self) -> contextvars.Context:
        return self._context

    _run = asyncio.Handle._run


MANY_TIMERS: Final = 100
"""More timers than this are searched for cancelled ones, once half of them are cancelled."""
RESOLUTION_S: Final = 1e-9
"""Timers that are no further apart than this are of one instant."""


class SimLoop(asyncio.BaseEventLoop):
    """See the module."""

    def __init__(self, trace: Trace | None = None) -> None:
        super().__init__()
        self.trace = trace or Trace()
        self.failures: list[dict[str, Any]] = []
        """The calls of asyncio's exception handler; a good run has none."""
        self._now = 0.0
        self._timers: list[_Timer] = []
        self._cancelled_count = 0
        self._buried: list[object] = []
        self._tasks: dict[asyncio.Task[Any], Machine | None] = {}
        self.set_task_factory(_make_task)
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    # time

    def time(self) -> float:
        return self._now

    def jump(self) -> None:
        """Jump to the next timer."""
        self._now = max(self._now, float(self._timers[0]))

    def call_at(  # type: ignore[override]  # typeshed ties the arguments to the callback, which matters to callers only
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:  # type: ignore[attr-defined]
            raise RuntimeError("Event loop is closed")
        self.trace.note_timer(when)
        timer = _Timer(when)
        timer._callback, timer._args, timer._loop = callback, args, self
        timer._context = contextvars.copy_context() if context is None else context
        heappush(self._timers, timer)
        return timer  # type: ignore[return-value]

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._closed:  # type: ignore[attr-defined]
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def note_cancelled(self, is_scheduled: bool) -> None:
        self._cancelled_count += is_scheduled

    # machines

    def start(self, machine: Machine, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.create_task(work, context=machine.context)

    def kill(self, machine: Machine) -> None:
        """End everything that belongs to a machine at this instant.

        Its tasks are kept, unfinished, so that no `finally` runs by garbage collection.
        """
        machine.is_alive = False
        for handle in [*self._ready, *self._timers]:  # type: ignore[attr-defined]
            context: contextvars.Context = handle._context
            if context.get(_CURRENT) is machine:
                self._buried.append((handle._callback, handle._args))
                handle.cancel()
        for task, owner in self._tasks.items():
            if owner is machine:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                self._buried.append(task)
        self._tasks = {task: owner for task, owner in self._tasks.items() if owner is not machine}

    def forget_the_dead(self) -> None:
        """Let the tasks of killed machines be collected, once the simulation is over.

        They are closed here, in silence: a `finally` that asks for the loop would be reported by garbage collection at any time.  The loop
        counts as running meanwhile, so that a `finally` can begin tasks, as `asyncio.gather` does; these tasks are closed, too.
        """
        usual, sys.unraisablehook = sys.unraisablehook, lambda _: None
        asyncio._set_running_loop(self)
        try:
            living = set(self._tasks)
            closing: list[Any] = self._buried
            while closing:
                for one in closing:
                    if isinstance(one, asyncio.Task):
                        one._log_destroy_pending = False  # type: ignore[attr-defined]
                        _close(one)
                closing = [task for task in self._tasks if task not in living]
                living.update(closing)
            self._buried.clear()
        finally:
            asyncio._set_running_loop(None)
            sys.unraisablehook = usual

    def remember(self, task: "asyncio.Task[Any]") -> None:
        self._tasks[task] = _CURRENT.get()
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)

    # called by the base class

    def close(self) -> None:
        super().close()
        self._timers.clear()  # as the base class does with its own: what they would have called is free

    def _run_once(self) -> None:
        """Run what is ready, or what the next timers hold.  In the base class this is the wait for a selector."""
        ready = self._ready  # type: ignore[attr-defined]
        self._drop_cancelled()
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not self._timers:
                raise Stuck(f"at {self._now:.3f} s nothing is ready and no timer is set")
            if self._timers[0] > self._now:
                self.jump()
        timers, end = self._timers, self._now + RESOLUTION_S
        while timers and timers[0] < end:
            timer = heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _drop_cancelled(self) -> None:
        timers = self._timers
        if len(timers) > MANY_TIMERS and self._cancelled_count * 2 > len(timers):
            for timer in timers:
                timer._scheduled = not timer._cancelled
            self._timers = [timer for timer in timers if not timer._cancelled]
            heapify(self._timers)
            self._cancelled_count = 0
            return
        while timers and timers[0]._cancelled:
            self._cancelled_count -= 1
            heappop(timers)._scheduled = False

    def _write_to_self(self) -> None:
        raise RuntimeError("threads do not belong into a simulation")

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]  # it never returns
        raise RuntimeError("threads do not belong into a simulation: blocking work goes through Files.run")


def _close(task: "asyncio.Task[Any]") -> None:
    work = task.get_coro()
    for _ in range(MOST_AWAITS_AT_THE_END):
        with suppress(Exception):  # of a `finally` that awaits, or misses the loop
            work.close()
            return


def _make_task(loop: asyncio.AbstractEventLoop, work: Any, *, context: contextvars.Context | None = None) -> "asyncio.Task[Any]":
    assert isinstance(loop, SimLoop)
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
    (context or contextvars.copy_context()).run(loop.remember, task)
    return task
