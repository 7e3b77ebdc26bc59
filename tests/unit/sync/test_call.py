"""A call of a blocking client whose thread is interrupted: the work is cancelled, or its result is taken back."""

import asyncio
from concurrent.futures import CancelledError

import pytest

from moldau.sync.call import Call


async def ended() -> str:
    return "a result"


async def cancels_itself() -> str:
    raise asyncio.CancelledError


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_result_that_nobody_got_is_taken_back() -> None:
    lost: list[str] = []
    call = Call(ended(), asyncio.get_running_loop(), lost.append)
    call.begin()
    await turns()
    assert call.wait() == "a result"
    assert not lost
    call.give_up()
    await turns()
    assert lost == ["a result"]


async def test_work_that_goes_on_is_cancelled() -> None:
    lost: list[bool] = []
    waiting = asyncio.Event()
    call = Call(waiting.wait(), asyncio.get_running_loop(), lost.append)
    call.begin()
    await turns()
    call.give_up()
    await turns()
    with pytest.raises(CancelledError):
        call.wait()
    assert not lost


async def test_work_that_has_not_begun_never_begins() -> None:
    call = Call(ended(), asyncio.get_running_loop(), None)
    call.give_up()
    call.begin()
    await turns()


async def test_work_that_was_cancelled_by_another_is_an_error_that_except_exception_catches() -> None:
    call = Call(cancels_itself(), asyncio.get_running_loop(), None)
    call.begin()
    await turns()
    with pytest.raises(CancelledError) as caught:
        call.wait()
    assert isinstance(caught.value, Exception)
