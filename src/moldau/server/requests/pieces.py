"""● Cuts long work into pieces: between two pieces the loop serves others.

A request may name tens of thousands of items.  If each can be answered by itself, other connections need not wait until all are done.  The
next request of the same connection begins when this one is answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from moldau.clock import Clock

PIECE_MS: Final = 20
"""The milliseconds of work before other requests have their turn."""

T = TypeVar("T")
R = TypeVar("R")


async def in_pieces(clock: Clock, do: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The results of `do` for each item, in their order."""
    results = []
    began_ms = clock.monotonic_ms()
    for item in items:
        results.append(do(item))
        if clock.monotonic_ms() - began_ms >= PIECE_MS:
            await asyncio.sleep(0)
            began_ms = clock.monotonic_ms()
    return results


async def one_by_one(clock: Clock, do: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """The awaited results of `do` for each item, in their order.  An awaitable that never waits gives other tasks no turn by itself."""
    results = []
    began_ms = clock.monotonic_ms()
    for item in items:
        results.append(await do(item))
        if clock.monotonic_ms() - began_ms >= PIECE_MS:
            await asyncio.sleep(0)
            began_ms = clock.monotonic_ms()
    return results
