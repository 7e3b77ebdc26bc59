"""● A node as a process of the operating system: real files, network, clock and random numbers.

SIGTERM, SIGINT and SIGHUP stop it cleanly.

The objects of a started node live as long as it runs, so the garbage collector leaves them out: scanning them again and again stopped
everything for 20 ms each time, and took a quarter of the time of small requests.

Called by `moldau serve` and `moldau up`.
"""

import asyncio
import gc
import logging
import random
import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.clock import SystemClock
from moldau.net.sockets import SystemNetwork
from moldau.server.node.config import NodeConfig
from moldau.server.node.node import Node
from moldau.server.node.outside import Outside
from moldau.server.node.signals import on_stop_signals
from moldau.storage.files import SystemFiles

LOG: Final = logging.getLogger(__name__)

YOUNG_OBJECTS: Final = 20_000
"""The number of new objects after which the collector scans them: more than the requests of one turn of the loop make and drop."""
MOST_DESCRIPTORS: Final = 1 << 20
MOST_SPARED_DESCRIPTORS: Final = 1_024


async def run(config: NodeConfig, on_ready: Callable[[Node], None] = lambda _: None, on_progress: Callable[[str], None] = LOG.info) -> int:
    """Run a node until a signal, or until it cannot go on.  Returns the exit code, 1 if it could not go on or its stop was no clean one.

    Errors: StartRefused, and those of damaged folders.

    `on_progress` gets a line at intervals while the start takes long.
    """
    gc.set_threshold(YOUNG_OBJECTS)
    stop = asyncio.Event()
    on_stop_signals(stop.set)
    descriptors = _allow_descriptors()
    files = SystemFiles(spared_descriptors=descriptors.for_logs, last_descriptors=descriptors.for_segments)
    network = _network(config, descriptors.for_connections)
    outside = Outside(files=files, network=network, clock=SystemClock(), random=random.SystemRandom(), tell=on_progress)
    starting = asyncio.ensure_future(Node.start(config, outside))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    node = await starting
    gc.collect()
    gc.freeze()
    on_ready(node)
    await asyncio.wait((stopping, node.failed), return_when=asyncio.FIRST_COMPLETED)
    if node.failed.done():
        LOG.error("the node cannot go on: %s", node.failed.result())
    stopping.cancel()
    await node.stop()
    return 1 if node.failed.done() else 0


class Descriptors(NamedTuple):
    """The first descriptors that are reserved: not for new logs, not for connections, or not for the next segments of logs in use.

    The reserved descriptors keep the logs in use going, which would otherwise fail as if the disk had failed: checkpoints, directories,
    syncs.  Some are kept for connections when logs have taken all of theirs.
    """

    for_logs: int
    for_connections: int
    for_segments: int


def _allow_descriptors() -> Descriptors:
    """Raise the limit of descriptors as far as this user may: shells and service managers start programs with 1,024, for select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (MOST_DESCRIPTORS, 10_240) if hard == resource.RLIM_INFINITY else (hard,):
        with suppress(ValueError, OSError):  # macOS allows less than it reports
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
            break
    spared = min(soft // 8, MOST_SPARED_DESCRIPTORS)
    return Descriptors(for_logs=soft - 2 * spared, for_connections=soft - spared, for_segments=soft - spared // 2)


def _network(config: NodeConfig, spared_descriptors: int) -> SystemNetwork:
    """The network, with the buffer sizes of the properties.  Our defaults are better than those of the options, which are Kafka's."""
    server = config.server
    given: dict[str, int | None] = {}
    if "socket.send.buffer.bytes" in config.properties:
        given["send_buffer_bytes"] = server.socket_send_buffer_bytes if server.socket_send_buffer_bytes > 0 else None
    if "socket.receive.buffer.bytes" in config.properties:
        given["receive_buffer_bytes"] = server.socket_receive_buffer_bytes if server.socket_receive_buffer_bytes > 0 else None
    return SystemNetwork(**given, spared_descriptors=spared_descriptors)
