"""● The burger shop: a claim is decided in memory, and answered once it is committed.

The book is replayed from the topic of claims when the shop opens.  A decision changes it at once, so that the next decision knows.  Every
answer that rests on a claim waits until that claim is committed: nobody is told a claim that could still be lost.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from moldau.clock import Clock
from moldau.shop.burgers.promotion import (
    Book,
    Claim,
    Reason,
    Refused,
    State,
    claim_json,
    claim_of,
    decide,
    expired,
    forget_old,
    pay,
    replay,
)
from moldau.shop.follow import Follower
from moldau.shop.settings import Settings
from moldau.shop.web.keys import other_body
from moldau.shop.web.problems import Problem
from moldau.shop.writer import Outgoing, Writer

LOOK_S: Final = 1.0
FORGET_EVERY: Final = 600
REFUSALS: Final = tuple(Reason)


class Burgers:
    def __init__(self, settings: Settings, writer: Writer, clock: Clock, told: Callable[[], None]) -> None:
        self.promotion = settings.promotion
        self._topic = settings.topics.claims
        self._writer = writer
        self._clock = clock
        self._told = told
        self._book = Book()
        self._committing: dict[str, asyncio.Future[Any]] = {}  # claim id → until its newest state is committed
        self.accepted = 0
        self.refused: dict[str, int] = dict.fromkeys(REFUSALS, 0)

    async def load(self, follower: Follower) -> None:
        """Replay the topic to its end.  Errors: ClientError, ValueError."""
        async for batch in follower.batches():
            for record in batch.records:
                if record.value is not None:
                    replay(self._book, self.promotion, claim_of(bytes(record.value)))
            if batch.is_at_end:
                return

    async def claim(self, wanted: Claim) -> Claim | Refused:
        """Errors: Problem, Unavailable."""
        found = decide(self._book, self.promotion, wanted, self._clock.now_ms())
        if isinstance(found, Refused):
            self.refused[found.reason] += 1
            self._told()
            return found
        if found.digest != wanted.digest:
            raise other_body()
        if wanted.claim_id not in self._book.claims:
            self.accepted += 1
            await self._commit(found)
        elif (under_way := self._committing.get(wanted.claim_id)) is not None:
            await asyncio.shield(under_way)
        return found

    async def pay(self, claim_id: str) -> Claim:
        """Errors: Problem, Unavailable."""
        found = pay(self._book, claim_id, self._clock.now_ms())
        if found is None:
            raise Problem(404, f"There is no claim {claim_id}, or it was settled more than a day ago.")
        if found != self._book.claims[claim_id]:
            await self._commit(found)
        elif (under_way := self._committing.get(claim_id)) is not None:
            await asyncio.shield(under_way)
        if found.state is State.EXPIRED:
            raise Problem(410, "It was not paid in time. Its units are free again: claim anew.")
        return found

    def get(self, claim_id: str) -> Claim | None:
        return None if claim_id in self._committing else self._book.claims.get(claim_id)

    async def expire(self) -> None:
        """Expire claims that are not paid in time, for ever.  Errors: Unavailable."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_S)
            looks += 1
            now_ms = self._clock.now_ms()
            due = [one for one in expired(self._book, now_ms) if one.claim_id not in self._committing]
            await asyncio.gather(*(self._commit(one) for one in due))
            if looks % FORGET_EVERY == 0:
                forget_old(self._book, now_ms)

    async def _commit(self, claim: Claim) -> None:
        replay(self._book, self.promotion, claim)
        before = self._committing.get(claim.claim_id)
        record = Outgoing(self._topic, claim.customer_id.encode(), claim_json(claim), claim.changed_ms)
        # The write has a task of its own, so that a client that goes away does not take the decision with it.
        task = asyncio.ensure_future(self._writer.write([record]))
        self._committing[claim.claim_id] = task
        task.add_done_callback(lambda done: self._committed(claim.claim_id, task))
        if before is not None:
            await asyncio.shield(before)
        await asyncio.shield(task)

    def _committed(self, claim_id: str, task: "asyncio.Future[Any]") -> None:
        if self._committing.get(claim_id) is task:
            del self._committing[claim_id]
        if not task.cancelled():
            task.exception()
        self._told()

    def frame(self) -> dict[str, Any]:
        one = self.promotion
        return {
            "promotion": {**one._asdict(), "price_cents": one.price_cents},
            "accepted": self.accepted,
            "refused": self.refused,
            "paid_units": self._book.paid_units,
            "reserved_units": self._book.reserved_units,
            "customers": len(self._book.customers),
        }
