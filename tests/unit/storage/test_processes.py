"""Long computations, in real processes."""

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from moldau.storage.files import SystemFiles
from moldau.storage.processes import WorkerDied, WorkerProcesses

WITHIN_S = 60


async def test_results_and_errors_come_back_from_another_process() -> None:
    processes = WorkerProcesses(2)
    assert await processes.run(divmod, 7, 2) == (3, 1)
    assert await processes.run(os.getpid) != os.getpid()
    with pytest.raises(ValueError, match="invalid literal"):
        await processes.run(int, "x")
    assert await asyncio.gather(*[processes.run(pow, number, 2) for number in range(50)]) == [number**2 for number in range(50)]


async def test_a_process_serves_call_after_call() -> None:
    processes = WorkerProcesses(1)
    assert await processes.run(os.getpid) == await processes.run(os.getpid)


async def test_a_call_whose_process_died_is_done_by_another_one() -> None:
    processes = WorkerProcesses(1)
    first = await processes.run(os.getpid)
    os.kill(first, signal.SIGKILL)
    assert await processes.run(os.getpid) != first, "the process died while it was idle"
    second = await processes.run(os.getpid)
    assert await processes.run(_die_once, second) != second, "the process died during the call"


async def test_a_call_that_ends_every_process_fails_and_no_other_does() -> None:
    processes = WorkerProcesses(1)
    with pytest.raises(WorkerDied, match="ended with 3"):
        await processes.run(os._exit, 3)
    assert await processes.run(divmod, 7, 2) == (3, 1)


def _die_once(victim: int) -> int:
    if os.getpid() == victim:
        os.kill(victim, signal.SIGKILL)
    return os.getpid()


async def test_a_process_answers_though_its_whole_group_is_told_to_end() -> None:
    processes = WorkerProcesses(1)
    worker = await processes.run(os.getpid)
    for number in (signal.SIGINT, signal.SIGTERM):
        await processes.run(os.kill, worker, number)
    assert await processes.run(os.getpid) == worker


async def test_processes_end_with_their_owner() -> None:
    files = SystemFiles()
    worker = await files.compute(os.getpid)
    del files
    gc.collect()
    await asyncio.to_thread(_ended, worker)


def test_processes_end_with_a_process_that_is_killed() -> None:
    program = "import asyncio, os; from moldau.storage.files import SystemFiles; files = SystemFiles()\n"
    program += "print(asyncio.run(files.compute(os.getpid)), flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WITHIN_S, check=False)
    _ended(int(done.stdout))


def _ended(process: int) -> None:
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process)
        ended, _, _ = select.select([descriptor], [], [], WITHIN_S)
        os.close(descriptor)
        assert ended, f"process {process} is still there"
