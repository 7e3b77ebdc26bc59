"""● The listeners of a node, one for each endpoint: open before the node serves, and what comes meanwhile waits.

Called by `node.py`.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from moldau.net.connection import Connection, ConnectionLimits, Dispatch, Reply, ReplyOrLater
from moldau.net.framing import ReceiveBuffers
from moldau.net.later import Later
from moldau.net.listener import ConnectionQuotas, Listener
from moldau.net.transport import Network
from moldau.server.config import ServerConfig
from moldau.server.coordinator_topic import answered
from moldau.server.endpoints import Endpoint
from moldau.server.folders import StartRefused
from moldau.types import Part

GRACE_S: Final = 5.0
"""How long replies of requests in work may take to leave when the node stops."""


class Listeners:
    """`open`, then `serve`; at the end `stop_reading` and `close`."""

    def __init__(self, network: Network, options: ServerConfig) -> None:
        self._network: Final = network
        self._options: Final = options
        self._quotas: Final = ConnectionQuotas()
        self._listeners: dict[str, Listener] = {}
        self._dispatch: Mapping[str, Dispatch] = {}
        self._is_serving = asyncio.Event()
        self._is_anyone_waiting = True

    async def open(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Errors: StartRefused."""
        options = self._options
        self.take_options(options)
        limits = ConnectionLimits(
            max_request_bytes=options.socket_request_max_bytes,
            max_in_flight=options.queued_max_requests,
            idle_ms=options.connections_max_idle_ms,
        )
        buffers = ReceiveBuffers()
        for endpoint in endpoints:
            listener = Listener(self._network, self.dispatch, name=endpoint.name, limits=limits, quotas=self._quotas, buffers=buffers)
            try:
                await listener.start(endpoint.host, endpoint.port, backlog=options.socket_listen_backlog_size)
            except OSError as error:
                raise StartRefused(f"listeners={endpoint}: {error.strerror or error}") from error
            self._listeners[endpoint.name] = listener

    def take_options(self, options: ServerConfig) -> None:
        """How many connections there may be can be set while the broker runs: those that there are stay."""
        self._quotas.max_connections = options.max_connections
        self._quotas.max_per_ip = options.max_connections_per_ip
        self._quotas.max_per_ip_overrides = options.per_ip_overrides
        self._quotas.max_per_second = options.max_connection_creation_rate

    @property
    def ports(self) -> dict[str, int]:
        """That are really open, by listener name."""
        return {name: listener.port for name, listener in self._listeners.items()}

    def serve(self, dispatch: Mapping[str, Dispatch]) -> None:
        """What has waited first, then all that comes.  By listener name."""
        self._dispatch = dispatch
        self._is_serving.set()
        asyncio.get_running_loop().call_soon(self._nobody_waits)

    def _nobody_waits(self) -> None:
        self._is_anyone_waiting = False

    def dispatch(self, connection: Connection, frame: memoryview) -> ReplyOrLater:
        if not self._is_anyone_waiting:
            return self._dispatch[connection.listener_name](connection, frame)
        return self._dispatch_later(connection, frame)

    async def _dispatch_later(self, connection: Connection, frame: memoryview) -> Reply:
        await self._is_serving.wait()
        reply = self._dispatch[connection.listener_name](connection, frame)
        if reply is None or isinstance(reply, list):
            return reply
        if isinstance(reply, Later):
            parts: list[Part] = await answered(reply)
            return parts
        return await reply

    def stop_reading(self) -> None:
        """No more requests; those in work go on."""
        for listener in self._listeners.values():
            listener.stop_reading()

    async def close(self) -> None:
        for listener in self._listeners.values():
            await listener.stop(grace_s=GRACE_S)
