"""● Reads the remote part of a share fetch (KIP-405) beside the loop.  A waiting fetch is woken when it has come.  A fetch whose time is
over is answered without it, and the next one finds it in the cache. Called by `handlers/share_fetch.py`.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from moldau.errors import ErrorCode
from moldau.replication.partition import Partition
from moldau.server.tier.manager import RemoteLogManager
from moldau.storage.log import FetchData
from moldau.storage.tiered.reader import RemoteData
from moldau.types import FileSlice

NO_DESCRIPTOR: Final = "bytes from remote storage have no descriptor: they are in memory"


class RemoteBytes:
    """Remote bytes in the form of the file that they were once in."""

    def __init__(self, data: memoryview) -> None:
        self._data: Final = data

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self._data[position : position + size])

    def fileno(self) -> int:
        raise OSError(NO_DESCRIPTOR)


class RemoteReads:
    """The remote part of one request."""

    def __init__(self, manager: RemoteLogManager, on_read: Callable[[], None]) -> None:
        self._manager: Final = manager
        self._on_read: Callable[[], None] | None = on_read
        self._tasks: dict[tuple[Partition, int], asyncio.Task[RemoteData | ErrorCode]] = {}

    @property
    def max_wait_ms(self) -> int:
        return self._manager.fetch_max_wait_ms

    @property
    def is_waiting(self) -> bool:
        return any(not task.done() for task in self._tasks.values())

    def take(self, partition: Partition, offset: int, max_bytes: int, *, with_aborted: bool) -> FetchData | ErrorCode | None:
        """The bytes that have come; None: they are on their way."""
        task = self._tasks.get((partition, offset))
        if task is None:
            reading = self._manager.read(partition, offset, max_bytes, min_one_batch=True, with_aborted=with_aborted)
            task = self._tasks[partition, offset] = asyncio.get_running_loop().create_task(reading)
            task.add_done_callback(self._read)
            return None
        if not task.done() or task.cancelled():
            return None
        data = task.result()
        if isinstance(data, ErrorCode):
            return data
        size = len(data.records)
        records = FileSlice(RemoteBytes(data.records), 0, size) if size else None
        return FetchData(records, offset, 0, data.aborted)

    def _read(self, _: object) -> None:
        if self._on_read is not None:
            self._on_read()

    def cancel(self) -> None:
        """Stop waiting.  The object store's answers still go into the cache."""
        self._on_read = None
        for task in self._tasks.values():
            task.cancel()
