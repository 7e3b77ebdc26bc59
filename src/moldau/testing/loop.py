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


class _NoSelector:
    """The selector of the loop.  It has no IO, so it moves the time instead."""

    def __init__(self, loop: "SimLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck(f"at {self._loop.time():.3f} s nothing is ready and no timer is set")
        if timeout > 0:
            self._loop.jump()
        return []


class SimLoop(asyncio.BaseEventLoop):
    """See the module."""

    def __init__(self, trace: Trace | None = None) -> None:
        super().__init__()
        self.trace = trace or Trace()
        self.failures: list[dict[str, Any]] = []
        """The calls of asyncio's exception handler; a good run has none."""
        self._now = 0.0
        self._selector = _NoSelector(self)
        self._clock_resolution = 1e-9
        self._buried: list[object] = []
        self._tasks: dict[asyncio.Task[Any], Machine | None] = {}
        self.set_task_factory(_make_task)
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    # time

    def time(self) -> float:
        return self._now

    def jump(self) -> None:
        """Jump to the next timer."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # the base class keeps its timers there
        self._now = max(self._now, scheduled[0].when())

    def call_at(  # type: ignore[override]  # typeshed ties the arguments to the callback, which matters to callers only
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        self.trace.note_timer(when)
        return super().call_at(when, callback, *args, context=context)

    # machines

    def start(self, machine: Machine, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.create_task(work, context=machine.context)

    def kill(self, machine: Machine) -> None:
        """End everything that belongs to a machine at this instant.

        Its tasks are kept, unfinished, so that no `finally` runs by garbage collection.
        """
        machine.is_alive = False
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        for handle in [*self._ready, *scheduled]:  # type: ignore[attr-defined]
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

    def _process_events(self, event_list: list[Any]) -> None:
        pass

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
