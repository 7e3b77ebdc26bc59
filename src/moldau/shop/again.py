"""● Work that needs the brokers, begun again after a pause whenever they cannot be reached."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from moldau.clients.cluster import Unreachable
from moldau.clients.errors import Fenced
from moldau.errors import KafkaError
from moldau.shop.follow import Positions
from moldau.shop.writer import Unavailable

LOG: Final = logging.getLogger(__name__)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
PASSING: Final = (KafkaError, Unreachable, Unavailable, Positions, OSError, TimeoutError)


async def for_ever(what: str, work: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
    """Do `work` again and again.  Its argument is a function to call once all is well: after that the first pause is short again.

    Errors: Fenced, when another process with this name has begun; all errors of `work` that are no trouble of the cluster's.
    """
    pause_s = FIRST_PAUSE_S

    def well() -> None:
        nonlocal pause_s
        pause_s = FIRST_PAUSE_S

    while True:
        try:
            await work(well)
        except Fenced:
            raise
        except PASSING as error:
            LOG.warning("%s: %s; it goes on in %.1f s", what, str(error) or type(error).__name__, pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
