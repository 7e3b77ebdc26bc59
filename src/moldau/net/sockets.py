"""● The operating system's network: plain non-blocking sockets on the running asyncio loop.

Bytes are received into the receiver's own buffer; memory leaves by `sendmsg`, slices of files by `sendfile`, without entering Python, and
by `pread` where a file has no descriptor.  Whatever was written in one turn leaves in as few calls as the socket's buffer allows.

While slices of files leave, the socket is corked: headers share a segment with their records, and where one turn or one slice ends
the next goes on in the same segment.  On loopback, where a segment is 64 KiB, the ends alone were a fifth of all segments.

The send buffer has a fixed size.  Left to itself the kernel lets it grow to megabytes, and what is sent has then left the processor's cache
before the peer reads it: a consumer on the same machine gets about half the bytes a second, for half as much CPU time again, at both ends.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Sequence
from typing import Final

from moldau.net.transport import Accept, Address, Receiver
from moldau.types import FileSlice, Part

log: Final = logging.getLogger(__name__)

READS_PER_TURN: Final = 4
MAX_BYTES_PER_TURN: Final = 256 * 1024
"""One connection yields to the others after so many bytes.

A reader on the processor that sends empties its socket while it is filled: without a limit it keeps the sender to itself for its whole
reply, and readers on the other processors have nothing to do.
"""
MAX_PARTS_PER_CALL: Final = 64
COPY_BYTES: Final = 256 * 1024
"""Read at a time from a file without descriptor."""
SEND_BUFFER_BYTES: Final = 256 * 1024
"""Smaller ones cost more turns of the loop a reply; from about 384 KiB on a core of 1 MiB of cache misses it, for twice the CPU time."""
LINGER_S: Final = 1.0
LEFTOVER_BYTES: Final = 64 * 1024
ACCEPTS_PER_TURN: Final = 64
LEAST_BACKLOG: Final = 1024
"""Connections are accepted between turns of the loop, and a hundred can come in one.  Whom the kernel turns away its client's kernel sends
again after 1, 2, 4, 8, 16 seconds."""
ACCEPT_PAUSE_S: Final = 0.5
OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class SocketTransport:
    """One connection on a socket."""

    __slots__ = (
        "_buffered",
        "_closed",
        "_closing",
        "_is_corked",
        "_is_reading",
        "_is_waiting",
        "_linger_timer",
        "_loop",
        "_queue",
        "_receiver",
        "_socket",
        "peer",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, connected: socket.socket, peer: Address) -> None:
        self.peer = peer
        self._loop = loop
        self._socket = connected
        self._receiver: Receiver | None = None
        self._queue: deque[Part] = deque()
        self._buffered = 0
        self._is_corked = False
        self._is_reading = False
        self._is_waiting = False
        self._closing = False
        self._closed = False
        self._linger_timer: asyncio.TimerHandle | None = None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume_reading()

    @property
    def buffered(self) -> int:
        return self._buffered

    # receiving

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        if not self._is_reading and not self._closing and not self._closed:
            self._is_reading = True
            self._loop.add_reader(self._socket, self._on_readable)

    def _on_readable(self) -> None:  # hot: 3 us a call
        receiver = self._receiver
        assert receiver is not None
        for _ in range(READS_PER_TURN):
            buffer = receiver.get_buffer()
            try:
                count = self._socket.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._end(error)
                return
            if not count:
                self._end(None)
                return
            receiver.received(count)
            # Even if the socket was emptied: a client with several requests in flight has often sent the next one by now, and asking
            # costs a fifth of a turn of the loop.
            if not self._is_reading:
                return

    # sending

    def write(self, parts: Sequence[Part]) -> None:
        if self._closing or self._closed:
            return
        if not self._queue and len(parts) == 1 and type(parts[0]) is not FileSlice:
            part = parts[0]
            try:
                sent = self._socket.send(part)  # type: ignore[arg-type]  # mypy does not narrow on `type() is not`
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._end_soon(error)
                return
            if sent == len(part):
                return
            self._queue.append(memoryview(part)[sent:])  # type: ignore[arg-type]
            self._buffered += len(part) - sent
            self._wait()
            return
        is_idle = not self._queue
        for part in parts:
            size = len(part)
            if size:
                self._queue.append(part)
                self._buffered += size
                if not self._is_corked and isinstance(part, FileSlice):
                    self._cork(True)
        if is_idle and self._queue:
            self._send_queued()

    def _send_queued(self) -> None:
        """Until all has left or the socket is full."""
        left = MAX_BYTES_PER_TURN
        try:
            while self._queue and left > 0:
                head = self._queue[0]
                sent, is_full = self._send_slice(head, left) if isinstance(head, FileSlice) else self._send_memory()
                self._buffered -= sent
                left -= sent
                if is_full:
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._end_soon(error)
            return
        if self._queue:
            self._wait()
        elif self._is_corked:
            self._cork(False)

    def _cork(self, is_corked: bool) -> None:
        """Keep the last segment back until it is full, or let it go."""
        self._is_corked = is_corked
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, is_corked)

    def _send_memory(self) -> tuple[int, bool]:
        """All memory up to the next slice in one call: (bytes sent, the socket is full)."""
        batch: list[bytes | bytearray | memoryview] = []
        wanted = 0
        for part in self._queue:
            if isinstance(part, FileSlice) or len(batch) == MAX_PARTS_PER_CALL:
                break
            batch.append(part)
            wanted += len(part)
        sent = self._socket.sendmsg(batch) if len(batch) > 1 else self._socket.send(batch[0])
        done = sent
        for part in batch:
            if done < len(part):
                break
            done -= len(part)
            self._queue.popleft()
        else:
            return sent, False
        if done:
            self._queue[0] = memoryview(part)[done:]
        return sent, sent < wanted

    def _send_slice(self, head: FileSlice, limit: int) -> tuple[int, bool]:
        try:
            descriptor = head.file.fileno()
        except OSError:
            return self._send_copy(head)
        wanted = min(head.size, limit)
        sent = os.sendfile(self._socket.fileno(), descriptor, head.position, wanted)
        if sent == head.size:
            self._queue.popleft()
            return sent, False
        if sent == 0:
            raise OSError(errno.EIO, f"{head!r} ends before its size")
        self._queue[0] = FileSlice(head.file, head.position + sent, head.size - sent)
        return sent, sent < wanted

    def _send_copy(self, head: FileSlice) -> tuple[int, bool]:
        size = min(head.size, COPY_BYTES)
        data = head.file.pread(size, head.position)
        if len(data) < size:
            raise OSError(errno.EIO, f"{head!r} ends before its size")
        sent = self._socket.send(data)
        if sent == head.size:
            self._queue.popleft()
        else:
            self._queue[0] = FileSlice(head.file, head.position + sent, head.size - sent)
        return sent, sent < size

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(self._socket, self._on_writable)

    def _on_writable(self) -> None:
        self._send_queued()
        if self._queue or self._closed:
            return
        self._is_waiting = False
        self._loop.remove_writer(self._socket)
        if self._closing:
            self._linger()
        elif self._receiver is not None:
            self._receiver.writable()

    # ending

    def close(self) -> None:
        if self._closing or self._closed:
            return
        self.pause_reading()
        self._closing = True
        if not self._queue:
            self._linger()

    def _linger(self) -> None:
        """Until the peer closes, too.  It may have sent what nobody reads here: a socket closed on that is reset, and what was on its way
        to the peer is lost."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._end_soon(None)
            return
        self._is_reading = True
        self._loop.add_reader(self._socket, self._on_leftover)
        self._linger_timer = self._loop.call_later(LINGER_S, self._end, None)

    def _on_leftover(self) -> None:
        try:
            leftover = self._socket.recv(LEFTOVER_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            leftover = b""
        if not leftover:
            self._end(None)

    def abort(self) -> None:
        self._queue.clear()
        self._end_soon(None)

    def _end_soon(self, error: Exception | None) -> None:
        """From within a call of the receiver's: it hears of it in the next turn."""
        if not self._closed:
            self._release()
            self._loop.call_soon(self._tell, error)

    def _end(self, error: Exception | None) -> None:
        if not self._closed:
            self._release()
            self._tell(error)

    def _release(self) -> None:
        self._closed = True
        self.pause_reading()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._socket)
        self._queue.clear()
        self._buffered = 0
        self._socket.close()

    def _tell(self, error: Exception | None) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.closed(error)


class SocketListening:
    """A listening socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listening: socket.socket, accept: Accept, options: "SystemNetwork") -> None:
        self.port: int = listening.getsockname()[1]
        self._loop = loop
        self._socket = listening
        self._accept = accept
        self._options = options
        self._pause: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._is_full = False
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
            transport = SocketTransport(self._loop, accepted, Address(address[0].removeprefix("::ffff:"), address[1]))
            receiver = self._accept(transport)
            if receiver is None:
                transport.abort()
            else:
                transport.start(receiver)

    def _on_error(self, error: OSError) -> None:
        """Out of descriptors or memory: those who are connected go on, the others wait a little."""
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
    """Buffer sizes in bytes; None leaves them to the kernel, which is best for receiving, and for sending over long distances.

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
        listening.listen(max(backlog, LEAST_BACKLOG))
        return SocketListening(loop, listening, accept, self)

    async def _bind(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
        if not host:
            with contextlib.suppress(OSError):
                return _bound(socket.AF_INET6, ("::", port), is_dual_stack=True)
            return _bound(socket.AF_INET, ("0.0.0.0", port))
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # Names like localhost stand for addresses of both families: clients try the older one, too.
        family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        return _bound(family, address)

    async def connect(self, host: str, port: int, receiver: Receiver) -> SocketTransport:
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        for family, _, _, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            connecting = socket.socket(family, socket.SOCK_STREAM)
            try:
                self.set_up(connecting)
                await loop.sock_connect(connecting, address)
            except OSError as error:
                connecting.close()
                failure = failure or error
                continue
            except BaseException:
                connecting.close()
                raise
            transport = SocketTransport(loop, connecting, Address(host, port))
            transport.start(receiver)
            return transport
        reason = failure.strerror if failure is not None else "the name has no address"
        raise ConnectionError(
            failure.errno if failure else errno.EHOSTUNREACH, f"cannot connect to {Address(host, port)}: {reason}"
        ) from failure


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
