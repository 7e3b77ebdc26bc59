"""● Producer ids for this broker's clients, out of blocks that the controller hands out.

A new block is asked for before the old one is used up, so that clients rarely wait; those who do wait for one request, not for one each.
Source: RPCProducerIdManager; KIP-730.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from moldau.errors import ErrorCode, KafkaError

PREFETCH_SHARE: Final = 0.9
"""Ask for the next block when this much of the present one is used."""

Allocate = Callable[[], Awaitable[range]]
"""A new block from the controller.  Errors: KafkaError."""


class ProducerIds:
    """See the module."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate: Final = allocate
        self._block = range(0)
        self._next_block = range(0)
        self._request: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """The next id, or None when the controller has to be waited for: then `wait`."""
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
        if not self._block:
            return None
        producer_id = self._block[0]
        self._block = self._block[1:]
        used_share = 1 - len(self._block) / 1000
        if used_share >= PREFETCH_SHARE and not self._next_block:
            self._ask()
        return producer_id

    def take_or_ask(self) -> int | None:
        """The next id; None when there is none at hand, and then the next block is on its way."""
        producer_id = self.take()
        if producer_id is None:
            self._ask()
        return producer_id

    def has_any(self) -> bool:
        return bool(self._block or self._next_block)

    async def fill(self) -> None:
        """Until there is one.  Errors: COORDINATOR_LOAD_IN_PROGRESS, which clients try again, when the controller gives none."""
        while not self.has_any():
            self._ask()
            assert self._request is not None
            try:
                await asyncio.shield(self._request)
            except KafkaError as error:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no block of producer ids: {error}") from error

    async def wait(self) -> int:
        """The next id.  Errors: as `fill`."""
        while (producer_id := self.take()) is None:
            await self.fill()
        return producer_id

    def _ask(self) -> None:
        if self._request is None or self._request.done():
            self._request = asyncio.ensure_future(self._fetch())
            self._request.add_done_callback(_look_at)

    async def _fetch(self) -> None:
        self._next_block = await self._allocate()


def _look_at(done: asyncio.Task[None]) -> None:
    """A failed prefetch is tried again by the next client; nobody else needs to hear of it."""
    if not done.cancelled():
        done.exception()
