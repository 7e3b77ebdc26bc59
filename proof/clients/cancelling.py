"""● Cancels a call at its n-th await, so that a test can try each of them.

place = 1
while await cancelled_at(consumer.poll(1.0), place, When.WAITING):
    place += 1
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from enum import Enum
from functools import partial
from typing import Any, Final


class When(Enum):
    WAITING = "while the call waits"
    ANSWERED = "in the moment when what the call waits for is there"


class _Counted:
    """Awaits something, and cancels the running task at one of its awaits."""

    def __init__(self, work: Awaitable[Any], place: int, when: When) -> None:
        self.count = 0
        self._work: Final = work
        self._place: Final = place
        self._when: Final = when

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._work.__await__()
        resume: Callable[[], Any] = partial(next, inner)
        while True:
            try:
                waited_for = resume()
            except StopIteration as end:
                return end.value
            self.count += 1
            if self.count == self._place:
                self._cancel_at(waited_for)
            try:
                yield waited_for
            except BaseException as error:
                resume = partial(inner.throw, error)
            else:
                resume = partial(next, inner)

    def _cancel_at(self, waited_for: "asyncio.Future[Any] | None") -> None:
        task = asyncio.current_task()
        assert task is not None
        if waited_for is None or self._when is When.WAITING:
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            waited_for.add_done_callback(lambda _: task.cancel())


async def cancelled_at(work: Awaitable[Any], place: int, when: When) -> bool:
    """Run a call in a task of its own, and cancel it at its await number `place`, from 1.

    Returns whether the call came so far.  Its result is dropped.  Errors: those of the call, but for the cancellation.
    """
    counted = _Counted(work, place, when)

    async def call() -> None:
        await counted

    try:
        await asyncio.get_running_loop().create_task(call())
    except asyncio.CancelledError:
        current = asyncio.current_task()
        assert current is not None
        if current.cancelling():
            raise
    return counted.count >= place
