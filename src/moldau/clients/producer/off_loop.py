"""● Compresses on threads what would hold up the loop.  The codecs and the checksum give the interpreter away while they work.

A hop to a thread and back costs the loop about 0.1 ms.  For 128 KiB gzip takes 0.8 ms at least, zstd 0.2 ms, lz4 and snappy 0.06 ms.  For
10 MB that leave in requests of 1 MiB, the loop's thread took 72 ms with gzip, and 20 ms with threads beside it; 25 and 20 with zstd, but
16 and 20 with lz4.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from moldau.protocol.records.compression import Codec

T = TypeVar("T")

LARGE_BYTES: Final[Mapping[Codec, int]] = {
    Codec.GZIP: 32 * 1024,
    Codec.ZSTD: 128 * 1024,
    Codec.LZ4: 2 * 1024 * 1024,
    Codec.SNAPPY: 2 * 1024 * 1024,
}
"""How many bytes of records, before compression, the loop compresses itself."""


class OffLoop(Protocol):
    """Runs work elsewhere, and returns its result on the loop.  A simulation runs the work itself, after a time by its own clock."""

    @property
    def large_bytes(self) -> Mapping[Codec, int]: ...

    def run(self, work: Callable[[], T]) -> Awaitable[T]: ...


class CompressionThreads:
    """The threads of one producer, which its first large request starts.

    The threads that the loop has anyway would not do: a program may fill them with work that waits for deliveries.
    """

    large_bytes: Mapping[Codec, int] = LARGE_BYTES

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(os.cpu_count(), "moldau-compression")
        try:
            done = asyncio.get_running_loop().run_in_executor(self._executor, work)
        except RuntimeError:  # the interpreter is about to end, or the loop has no threads
            return work()
        return await done

    def close(self) -> None:
        """End the threads, once they have finished what they are at."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
