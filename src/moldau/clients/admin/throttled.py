"""● Asks again for the part of a request that a broker's quota for changes has refused, until the call's time is up.

Source: KIP-599, CreateTopicsOptions.retryOnQuotaViolation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from moldau.clients.cluster import RETRY_AFTER_S
from moldau.errors import ErrorCode, KafkaError

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
T = TypeVar("T")


async def past_quota(
    items: Sequence[T],
    key: Callable[[T], K],
    ask: Callable[[Sequence[T]], Awaitable[tuple[Mapping[K, A | KafkaError], int]]],
    *,
    is_retried: bool,
    within_s: float,
) -> dict[K, A | KafkaError]:
    """The answers by `key` of each item.

    `ask` returns answers, and for how many milliseconds the broker refuses further changes.  `is_retried` False: ask once.  An answer is
    THROTTLING_QUOTA_EXCEEDED where the broker refuses for longer than `within_s` leaves.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    answers: dict[K, A | KafkaError] = {}
    while True:
        found, throttle_ms = await ask(items)
        answers.update(found)
        items = [one for one in items if _is_refused(answers.get(key(one)))]
        wait_s = max(throttle_ms / 1000, RETRY_AFTER_S)
        if not items or not is_retried or loop.time() + wait_s >= until:
            return answers
        await asyncio.sleep(wait_s)


def _is_refused(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
