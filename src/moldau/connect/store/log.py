"""● A log of a worker, for its configurations, states or offsets: its records are replayed, first those that are there, then new ones."""

from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.connect.store.configs import KeyValue

Replay = Callable[[int, bytes | None, bytes | None], None]
"""Offset, key, value."""


class Log(Protocol):
    topic: str

    async def start(self) -> None:
        """Begin to replay."""

    async def read_to_end(self) -> None:
        """Wait until everything that was written by now has been replayed."""

    def post(self, record: KeyValue) -> None:
        """Write a record without waiting for it."""

    async def write(self, records: Sequence[KeyValue]) -> None:
        """Returns when the records are safe, in this order.  Errors: ConnectError, KafkaError."""

    async def close(self) -> None: ...
