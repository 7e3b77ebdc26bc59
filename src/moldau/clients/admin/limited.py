"""● A limit in seconds for every call of a room of the admin client.

The last error that was tried again ends a call whose time is up; REQUEST_TIMED_OUT ends it where there was none.

Source: AdminClientConfig default.api.timeout.ms, AbstractOptions.timeoutMs.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any, Final, Self, TypeVar

from moldau.clients.admin.values import TIMEOUT_MS

R = TypeVar("R")

GRACE_S: Final = 2.0
"""How long the answer of a broker is waited for that may itself take `timeout_ms`."""


class Limited:
    """The base of the rooms.  A room without `limit_s` waits as long as its requests do."""

    limit_s: float | None = None

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and iscoroutinefunction(method):
                setattr(cls, name, _limited(method))

    def within(self, limit_s: float | None) -> Self:
        """This room, with a limit for each of its calls."""
        self.limit_s = limit_s
        return self


def _limited(method: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]:
    takes_time = "timeout_ms" in signature(method).parameters

    @wraps(method)
    async def limited(room: Limited, *args: Any, **given: Any) -> R:
        limit_s = room.limit_s
        if limit_s is None:
            return await method(room, *args, **given)
        if takes_time:
            asked_ms = given.get("timeout_ms")
            if asked_ms is None:
                given["timeout_ms"] = min(TIMEOUT_MS, int(limit_s * 1000))
            else:
                limit_s = asked_ms / 1000 + GRACE_S
        return await _within(method(room, *args, **given), limit_s)

    return limited


async def _within(call: Awaitable[R], limit_s: float) -> R:
    import asyncio

    from moldau.clients.cluster import is_limited
    from moldau.clients.errors import RetriableError
    from moldau.errors import ErrorCode, KafkaError

    if is_limited.get():
        return await call
    before = is_limited.set(True)
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await call
    except TimeoutError as error:
        if not limit.expired():
            raise
        last = error.__cause__ and error.__cause__.__context__
        if isinstance(last, KafkaError):
            raise last from None
        raise RetriableError(ErrorCode.REQUEST_TIMED_OUT, f"the call did not end within {limit_s:g} s") from None
    finally:
        is_limited.reset(before)
