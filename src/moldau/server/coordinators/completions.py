"""● Tells requests that a transaction is complete whose coordinator is this broker."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Completions:
    """A request of a client's next transaction waits here for the last marker of the transaction before."""

    def __init__(self) -> None:
        self._awaited: dict[str, list[asyncio.Event]] = defaultdict(list)

    @contextmanager
    def awaited(self, transactional_id: str) -> Iterator[asyncio.Event]:
        """An event that is set by each completion from now on.

        It begins before the coordinator is asked: the coordinator's refusal may come later than the completion does.
        """
        event = asyncio.Event()
        self._awaited[transactional_id].append(event)
        try:
            yield event
        finally:
            self._awaited[transactional_id].remove(event)
            if not self._awaited[transactional_id]:
                del self._awaited[transactional_id]

    def completed(self, transactional_id: str) -> None:
        for event in self._awaited.get(transactional_id, ()):
            event.set()
