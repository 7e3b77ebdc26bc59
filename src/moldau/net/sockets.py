"""● The operating system's network: it listens and connects on the running asyncio loop.  Each connection is a `SocketTransport`.

Connections within this machine are not paced.  Where BBR is the system's congestion control, the kernel sets a timer for nearly every
segment; on loopback, where nothing is congested, ten consumers get a fifth more without it.

The send buffer has a fixed size, which bounds the kernel's memory for a peer that does not read.  Consumers on this machine get as much
with it as with the kernel's own size, which grows to megabytes.  Only paced connections lost half by it.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

from moldau.net.socket_transport import SocketTransport
from moldau.net.transport import Accept, Address, Receiver

log: Final = logging.getLogger(__name__)

SEND_BUFFER_BYTES: Final = 1024 * 1024
"""Smaller buffers cost more turns of the loop per reply, larger ones bring no gain.  The system may allow less (net.core.wmem_max)."""
ACCEPTS_PER_TURN: Final = 64
LEAST_BACKLOG: Final = 1024
"""The shortest queue of new connections.

Connections are accepted between turns of the loop, and a hundred can come in one turn.  When the kernel turns a client away, the client's
kernel tries again after 1, 2, 4, 8, 16 seconds.
"""
ACCEPT_PAUSE_S: Final = 0.5
PACING: Final = b"bbr"
WITHOUT_PACING: Final = b"reno"
"""A congestion control that is part of every kernel, and allowed to every process unless an administrator forbade it."""
CONGESTION_NAME_BYTES: Final = 16
OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class SocketListening:
    """A listening socket."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listening: socket.socket, accept: Accept, options: "SystemNetwork", *, paces_others: bool
    ) -> None:
        self.port: int = listening.getsockname()[1]
        self._loop = loop
        self._socket = listening
        self._accept = accept
        self._options = options
        self._pause: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._is_full = False
        self._paces_others = paces_others
        self._listen()

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._on_readable)

    def _on_readable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._on_error(error)
                return
            if accepted.fileno() >= self._options.spared_descriptors:
                accepted.close()
                self._on_error(OSError(errno.EMFILE, "too many files are open, and the last descriptors are for logs"))
                return
            self._is_full = False
            self._options.set_up(accepted)
            if self._paces_others and not _is_of_this_machine(accepted, address[0]):
                with contextlib.suppress(OSError):
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, PACING)
            transport = SocketTransport(self._loop, accepted, Address(address[0].removeprefix("::ffff:"), address[1]))
            receiver = self._accept(transport)
            if receiver is None:
                transport.abort()
            else:
                transport.start(receiver)

    def _on_error(self, error: OSError) -> None:
        """Log that the process is out of descriptors or memory.  Open connections go on; new ones wait a little."""
        if error.errno not in OUT_OF_RESOURCES:
            log.warning("port %d: a connection could not be accepted: %s", self.port, error)
            return
        if not self._is_full:
            self._is_full = True
            log.error("port %d: no more connections are accepted for now: %s (raise the limit: ulimit -n)", self.port, error.strerror)
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(ACCEPT_PAUSE_S, self._listen)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._loop.remove_reader(self._socket)
        self._socket.close()


class SystemNetwork:
    """The operating system's network.

    Buffer sizes are in bytes.  None leaves them to the kernel, which is best for receiving, and for sending over long distances.
    Descriptors from `spared_descriptors` on are not for connections.
    """

    def __init__(
        self,
        *,
        send_buffer_bytes: int | None = SEND_BUFFER_BYTES,
        receive_buffer_bytes: int | None = None,
        spared_descriptors: int = sys.maxsize,
    ) -> None:
        self.spared_descriptors: Final = spared_descriptors
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes

    def set_up(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._send_buffer_bytes is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        if self._receive_buffer_bytes is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)

    async def listen(self, host: str, port: int, accept: Accept, *, backlog: int = 50) -> SocketListening:
        loop = asyncio.get_running_loop()
        try:
            listening = await self._bind(loop, host, port)
        except OSError as error:
            raise OSError(error.errno, _why_not_listening(host, port, error)) from error
        if self._receive_buffer_bytes is not None:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        paces_others = _stop_pacing(listening)
        listening.listen(max(backlog, LEAST_BACKLOG))
        return SocketListening(loop, listening, accept, self, paces_others=paces_others)

    async def _bind(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
        if not host:
            with contextlib.suppress(OSError):
                return _bound(socket.AF_INET6, ("::", port), is_dual_stack=True)
            return _bound(socket.AF_INET, ("0.0.0.0", port))
        found = await _addresses(loop, host, port, flags=socket.AI_PASSIVE)
        # Names like localhost stand for addresses of both families: clients try the older one, too.
        family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        return _bound(family, address)

    async def connect(self, host: str, port: int, receiver: Receiver) -> SocketTransport:
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        for family, _, _, _, address in await _addresses(loop, host, port):
            connecting = socket.socket(family, socket.SOCK_STREAM)
            try:
                self.set_up(connecting)
                await loop.sock_connect(connecting, address)
            except OSError as error:
                connecting.close()
                # Of several addresses, one that refuses tells most: the machine is there, but no process listens.
                failure = error if failure is None or isinstance(error, ConnectionRefusedError) else failure
                continue
            except BaseException:
                connecting.close()
                raise
            transport = SocketTransport(loop, connecting, Address(host, port))
            transport.start(receiver)
            return transport
        reason = failure.strerror if failure is not None else "the name has no address"
        number = failure.errno if failure is not None else errno.EHOSTUNREACH
        raise OSError(
            number, f"cannot connect to {Address(host, port)}: {reason}"
        ) from failure  # OSError with this number is a ConnectionRefusedError


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int, *, flags: int = 0) -> Sequence[tuple[int, int, int, str, Any]]:
    """The addresses of a host.  Errors: OSError."""
    try:
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError:  # an empty label, or one of more than 63 letters
        raise socket.gaierror(socket.EAI_NONAME, "the host's name is not valid") from None


def _stop_pacing(listening: socket.socket) -> bool:
    """Turn pacing off for all accepted connections.  Returns whether it did; connections from elsewhere then need it back.

    A connection that was paced once stays paced under any other congestion control (sk_pacing_status), so this comes before it exists.
    """
    if sys.platform != "linux":
        return False
    try:
        if listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_NAME_BYTES).rstrip(b"\0") != PACING:
            return False
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, WITHOUT_PACING)
    except OSError:
        return False
    return True


def _is_of_this_machine(accepted: socket.socket, peer: str) -> bool:
    own: str = accepted.getsockname()[0]
    return peer == own


def _bound(family: int, address: tuple[object, ...], *, is_dual_stack: bool = False) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_dual_stack:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
    except BaseException:
        listening.close()
        raise
    return listening


def _why_not_listening(host: str, port: int, error: OSError) -> str:
    address = Address(host or "*", port)
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {address}: another process does; stop it or choose another port"
    if error.errno == errno.EACCES:
        return f"cannot listen on {address}: ports below 1024 need special rights; choose a higher one"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {address}: this machine does not have that address"
    if isinstance(error, socket.gaierror):
        return f"cannot listen on {address}: the name is not known"
    return f"cannot listen on {address}: {error.strerror or error}"
