"""● The listeners of a node, one for each endpoint: open before the node serves; early requests wait.

Called by `server/node`.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moldau.net.connection import Connection, ConnectionLimits, Dispatch, Reply, ReplyOrLater
from moldau.net.framing import ReceiveBuffers
from moldau.net.later import Later
from moldau.net.listener import ConnectionQuotas, Listener
from moldau.net.transport import Network
from moldau.server.coordinators.topic import answered
from moldau.server.node.folders import StartRefused
from moldau.server.node.options import ServerConfig
from moldau.server.requests.endpoints import Endpoint
from moldau.types import Part

GRACE_S: Final = 5.0
"""How many seconds replies of requests in work may take to leave when the node stops."""


class Gate:
    """The gate of one listener: requests wait until the node serves."""

    def __init__(self) -> None:
        self._dispatch: Dispatch
        self._is_serving: Final = asyncio.Event()
        self._is_anyone_waiting = True

    def serve(self, dispatch: Dispatch) -> None:
        """Serve the waiting requests first, then all others."""
        self._dispatch = dispatch
        self._is_serving.set()
        asyncio.get_running_loop().call_soon(self._nobody_waits)

    def _nobody_waits(self) -> None:
        self._is_anyone_waiting = False

    def dispatch(self, connection: Connection, frame: memoryview) -> ReplyOrLater:
        return self._dispatch_later(connection, frame) if self._is_anyone_waiting else self._dispatch(connection, frame)

    async def _dispatch_later(self, connection: Connection, frame: memoryview) -> Reply:
        await self._is_serving.wait()
        reply = self._dispatch(connection, frame)
        if reply is None or isinstance(reply, list):
            return reply
        if isinstance(reply, Later):
            parts: list[Part] = await answered(reply)
            return parts
        return await reply


class _Open(NamedTuple):
    listener: Listener
    gate: Gate


class Listeners:
    """`open`, then `serve`; at the end `stop_reading` and `close`."""

    def __init__(self, network: Network, options: ServerConfig) -> None:
        self._network: Final = network
        self._options: Final = options
        self._quotas: Final = ConnectionQuotas()
        self._open: Final[dict[str, _Open]] = {}

    async def open(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Open listeners.  Errors: StartRefused."""
        options = self._options
        self.take_options(options)
        limits = ConnectionLimits(
            max_request_bytes=options.socket_request_max_bytes,
            max_in_flight=options.queued_max_requests,
            idle_ms=options.connections_max_idle_ms,
        )
        buffers = ReceiveBuffers()
        for endpoint in endpoints:
            gate = Gate()
            listener = Listener(self._network, gate.dispatch, name=endpoint.name, limits=limits, quotas=self._quotas, buffers=buffers)
            try:
                await listener.start(endpoint.host, endpoint.port, backlog=options.socket_listen_backlog_size)
            except OSError as error:
                raise StartRefused(f"listeners={endpoint}: {error.strerror or error}") from error
            self._open[endpoint.name] = _Open(listener, gate)

    def take_options(self, options: ServerConfig) -> None:
        """Take limits of connections that were set while the broker runs.  Open connections stay."""
        self._quotas.max_connections = options.max_connections
        self._quotas.max_per_ip = options.max_connections_per_ip
        self._quotas.max_per_ip_overrides = options.per_ip_overrides
        self._quotas.max_per_second = options.max_connection_creation_rate

    @property
    def ports(self) -> dict[str, int]:
        """The opened ports by listener name."""
        return {name: each.listener.port for name, each in self._open.items()}

    def serve(self, dispatch: Mapping[str, Dispatch]) -> None:
        """Let these listeners, by name, answer from now on."""
        for name, answer in dispatch.items():
            self._open[name].gate.serve(answer)

    def stop_reading(self, names: Iterable[str]) -> None:
        """Take no more requests on these listeners; those in work go on."""
        for name in names:
            self._open[name].listener.stop_reading()

    async def close(self, names: Iterable[str] | None = None) -> None:
        """Close these listeners; without names, all that are open."""
        for name in list(self._open) if names is None else names:
            closed = self._open.pop(name, None)
            if closed is not None:
                await closed.listener.stop(grace_s=GRACE_S)
