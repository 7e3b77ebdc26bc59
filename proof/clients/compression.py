"""● Compresses in a simulation: on the loop, after a time of the simulation's own, as threads would take it.

Small requests, which are not large enough for it, could overtake larger ones.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, TypeVar

from moldau.protocol.records.compression import Codec

T = TypeVar("T")

SECONDS: Final = (0.0, 0.0, 0.001, 0.05, 1.0)


class SlowCompression:
    """See the module.  `large`: more bytes are compressed here."""

    def __init__(self, choice: random.Random, *, large: int = 300) -> None:
        self.large_bytes: Final = dict.fromkeys(Codec, large)
        self.count = 0
        self._choice = choice

    async def run(self, work: Callable[[], T]) -> T:
        self.count += 1
        await asyncio.sleep(self._choice.choice(SECONDS))
        return work()
