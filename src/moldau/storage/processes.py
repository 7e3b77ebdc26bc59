"""● Runs calls that compute for long in processes of their own: on a thread they would take the interpreter away from the loop.

    processes = WorkerProcesses(2)
    verdict = await processes.run(examine, records, rules, now_ms)

A call is a function of a module; its arguments and its result are pickled.  A process (`python -m moldau.storage.processes`) is started
when a call finds none idle, kept for the next call, and ends when its standard input does: with its owner, however that ends.  A call whose
process dies is tried once more in a new one.
"""

import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from moldau.storage.threads import BlockingThreads

_P = ParamSpec("_P")
_T = TypeVar("_T")


class WorkerDied(Exception):
    """A process ended without its result; the text says how."""


class WorkerProcesses:
    """Worker processes: at most `count` calls run at once, the others wait."""

    def __init__(self, count: int) -> None:
        self._threads: Final = BlockingThreads(count, "worker")
        self._idle: Final[SimpleQueue[subprocess.Popen[bytes]]] = SimpleQueue()
        weakref.finalize(self, _end_all, self._idle)

    async def run(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a call.  Errors: those of `fn`, WorkerDied."""
        return await self._threads.run(_call, self._idle, pickle.dumps((fn, args, kwargs)))


def _call(idle: "SimpleQueue[subprocess.Popen[bytes]]", call: bytes) -> Any:
    """Make one call, on a thread."""
    worker = _idle_one(idle) or _start()
    try:
        answer = _ask(worker, call)
    except WorkerDied:  # the fault may lie elsewhere: the call is tried once more, in a fresh process
        worker = _start()
        answer = _ask(worker, call)
    idle.put(worker)
    error, result = answer
    if error is not None:
        raise error
    return result


def _idle_one(idle: "SimpleQueue[subprocess.Popen[bytes]]") -> subprocess.Popen[bytes] | None:
    """A live idle process."""
    with suppress(Empty):
        while True:
            worker = idle.get_nowait()
            if worker.poll() is None:
                return worker
            _end(worker)
    return None


def _ask(worker: subprocess.Popen[bytes], call: bytes) -> tuple[Exception | None, Any]:
    """Send a call, and return its result or raise its error.  Errors: WorkerDied, and the process is gone."""
    assert worker.stdin is not None and worker.stdout is not None
    try:
        worker.stdin.write(call)
        worker.stdin.flush()
        error, result = pickle.load(worker.stdout)
    except (OSError, EOFError, pickle.UnpicklingError):
        worker.kill()
        _end(worker)
        raise WorkerDied(f"a worker process ended with {worker.returncode}") from None
    return error, result


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", __spec__.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _end(worker: subprocess.Popen[bytes]) -> None:
    with worker, suppress(OSError):
        assert worker.stdin is not None
        worker.stdin.close()


def _end_all(idle: "SimpleQueue[subprocess.Popen[bytes]]") -> None:
    with suppress(Empty):
        while True:
            _end(idle.get_nowait())


def main() -> None:
    # Both signals come to the whole group of processes; the owner answers them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    calls, results = sys.stdin.buffer, sys.stdout.buffer
    with suppress(EOFError):
        while True:
            fn, args, kwargs = pickle.load(calls)
            try:
                answer = pickle.dumps((None, fn(*args, **kwargs)))
            except Exception as error:
                answer = pickle.dumps((error, None))
            results.write(answer)
            results.flush()
            del args, kwargs, answer  # keep no reference until the next call


if __name__ == "__main__":
    main()
