"""● The inside of the shop: everything that needs the brokers, opened together, closed together, opened anew when one part of it fails.

The writer comes first, since it ends a transaction that an earlier process left open.  Then the view and the book are read to the end of
their topics.  Only then anything is decided.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from moldau import Producer
from moldau.clock import Clock
from moldau.shop.again import for_ever
from moldau.shop.burgers.burgers import Burgers
from moldau.shop.follow import Follower, Positions
from moldau.shop.made_topics import make_topics
from moldau.shop.orders.orders import Orders
from moldau.shop.orders.view import View
from moldau.shop.settings import Settings
from moldau.shop.writer import Unavailable, Writer

VIEW: Final = "orders.db"
SOON: Final = {"retry.backoff.ms": "5"}
"""A transaction that begins before the markers of the last one are written is refused for a moment: requests wait meanwhile."""


class Inside:
    """The services that requests need while the brokers can be reached."""

    def __init__(self, orders: Orders, burgers: Burgers) -> None:
        self.orders = orders
        self.burgers = burgers


@asynccontextmanager
async def opened(settings: Settings, clock: Clock, told: Callable[[], None]) -> AsyncIterator[tuple[Inside, Awaitable[None]]]:
    """The inside, and an awaitable that ends when the inside fails.  Errors: ClientError, OSError, Positions."""
    async with AsyncExitStack() as stack:
        await make_topics(settings)
        options = {**settings.security, "transactional.id": f"{settings.prefix}{settings.name}-web", "linger.ms": "0", **SOON}
        producer = await stack.enter_async_context(Producer(settings.servers, options))
        view = View(settings.folder / VIEW)
        stack.callback(view.close)
        try:
            followed = Follower(settings.servers, settings.orders.orders, settings.security, view.positions())
            follower = await stack.enter_async_context(followed)
        except Positions:
            view.clear()
            followed = Follower(settings.servers, settings.orders.orders, settings.security, {})
            follower = await stack.enter_async_context(followed)
        writer = Writer(producer)
        orders = Orders(settings, view, writer, clock, len(follower.partitions), told)
        stack.callback(orders.let_go)
        burgers = Burgers(settings, writer, clock, told)
        async with Follower(settings.servers, settings.topics.claims, settings.security, {}) as claims:
            await burgers.load(claims)
        at_end = asyncio.Event()
        parts = [_begun("view", orders.follow(follower, at_end)), _begun("writer", writer.run()), _begun("burgers", burgers.expire())]
        stack.push_async_callback(_end, parts)
        failing = asyncio.ensure_future(_first_failure(parts))
        stack.callback(failing.cancel)
        await asyncio.wait([asyncio.ensure_future(at_end.wait()), failing], return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            await failing
        yield Inside(orders, burgers), failing


class Kept:
    """Keeps the inside open; `inside` is None while it is closed."""

    def __init__(self, settings: Settings, clock: Clock, told: Callable[[], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._told = told
        self.inside: Inside | None = None
        self.opened = asyncio.Event()

    async def run(self) -> None:
        """Runs for ever.  Errors: Fenced, when another shop with this name has opened."""
        await for_ever("the shop is closed", self._open)

    async def _open(self, well: Callable[[], None]) -> None:
        try:
            async with opened(self._settings, self._clock, self._told) as (inside, failing):
                self.inside = inside
                self.opened.set()
                well()
                await failing
        finally:
            self.inside = None
            self.opened.clear()


def _begun(name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work, name=name)


async def _first_failure(parts: "list[asyncio.Task[None]]") -> None:
    done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    for part in done:
        await part
    raise Unavailable("a part of the shop ended")


async def _end(parts: "list[asyncio.Task[None]]") -> None:
    for part in parts:
        part.cancel()
    await asyncio.gather(*parts, return_exceptions=True)
