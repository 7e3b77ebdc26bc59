"""● Cuts long work into pieces: between two pieces the loop serves others.

A request may name tens of thousands of things.  Where each can be answered by itself, other connections need not wait until all are done.
The next request of the same connection begins when this one is answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from moldau.clock import Clock

PIECE_MS: Final = 20
"""Of work, before others have their turn."""

T = TypeVar("T")
R = TypeVar("R")


async def in_pieces(clock: Clock, do: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What `do` gives for each, in their order."""
    results = []
    began_ms = clock.monotonic_ms()
    for item in items:
        results.append(do(item))
        if clock.monotonic_ms() - began_ms >= PIECE_MS:
            await asyncio.sleep(0)
            began_ms = clock.monotonic_ms()
    return results


async def one_by_one(clock: Clock, do: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """What is awaited of `do` for each, in their order.  An awaitable that never waits gives nobody a turn by itself."""
    results = []
    began_ms = clock.monotonic_ms()
    for item in items:
        results.append(await do(item))
        if clock.monotonic_ms() - began_ms >= PIECE_MS:
            await asyncio.sleep(0)
            began_ms = clock.monotonic_ms()
    return results
