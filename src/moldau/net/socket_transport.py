"""● One connection on a non-blocking socket of the running asyncio loop.

Bytes are received into the receiver's own buffer; Memory leaves by `sendmsg`.  Slices of files leave by `sendfile` without entering Python,
or by `pread` where a file has no descriptor.  All parts written in one turn leave in as few calls as the socket's buffer allows.

While slices of files leave, the socket is corked: headers share a segment with their records, and where one turn or one slice ends
the next goes on in the same segment.  On loopback, where a segment is 64 KiB, the ends alone were a fifth of all segments.

Made by `sockets`.
"""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final

from moldau.net.transport import Address, Receiver
from moldau.types import FileSlice, Part

READS_PER_TURN: Final = 4
MAX_BYTES_PER_TURN: Final = 512 * 1024
"""After this many bytes one connection yields to the others.

A reader on the processor that sends empties its socket while it is filled.  Without a limit it keeps the sender to itself for its whole
reply, and readers on the other processors have nothing to do.
"""
MAX_TAIL_BYTES: Final = 4 * 1024
"""If the end of a slice is no further beyond the limit than this, it leaves in the same call."""
MAX_PARTS_PER_CALL: Final = 64
COPY_BYTES: Final = 256 * 1024
"""The bytes read at a time from a file without descriptor."""
LINGER_S: Final = 1.0
LEFTOVER_BYTES: Final = 64 * 1024


class SocketTransport:
    """One connection on a socket."""

    __slots__ = (
        "_buffered",
        "_closed",
        "_closing",
        "_descriptor",
        "_is_corked",
        "_is_reading",
        "_is_waiting",
        "_linger_timer",
        "_loop",
        "_queue",
        "_receiver",
        "_sent_of_slice",
        "_socket",
        "peer",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, connected: socket.socket, peer: Address) -> None:
        self.peer = peer
        self._loop = loop
        self._socket = connected
        self._descriptor: Final = connected.fileno()
        self._receiver: Receiver | None = None
        self._queue: deque[Part] = deque()
        self._sent_of_slice = 0
        """The bytes that have left of the queue's first part, if that is a slice."""
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
            # Read on even if the socket was emptied: a client with several requests in flight has often sent the next one by now, and
            # asking costs a fifth of a turn of the loop.
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
        """Send until the queue is empty or the socket is full."""
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
        """Send all memory up to the next slice in one call.  Returns (bytes sent, whether the socket is full)."""
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
        done = self._sent_of_slice
        left = head.size - done
        wanted = left if left <= limit + MAX_TAIL_BYTES else limit
        try:
            source = head.file.fileno()
        except OSError:
            data = head.file.pread(min(left, COPY_BYTES), head.position + done)
            wanted = len(data)
            sent = self._socket.send(data) if data else 0
        else:
            sent = os.sendfile(self._descriptor, source, head.position + done, wanted)
        if sent == left:
            self._queue.popleft()
            self._sent_of_slice = 0
        elif sent:
            self._sent_of_slice = done + sent
        else:
            raise OSError(errno.EIO, f"{head!r} ends before its size")
        return sent, sent < wanted

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
        """Wait until the peer closes, too.

        The peer may have sent bytes that are not read here.  A socket that is closed with such bytes is reset, and what was on its way to
        the
        peer is lost.
        """
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
        """End from within a call of the receiver: the receiver learns of it in the next turn."""
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
