"""● Producer ids for this broker's clients, out of blocks that the controller hands out.

A new block is requested before the old one is used up, so that clients rarely wait.  Waiting clients share one request.
Source: RPCProducerIdManager; KIP-730.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from moldau.errors import ErrorCode, KafkaError

PREFETCH_SHARE: Final = 0.9
"""The share of a block after which the next one is requested."""

Allocate = Callable[[], Awaitable[range]]
"""A function that gets a new block from the controller.  Errors: KafkaError."""


class ProducerIds:
    """See the module."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate: Final = allocate
        self._block = range(0)
        self._next_block = range(0)
        self._request: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """The next id, or None when the controller has to answer first: then call `wait`."""
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
        """The next id, or None if there is none at hand; the next block is then on its way."""
        producer_id = self.take()
        if producer_id is None:
            self._ask()
        return producer_id

    def has_any(self) -> bool:
        return bool(self._block or self._next_block)

    async def fill(self) -> None:
        """Wait until there is an id.

        Errors: COORDINATOR_LOAD_IN_PROGRESS, after which clients try again, when the controller gives no block.
        """
        while not self.has_any():
            self._ask()
            assert self._request is not None
            try:
                await asyncio.shield(self._request)
            except KafkaError as error:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no block of producer ids: {error}") from error

    async def wait(self) -> int:
        """Wait for the next id.  Errors: as `fill`."""
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
    """Ignore a failed prefetch: the next client tries again."""
    if not done.cancelled():
        done.exception()
