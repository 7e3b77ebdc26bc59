"""● One listener: accepts connections within limits, looks after those that stand, ends them gracefully.

`ConnectionQuotas` is shared by all listeners of a process.  A connection above a limit is closed at once, and one log line a second at
most says so.

Source: max.connections, max.connections.per.ip (with overrides), max.connection.creation.rate; KIP-402, KIP-612. Differs from Kafka: at
max.connections it leaves new connections waiting in the kernel's queue, where the client sees nothing but silence.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from moldau.net.connection import Connection, ConnectionLimits, Dispatch
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Listening, Network, Receiver, Transport

log: Final = logging.getLogger(__name__)

MAX_SWEEP_INTERVAL_S: Final = 5.0
SWEEPS_PER_IDLE: Final = 10
UNLIMITED: Final = (1 << 31) - 1


@dataclass(slots=True)
class ConnectionQuotas:
    """The numbers of connections that exist and that are allowed."""

    max_connections: int = UNLIMITED
    max_per_ip: int = UNLIMITED
    max_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_per_second: int = UNLIMITED
    count: int = 0
    accepted: int = 0
    """The number of connections that were ever let in."""
    _by_ip: dict[str, int] = field(default_factory=dict)
    _second: int = 0
    _in_second: int = 0

    def take(self, ip: str, now_ms: int) -> str | None:
        """Count a new connection, or return the limit that it would exceed."""
        if now_ms // 1000 != self._second:
            self._second, self._in_second = now_ms // 1000, 0
        of_ip = self._by_ip.get(ip, 0)
        if self.count >= self.max_connections:
            return f"max.connections={self.max_connections}"
        if of_ip >= self.max_per_ip_overrides.get(ip, self.max_per_ip):
            return f"max.connections.per.ip={self.max_per_ip_overrides.get(ip, self.max_per_ip)}"
        if self._in_second >= self.max_per_second:
            return f"max.connection.creation.rate={self.max_per_second}"
        self.count += 1
        self.accepted += 1
        self._by_ip[ip] = of_ip + 1
        self._in_second += 1
        return None

    def give_back(self, ip: str) -> None:
        self.count -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]


class Listener:
    """Makes a `Connection` of every peer that is let in, and hands their requests to `dispatch`."""

    def __init__(
        self,
        network: Network,
        dispatch: Dispatch,
        *,
        name: str = "",
        limits: ConnectionLimits | None = None,
        quotas: ConnectionQuotas | None = None,
        buffers: ReceiveBuffers | None = None,
    ) -> None:
        self.name = name
        self.connections: dict[int, Connection] = {}
        """The connections by a number that is never used twice."""
        self._network = network
        self._dispatch = dispatch
        self._limits = limits or ConnectionLimits()
        self._quotas = quotas or ConnectionQuotas()
        self._buffers = buffers or ReceiveBuffers()
        self._listening: Listening | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._all_closed: asyncio.Future[None] | None = None
        self._refused = 0
        self._told_refused_ms = -1000

    @property
    def port(self) -> int:
        assert self._listening is not None, "not started"
        return self._listening.port

    async def start(self, host: str, port: int, *, backlog: int = 50) -> None:
        """Begin to listen.  Errors: OSError that names the address and the way out."""
        self._listening = await self._network.listen(host, port, self._accept, backlog=backlog)
        self._set_sweep_timer()

    def _accept(self, transport: Transport) -> Receiver | None:
        ip = transport.peer.host
        exceeded = self._quotas.take(ip, _now_ms())
        if exceeded is not None:
            self._tell_refused(ip, exceeded)
            return None
        number = self._quotas.accepted

        def on_closed(_: Connection) -> None:
            self._quotas.give_back(ip)
            del self.connections[number]
            if not self.connections and self._all_closed is not None and not self._all_closed.done():
                self._all_closed.set_result(None)

        connection = Connection(
            transport,
            self._dispatch,
            limits=self._limits,
            buffers=self._buffers,
            listener_name=self.name,
            number=number,
            on_closed=on_closed,
        )
        self.connections[number] = connection
        return connection

    def _tell_refused(self, ip: str, exceeded: str) -> None:
        self._refused += 1
        if _now_ms() - self._told_refused_ms >= 1000:
            log.warning("listener %s: %d connection(s) refused, the last from %s: %s is reached", self.name, self._refused, ip, exceeded)
            self._refused = 0
            self._told_refused_ms = _now_ms()

    def _set_sweep_timer(self) -> None:
        interval_s = min(MAX_SWEEP_INTERVAL_S, self._limits.idle_ms / 1000 / SWEEPS_PER_IDLE)
        self._sweep_timer = asyncio.get_running_loop().call_later(interval_s, self._sweep)

    def _sweep(self) -> None:
        now_ms = _now_ms()
        for connection in list(self.connections.values()):
            reason = connection.overdue(now_ms)
            if reason is not None:
                log.info("connection %s closed: %s", connection.peer, reason)
                connection.abort()
        self._set_sweep_timer()

    def stop_accepting(self) -> None:
        if self._listening is not None:
            self._listening.close()

    def stop_reading(self) -> None:
        """Take no new connections and requests.  Each connection ends once its requests in work are answered."""
        self.stop_accepting()
        for connection in list(self.connections.values()):
            connection.stop()

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Take no new connections and requests.  Replies of requests in work may still leave for `grace_s` seconds."""
        self.stop_reading()
        if self.connections:
            self._all_closed = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(grace_s):
                    await self._all_closed
            except TimeoutError:
                await self._abort_all()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()

    async def _abort_all(self) -> None:
        log.info("listener %s: %d connection(s) cut off, their replies took too long", self.name, len(self.connections))
        for connection in list(self.connections.values()):
            connection.abort()
        await asyncio.sleep(0)  # each connection learns of its end in the loop's next turn


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
