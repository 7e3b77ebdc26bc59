"""● TLS between a transport and its receiver: records are made and read in memory, the bytes travel over any `Network`.

    network = TlsNetwork(SystemNetwork(), ssl.create_default_context())
    transport = await network.connect("broker", 9093, receiver)      # has shaken hands, and has verified the name `broker`

A slice of a file is read and encrypted piece by piece.  Closing tells the peer (close_notify).  A stream that ends without that is an
error, because bytes may be missing.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Final, cast

from moldau.net.transport import Accept, Address, Listening, Network, Receiver, Transport
from moldau.types import FileSlice, Part

READ_BYTES: Final = 64 * 1024
RECORD_BYTES: Final = 16 * 1024
QUEUE_BYTES: Final = 1024 * 1024
"""The most encrypted bytes that wait for the socket; the rest waits in plain form."""
HANDSHAKE_WITHIN_S: Final = 10.0


class TlsTransport:
    """One TLS connection: the `Receiver` of the transport below, and the `Transport` of the receiver above."""

    def __init__(self, context: ssl.SSLContext, *, server_hostname: str | None, server_side: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._below: Transport | None = None
        self._receiver: Receiver | None = None
        self._queue: deque[Part] = deque()
        self._queued = 0
        self._is_reading = True
        self._is_closing = False
        self._is_over = False
        self._is_pumping = False
        self._failure: Exception | None = None
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """A future that is done once both sides have shaken hands, and fails when they cannot."""

    def attach(self, below: Transport) -> None:
        self._below = below

    def start(self, receiver: Receiver) -> None:
        """Give `receiver` all data from now on."""
        self._receiver = receiver
        self._loop.call_soon(self._pump)

    # ------------------------------------------------------------ Transport

    @property
    def peer(self) -> Address:
        assert self._below is not None
        return self._below.peer

    @property
    def buffered(self) -> int:
        return self._queued + (self._below.buffered if self._below is not None else 0)

    def write(self, parts: Sequence[Part]) -> None:
        if self._is_closing or self._is_over:
            return
        for part in parts:
            if len(part):
                self._queue.append(part)
                self._queued += len(part)
        self._encrypt()

    def pause_reading(self) -> None:
        self._is_reading = False
        if self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_over:
            self._is_reading = True
            if self._below is not None:
                self._below.resume_reading()
            self._loop.call_soon(self._pump)

    def close(self) -> None:
        if self._is_closing or self._is_over:
            return
        self._is_closing = True
        self._encrypt()

    def abort(self) -> None:
        self._is_closing = True
        self._queue.clear()
        self._queued = 0
        if self._below is not None:
            self._below.abort()

    # ------------------------------------------------------------ Receiver of the transport below

    def get_buffer(self) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        if self._failure is not None:
            return
        self._incoming.write(self._buffer[:count])
        if not self.ready.done():
            self.shake_hands()
        else:
            self._pump()

    def writable(self) -> None:
        had_to_wait = bool(self._queue)
        self._encrypt()
        if not self._queue and not self._is_closing and self._receiver is not None and (had_to_wait or not self.buffered):
            self._receiver.writable()

    def closed(self, error: Exception | None) -> None:
        error = self._failure or error
        if error is None and not self._is_over and not self._is_closing:
            error = ConnectionError("the peer ended the connection without the end of its TLS stream")
        self._end(error)

    # ------------------------------------------------------------ between

    def shake_hands(self) -> None:
        """Take one step of the handshake; `ready` tells how it ends."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()
            self._fail(error)
        else:
            self._flush()
            if not self.ready.done():
                self.ready.set_result(None)
            self._pump()

    def _pump(self) -> None:
        """Give the receiver all data that can be decrypted."""
        if self._receiver is None or self._is_pumping:
            return
        self._is_pumping = True
        try:
            while self._is_reading and not self._is_over:
                buffer = self._receiver.get_buffer()
                try:
                    count = cast(
                        int, self._tls.read(len(buffer), buffer)
                    )  # with a buffer it returns the count, without one it returns the bytes
                except ssl.SSLWantReadError:
                    break
                except ssl.SSLZeroReturnError:
                    count = 0
                if not count:
                    self._end(None)
                    if self._below is not None:
                        self._below.close()
                    return
                self._receiver.received(count)
            self._flush()
        except ssl.SSLError as error:
            self._fail(error)
        finally:
            self._is_pumping = False

    def _encrypt(self) -> None:
        """Encrypt as much as the socket is likely to take soon."""
        if not self.ready.done() or self._below is None:
            return
        try:
            while self._queue and self._below.buffered + self._outgoing.pending < QUEUE_BYTES:
                head = self._queue.popleft()
                piece, rest = _split(head)
                if rest is not None:
                    self._queue.appendleft(rest)
                self._tls.write(piece)
                self._queued -= len(piece)
                if self._outgoing.pending >= QUEUE_BYTES:
                    self._flush()
            self._flush()
            if self._is_closing and not self._queue:
                self._say_goodbye()
        except (ssl.SSLError, OSError) as error:
            self._fail(error)

    def _say_goodbye(self) -> None:
        assert self._below is not None
        with contextlib.suppress(ssl.SSLError):  # the peer's own close_notify has not come yet, and is not waited for
            self._tls.unwrap()
        self._flush()
        self._below.close()

    def _flush(self) -> None:
        assert self._below is not None
        if self._outgoing.pending:
            self._below.write([self._outgoing.read()])

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._loop.call_soon(self._end, self._failure)
        if self._below is not None:
            self._below.close()

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._queue.clear()
        self._queued = 0
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionError("the connection was closed while TLS was agreed upon"))
            self.ready.exception()
        if self._receiver is not None:
            self._receiver.closed(error)


def _split(part: Part) -> tuple[bytes | bytearray | memoryview, Part | None]:
    """The piece of a part to encrypt now, and its rest."""
    if isinstance(part, FileSlice):
        if part.size <= READ_BYTES:
            return part.read(), None
        head = FileSlice(part.file, part.position, READ_BYTES)
        return head.read(), FileSlice(part.file, part.position + READ_BYTES, part.size - READ_BYTES)
    if len(part) <= READ_BYTES:
        return part, None
    view = memoryview(part)
    return view[:READ_BYTES], view[READ_BYTES:]


class TlsNetwork:
    """A `Network` with encrypted connections.  `server_hostname`: the name to expect, instead of the host that is connected to."""

    def __init__(
        self,
        below: Network,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        handshake_within_s: float = HANDSHAKE_WITHIN_S,
    ) -> None:
        self._below = below
        self._context = context
        self._server_hostname = server_hostname
        self._handshake_within_s = handshake_within_s

    async def connect(self, host: str, port: int, receiver: Receiver) -> Transport:
        """Connect and shake hands.  Errors: OSError; its ssl.SSLError names what is wrong with certificates or versions."""
        tls = TlsTransport(self._context, server_hostname=self._server_hostname or host)
        below = await self._below.connect(host, port, tls)
        try:
            tls.attach(below)
            tls.shake_hands()
            async with asyncio.timeout(self._handshake_within_s):
                await tls.ready
        except BaseException:
            below.abort()
            raise
        tls.start(receiver)
        return tls

    async def listen(self, host: str, port: int, accept: Accept, *, backlog: int = 50) -> Listening:
        """Listen.  `accept` gets connections at once; data that it writes before the handshake is over waits."""

        def accept_tls(below: Transport) -> Receiver | None:
            tls = TlsTransport(self._context, server_hostname=None, server_side=True)
            tls.attach(below)
            receiver = accept(tls)
            if receiver is None:
                return None
            tls.start(receiver)
            return tls

        return await self._below.listen(host, port, accept_tls, backlog=backlog)
