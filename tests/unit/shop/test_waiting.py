"""Requests that wait for a verdict while the shop loses its brokers."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from moldau.clock import SystemClock
from moldau.shop.orders.orders import Orders
from moldau.shop.orders.view import View
from moldau.shop.settings import Settings
from moldau.shop.writer import Unavailable, Writer


async def test_a_wait_that_the_shop_gives_up_does_not_say_that_there_is_no_order(tmp_path: Path) -> None:
    settings = Settings("localhost:9", tmp_path)
    orders = Orders(settings, View(tmp_path / "orders.db"), cast(Writer, None), SystemClock(), 1, lambda: None)
    waiting = [asyncio.create_task(orders.find("none", 60.0)) for _ in range(2)]
    await asyncio.sleep(0)
    orders.let_go()
    found: list[Any] = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in found] == [Unavailable, Unavailable]


async def test_a_wait_ends_with_its_time(tmp_path: Path) -> None:
    orders = Orders(Settings("localhost:9", tmp_path), View(tmp_path / "orders.db"), cast(Writer, None), SystemClock(), 1, lambda: None)
    assert await orders.find("none", 0.001) is None
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(orders.find("none", 60.0), 0.001)
