"""● Records of many requests in one transaction: `write` returns once all its records are committed.

One transaction is under way at a time, and takes the records that have gathered meanwhile: the more come in, the more it holds.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau import Producer

MOST_WAITING: Final = 5_000
MOST_A_TRANSACTION: Final = 500


class Unavailable(Exception):
    """The records cannot be written now, or it is not known whether they were.  Asking again with the same key is safe."""


class Outgoing(NamedTuple):
    """A record to write.  `partition` None: the key decides, as in Java's producer."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int
    partition: int | None = None


class Place(NamedTuple):
    partition: int
    offset: int


_Waiting = tuple[Sequence[Outgoing], "asyncio.Future[list[Place]]"]


class Writer:
    """`run` has to be running.  An error of the cluster ends it: then nothing is known about the records that were under way."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._is_open = True

    async def write(self, records: Sequence[Outgoing]) -> list[Place]:
        """Write records.  Returns the place of each, once all are committed.  Errors: Unavailable."""
        if not self._is_open:
            raise Unavailable("the shop is losing its connection to the brokers")
        if len(self._waiting) >= MOST_WAITING:
            raise Unavailable(f"{MOST_WAITING} requests are waiting already")
        done: asyncio.Future[list[Place]] = asyncio.get_running_loop().create_future()
        self._waiting.append((records, done))
        self._wake.set()
        return await done

    async def run(self) -> None:
        """Write until cancelled.  Errors: ClientError."""
        under_way: list[_Waiting] = []
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    under_way = [self._waiting.popleft() for _ in range(min(MOST_A_TRANSACTION, len(self._waiting)))]
                    await self._commit(under_way)
        finally:
            self._is_open = False
            for _, done in (*under_way, *self._waiting):
                if not done.done():
                    done.set_exception(Unavailable("the shop lost its connection to the brokers"))
            self._waiting.clear()

    async def _commit(self, batch: Sequence[_Waiting]) -> None:
        async with self._producer.transaction():
            sent = [
                [
                    self._producer.send(
                        record.topic, record.value, key=record.key, partition=record.partition, timestamp_ms=record.timestamp_ms
                    )
                    for record in records
                ]
                for records, _ in batch
            ]
            places = [[await delivery for delivery in deliveries] for deliveries in sent]
        for (_, done), found in zip(batch, places, strict=True):
            if not done.done():
                done.set_result([Place(one.partition, one.offset) for one in found])
