"""● Tells pages the news as server-sent events: each page gets the newest frame, at most a few times a second, and no page waits for a
slow one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

MOST_PAGES: Final = 200
APART_S: Final = 0.25
QUIET_S: Final = 2.0
"""A frame comes so often when nothing happens: seconds pass on the page, too."""


class Live:
    """`frame` tells everything that the page shows."""

    def __init__(self, frame: Callable[[], dict[str, Any]]) -> None:
        self._frame = frame
        self._text = ""
        self._changed = asyncio.Event()
        self._number = 0
        self._sent = asyncio.Condition()
        self._pages = 0

    def changed(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Runs for ever."""
        while True:
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            if self._pages:
                self._text = json.dumps(self._frame(), separators=(",", ":"))
                self._number += 1
                async with self._sent:
                    self._sent.notify_all()
            await asyncio.sleep(APART_S)

    async def stream(self) -> AsyncIterator[str]:
        if self._pages >= MOST_PAGES:
            yield "retry: 30000\n\n"
            return
        self._pages += 1
        self._changed.set()
        try:
            seen = self._number
            while True:
                async with self._sent:
                    while self._number == seen:
                        await self._sent.wait()
                seen = self._number
                yield f"id: {seen}\ndata: {self._text}\n\n"
        finally:
            self._pages -= 1
