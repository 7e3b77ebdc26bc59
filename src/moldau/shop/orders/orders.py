"""● Orders: taken once by their idempotency key, followed in their topic, answered when they are judged.

An order's id follows from its key, and its record holds a digest of the request: so the topic tells everything that this process forgets
when it dies.  An order is placed only once the view has everything that was committed before, and then by the only writer of its name.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.clock import Clock
from moldau.pipelines.validation.model import State
from moldau.shop.follow import Batch, Follower
from moldau.shop.live.tally import LATENCIES, Tally
from moldau.shop.orders.requests import DIGEST, MOST_WAIT_S, order_of, records_of
from moldau.shop.orders.rows import FINAL, Change, Row, row_of
from moldau.shop.orders.view import View
from moldau.shop.settings import Settings
from moldau.shop.web.keys import digest_of, id_of, other_body
from moldau.shop.web.problems import Problem
from moldau.shop.writer import Unavailable, Writer

MOST_WAITING: Final = 10_000


class Orders:
    def __init__(self, settings: Settings, view: View, writer: Writer, clock: Clock, partitions: int, told: Callable[[], None]) -> None:
        self._topics = settings.orders
        self._view = view
        self._writer = writer
        self._clock = clock
        self._partitions = partitions
        self._told = told
        self._placing: dict[str, tuple[str, asyncio.Task[None]]] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self.tally = Tally(*view.counts(), view.newest(LATENCIES))

    async def place(self, key: str, body: Mapping[str, Any]) -> tuple[str, bool]:
        """The order's id, and whether it was there already.  Errors: Problem, Unavailable."""
        order_id, digest = id_of("o", key), digest_of(dict(body))
        found = self._view.get(order_id)
        if found is not None:
            if found.digest != digest:
                raise other_body()
            return order_id, True
        under_way = self._placing.get(order_id)
        if under_way is not None and under_way[0] != digest:
            raise other_body()
        if under_way is None:
            now_ms = self._clock.now_ms()
            order, email = order_of(dict(body), order_id, now_ms)
            records = records_of(order, self._topics, self._partitions, now_ms, {"email": email, DIGEST: digest})
            task = asyncio.ensure_future(self._write(order_id, records, now_ms))
            self._placing[order_id] = (digest, task)
            task.add_done_callback(lambda done: self._placed(order_id, done))
            await asyncio.shield(task)
            return order_id, False
        await asyncio.shield(under_way[1])
        return order_id, True

    async def _write(self, order_id: str, records: list[Any], now_ms: int) -> None:
        places = await self._writer.write(records)
        row = row_of(records[0].value, now_ms)
        # The view gets the order from the topic, too, and knows it by its offset.  A request that comes before that finds the order, too.
        self._take(self._view.apply([(order_id, row, places[0].partition, places[0].offset)], {}))

    def _placed(self, order_id: str, done: asyncio.Task[None]) -> None:
        del self._placing[order_id]
        if not done.cancelled():
            done.exception()  # each waiting request was told

    async def find(self, order_id: str, wait_s: float) -> str | None:
        """The order's body, at once or when the order is judged, within `wait_s`.  Errors: Problem, Unavailable."""
        found = self._view.get(order_id)
        if not wait_s or (found is not None and found.state in FINAL):
            return found.body if found else None
        if len(self._waiting) >= MOST_WAITING:
            raise Problem(503, f"{MOST_WAITING} requests are waiting for verdicts. Ask without wait.", retry_after_s=1)
        judged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(order_id, []).append(judged)
        try:
            await asyncio.wait([judged], timeout=min(wait_s, MOST_WAIT_S))
        finally:
            left = [one for one in self._waiting.pop(order_id, []) if one is not judged]
            if left:
                self._waiting[order_id] = left
        if judged.done():
            judged.result()
        found = self._view.get(order_id)
        return found.body if found else None

    def let_go(self) -> None:
        """End the waiting of all requests with Unavailable: nothing more is heard of their orders here."""
        for waiting in self._waiting.values():
            for judged in waiting:
                if not judged.done():
                    judged.set_exception(Unavailable("the shop lost its connection to the brokers"))

    def search(self, query: str) -> list[str]:
        return self._view.search(query)

    async def follow(self, follower: Follower, at_end: asyncio.Event) -> None:
        """Follows for ever.  Errors: ClientError."""
        async for batch in follower.batches():
            self._take(self._view.apply(list(_rows(batch)), {one.partition: offset for one, offset in batch.positions.items()}))
            if batch.is_at_end:
                at_end.set()
            await asyncio.sleep(0)  # requests have their turn while the whole topic is read

    def _take(self, changes: list[Change]) -> None:
        for change in changes:
            self.tally.take(change)
            if change.row is None or change.row.state != State.CREATED:
                for judged in self._waiting.get(change.order_id, ()):
                    if not judged.done():
                        judged.set_result(None)
        if changes:
            self._told()


def _rows(batch: Batch) -> "list[tuple[str, Row | None, int, int]]":
    found: list[tuple[str, Row | None, int, int]] = []
    for record in batch.records:
        if record.value is None:
            if record.key is not None:
                found.append((bytes(record.key).decode("utf-8", "replace"), None, record.partition, record.offset))
        elif (row := row_of(bytes(record.value), record.timestamp)) is not None:
            found.append((row.order_id, row, record.partition, record.offset))
    return found
