import asyncio
import logging

import pytest

from moldau.background import in_background
from moldau.testing.loop import SimLoop


def test_what_ends_by_an_exception_is_told_at_once_though_somebody_holds_the_task(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("nobody foresaw this")

    async def live() -> asyncio.Task[None]:
        task = in_background(work(), name="a loop")
        await asyncio.wait([task])
        await asyncio.sleep(0)
        return task

    with caplog.at_level(logging.ERROR):
        SimLoop().run_until_complete(live())
    assert [record.getMessage() for record in caplog.records] == ["a loop ended by a mistake of ours"]
    assert "nobody foresaw this" in caplog.text


def test_what_is_cancelled_or_done_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async def live() -> None:
        done, cancelled = in_background(asyncio.sleep(0)), in_background(asyncio.sleep(3600))
        await done
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await asyncio.sleep(0)

    SimLoop().run_until_complete(live())
    assert not caplog.records
