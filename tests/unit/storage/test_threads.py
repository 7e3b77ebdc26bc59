"""Blocking calls on threads, on a real loop."""

import asyncio
import gc
import threading

import pytest

from moldau.storage.threads import BlockingThreads


async def test_results_and_errors_come_back() -> None:
    threads = BlockingThreads(2, "test")
    assert await threads.run(divmod, 7, 2) == (3, 1)
    assert await threads.run(threading.get_ident) != threading.get_ident()
    with pytest.raises(ValueError, match="invalid literal"):
        await threads.run(int, "x")
    assert await asyncio.gather(*[threads.run(pow, number, 2) for number in range(200)]) == [number**2 for number in range(200)]


async def test_as_many_run_at_once_as_there_are_threads() -> None:
    threads = BlockingThreads(3, "test")
    meeting = threading.Barrier(3, timeout=60)
    await asyncio.gather(*[threads.run(meeting.wait) for _ in range(3)])


async def test_what_was_begun_goes_on_when_nobody_waits_any_more_and_what_was_not_never_begins() -> None:
    threads = BlockingThreads(1, "test")
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(60)
        ended.set()

    never: list[bool] = []
    first = asyncio.create_task(threads.run(work))
    second = asyncio.create_task(threads.run(never.append, True))
    await asyncio.sleep(0)
    assert await asyncio.to_thread(begun.wait, 60)
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    go_on.set()
    assert await threads.run(ended.is_set)
    assert never == []


def test_each_loop_gets_its_own_answers() -> None:
    threads = BlockingThreads(1, "test")
    go_on = threading.Event()

    async def leave() -> None:
        waiting = asyncio.create_task(threads.run(go_on.wait, 60))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(leave())
    go_on.set()
    assert asyncio.run(threads.run(str, 5)) == "5"


async def test_threads_end_with_their_owner() -> None:
    threads = BlockingThreads(2, "forgotten")
    await threads.run(str)
    mine = [thread for thread in threading.enumerate() if thread.name.startswith("forgotten")]
    assert len(mine) == 2
    del threads
    gc.collect()
    for thread in mine:
        await asyncio.to_thread(thread.join, 20)
    assert not any(thread.is_alive() for thread in mine)
