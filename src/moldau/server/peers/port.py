"""● A connection to a broker's port, made only to see whether it can be made: a refusal tells that no process listens there.

Called by `broker_watch.py` and `listed_brokers.py`.
"""

import asyncio
from enum import Enum, auto
from typing import Final

from moldau.net.transport import Network

PATIENCE_S: Final = 1.0
"""The seconds after which a port that neither takes nor refuses a connection counts as silent."""


class Answer(Enum):
    REFUSED = auto()
    TAKEN = auto()
    """Perhaps by a process that is ending: its connections go before its port."""
    NONE = auto()
    """The machine may be gone, or the line to it."""


class _Nobody:
    """The receiver of such a connection."""

    def get_buffer(self) -> memoryview:
        return memoryview(bytearray(64))

    def received(self, count: int) -> None:
        pass

    def writable(self) -> None:
        pass

    def closed(self, error: Exception | None) -> None:
        pass


async def knock(network: Network, host: str, port: int) -> Answer:
    try:
        async with asyncio.timeout(PATIENCE_S):
            transport = await network.connect(host, port, _Nobody())
    except ConnectionRefusedError:
        return Answer.REFUSED
    except ConnectionResetError:
        return Answer.TAKEN
    except (OSError, TimeoutError):
        return Answer.NONE
    transport.abort()
    return Answer.TAKEN
