"""● Asks about several groups or transactions at once: each has a coordinator of its own, and the questions are on their way together."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from moldau.errors import KafkaError

T = TypeVar("T")

AT_ONCE: Final = 64


async def of_each(names: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T | KafkaError]:
    """The answer for each name, or the error that it ended in.  Errors: those of `ask` that are no KafkaError; the rest is given up."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> T | KafkaError:
        async with room:
            try:
                return await ask(name)
            except KafkaError as error:
                return error

    asked = list(dict.fromkeys(names))
    tasks = [asyncio.ensure_future(one(name)) for name in asked]
    try:
        return dict(zip(asked, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()
