"""● Clients of the shop's REST API: many at once.  They ask again with the same key until they are answered."""

import asyncio
import random
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import httpx

from moldau.pipelines.validation.model import Order

PATIENCE_S: Final = 180.0
PAUSE_S: Final = 0.1


class Answered(NamedTuple):
    status: int
    body: dict[str, Any]
    seconds: float
    """The time of the request that was answered."""


async def ask(http: httpx.AsyncClient, path: str, key: str, body: dict[str, Any]) -> Answered:
    """Ask until there is an answer other than 503.  Errors: TimeoutError."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        began_s = time.perf_counter()
        try:
            answer = await http.post(path, json=body, headers={"Idempotency-Key": key})
        except httpx.HTTPError:
            await asyncio.sleep(PAUSE_S)
            continue
        if answer.status_code != 503:
            return Answered(answer.status_code, answer.json(), time.perf_counter() - began_s)
        await asyncio.sleep(PAUSE_S)
    raise TimeoutError(f"{path} with key {key} was not answered within {PATIENCE_S:.0f} s")


def order_body(order: Order) -> dict[str, Any]:
    found = order._asdict()
    del found["order_id"]
    return {**found, "lines": [line._asdict() for line in order.lines]}


async def place_all(
    url: str, orders: Sequence[Order], *, clients: int, repeated: float, seed: int, told: Callable[[int], object] = lambda _: None
) -> tuple[dict[str, str], list[float]]:
    """Place all orders.  Returns key → order id, and the seconds that answers took.

    One client places all orders of a customer, one after the other.  A share of `repeated` keys is sent twice at once, and again later.
    Errors: AssertionError when a later answer differs from the first.
    """
    chance = random.Random(seed)
    queues: list[list[Order]] = [[] for _ in range(clients)]
    for order in orders:
        queues[zlib.crc32(order.customer_id.encode()) % clients].append(order)
    placed: dict[str, str] = {}
    seconds: list[float] = []

    async def client(http: httpx.AsyncClient, queue: Sequence[Order]) -> None:
        for order in queue:
            key, times = f"key-{order.order_id}", 2 if chance.random() < repeated else 1
            answers = await asyncio.gather(*(ask(http, "/orders", key, order_body(order)) for _ in range(times)))
            if times > 1:
                answers.append(await ask(http, "/orders", key, order_body(order)))
            ids = {str(one.body.get("order_id")) for one in answers}
            assert len(ids) == 1 and all(one.status == 202 for one in answers), answers
            placed[key] = ids.pop()
            seconds.extend(one.seconds for one in answers)
            told(len(placed))

    async def connected(queue: Sequence[Order]) -> None:
        # Each client has connections of its own, as on a machine of its own: one pool of hundreds is searched for each request.
        async with httpx.AsyncClient(base_url=url, timeout=30, verify=False, trust_env=False) as http:
            await client(http, queue)

    await asyncio.gather(*(connected(queue) for queue in queues))
    return placed, seconds
