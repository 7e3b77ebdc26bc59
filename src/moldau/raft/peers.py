"""● The connections of a replica of the metadata log to the others: a request goes out, its response or None comes back by a callback.

Two connections to an address: fetches wait at the leader until there is something to say, and a vote must not wait behind one.  A
connection is made when it is needed and thrown away when it breaks; who tries again, and when, is `machine/node.py`'s.  Called by
`driver.py`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from moldau.background import in_background
from moldau.errors import KafkaError
from moldau.net.channel import Channel
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Network
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from moldau.protocol.wire import EncodeError, Request, Response
from moldau.raft.voters import HostPort

MAX_CHANNELS: Final = 64
"""The most connections.  Addresses change: the least recently used channel is closed."""


class Peers:
    """See the module.  `send` at any time, `close` once."""

    def __init__(self, network: Network, *, client_id: str, timeout_ms: int) -> None:
        self._network: Final = network
        self._client_id: Final = client_id
        self._timeout_s: Final = timeout_ms / 1000
        self._buffers: Final = ReceiveBuffers()
        self._channels: dict[tuple[HostPort, bool], asyncio.Task[Channel]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, at: HostPort, request: Request[Any], then: Callable[[Response | None, bool], None]) -> None:
        """Send a request.  `then` gets the response, or None and whether no process listened at the address."""
        task = in_background(self._exchange(at, request, then), name=f"raft to {at.host}:{at.port}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, at: HostPort, request: Request[Any], then: Callable[[Response | None, bool], None]) -> None:
        key = at, isinstance(request, FetchRequest | FetchSnapshotRequest)
        response: Response | None = None
        is_refused = False
        try:
            channel = await asyncio.shield(self._channel(key))
            response = await channel.send(request, timeout_s=self._timeout_s)
        except (OSError, KafkaError, EncodeError) as error:
            is_refused = isinstance(error, ConnectionRefusedError)
            self._drop(key)
        then(response, is_refused)

    def _channel(self, key: tuple[HostPort, bool]) -> asyncio.Task[Channel]:
        task = self._channels.pop(key, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None or task.result().is_closed)):
            if len(self._channels) >= MAX_CHANNELS:
                self._drop(next(iter(self._channels)))
            connecting = Channel.connect(
                self._network, *key[0], client_id=self._client_id, timeout_s=self._timeout_s, buffers=self._buffers
            )
            task = asyncio.get_running_loop().create_task(connecting, name="raft connects")
        self._channels[key] = task
        return task

    def _drop(self, key: tuple[HostPort, bool]) -> None:
        task = self._channels.pop(key, None)
        if task is None:
            return
        if not task.done():
            task.cancel()
        elif not task.cancelled() and task.exception() is None:
            task.result().abort()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        connecting = list(self._channels.values())
        for key in list(self._channels):
            self._drop(key)
        await asyncio.gather(*tasks, *connecting, return_exceptions=True)
