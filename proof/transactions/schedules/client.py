"""● The client of a schedule: it fills its transactions, and lets some of them time out."""

import asyncio
from typing import Final

from moldau.types import TopicPartition
from proof.transactions.schedules.notebook import Attempt
from proof.transactions.schedules.room import DATA
from proof.transactions.schedules.session import Session

INPUT: Final = TopicPartition("orders", 0)
"""The partition whose offsets are committed."""


class Producer(Session):
    """One life of a client that writes made-up values."""

    async def _work(self, attempt: Attempt) -> None:
        partitions = self._choice.sample(DATA, self._choice.randint(1, len(DATA)))
        if self.habits.version == 1 and self._choice.random() < 0.5:
            await self._add(partitions)
        for _ in range(self._choice.randint(1, 3)):
            chosen = self._choice.sample(partitions, self._choice.randint(1, len(partitions)))
            if self.habits.version == 1:
                await self._add([each for each in chosen if each not in self._added])
            await self._send_all(attempt, ((each, self._new_values(attempt)) for each in chosen))
            await self._maybe_pause()
            if self._choice.random() < 0.3:
                offset = attempt.number * 10 + (0 if attempt.offset is None else attempt.offset % 10 + 1)
                await self._commit_offset_of(attempt, INPUT, offset)
                await self._maybe_pause()

    def _new_values(self, attempt: Attempt) -> list[int]:
        return [self._notebook.new_value(attempt) for _ in range(self._choice.randint(1, 2))]

    async def _maybe_pause(self) -> None:
        if self._choice.random() < self.habits.pause_chance:
            self._notebook.count("paused")
            await asyncio.sleep(self.habits.timeout_ms / 1000 + 3 * self._choice.random())
