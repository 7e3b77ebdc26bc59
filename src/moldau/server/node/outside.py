"""● The arguments of a node: files, network, clock, random numbers, and a place for its messages.

Every part of a node takes them from here, so the same node runs on real sockets and disks and on a simulated loop.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from moldau.clock import Clock
from moldau.errors import KafkaError
from moldau.net.transport import Network
from moldau.server.node.folders import StartRefused
from moldau.storage.files import Files
from moldau.types import usable_uuid

LOG = logging.getLogger(__name__)


def _new_future() -> "asyncio.Future[Exception]":
    return asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """See the module.  Made on the loop on which the node runs."""

    files: Files
    network: Network
    clock: Clock
    random: Random
    tell: Callable[[str], None] = LOG.info
    """Gets a line at intervals while the start takes long."""
    failed: "asyncio.Future[Exception]" = field(default_factory=_new_future)
    """A future that is done when the node cannot go on, because a disk that it needs is gone; or when its stop was no clean one."""

    def new_uuid(self) -> UUID:
        return usable_uuid(lambda: UUID(int=self.random.getrandbits(128), version=4))

    def fail(self, error: Exception) -> None:
        if not self.failed.done():
            if not isinstance(error, OSError | KafkaError):
                LOG.error("a mistake of ours", exc_info=error)
            self.failed.set_result(error)

    async def unless_failed(self, work: Coroutine[None, None, object]) -> None:
        """Wait for `work`, but stop when the disk of the metadata breaks, or when this node is unable to follow the metadata.

        Errors: StartRefused, and those of `work`.
        """
        task = asyncio.get_running_loop().create_task(work)

        def give_up(_: object) -> None:
            task.cancel()

        self.failed.add_done_callback(give_up)
        try:
            await task
        except asyncio.CancelledError:
            if self.failed.done():
                raise StartRefused(f"the metadata cannot be followed: {self.failed.result()}") from None
            raise
        finally:
            self.failed.remove_done_callback(give_up)
