"""◇ Cuts bytes into frames: a four-byte big-endian size, then that many bytes.

    buffer = framing.get_buffer()               # receive into it
    frames = framing.received(count)            # what is complete now, oldest first; then look at framing.error

One frame is one writable `memoryview`, valid as long as it is referenced.  A frame that arrives whole in the buffer that all connections
share is copied out of it.  So a parked request pins only its own bytes, and a connection at rest owns no buffer.  A frame that is still
arriving gets a buffer of its own, and its rest is received straight into that.

That buffer grows with the received bytes, not with the declared size: at most `GROWTH` times as much, or the size of the frame before.  A
peer that declares 100 MiB and sends four bytes costs `FIRST_CAPACITY`.  A size below zero or above the limit ends the connection.
Source: NetworkReceive; socket.request.max.bytes.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

SIZE_BYTES: Final = 4
SHARED_BYTES: Final = 64 * 1024
PEEK_BYTES: Final = 1024
"""After a big frame the next one is likely big: only its beginning is received into the shared buffer, so that little is copied."""
FIRST_CAPACITY: Final = 32 * 1024
GROWTH: Final = 16
SMALLEST_POOLED: Final = 128 * 1024
LARGEST_POOLED: Final = 2 * 1024 * 1024
POOLED_PER_CLASS: Final = 3

_SIZE: Final = Struct(">i")


class ReceiveBuffers:
    """The buffers that the connections of one loop share: one for small frames, and big ones to reuse once no view of them is left."""

    __slots__ = ("_pool", "shared", "start")

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.start = self.shared[:PEEK_BYTES]
        self._pool: dict[int, list[bytearray]] = {}

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes with arbitrary content."""
        if not SMALLEST_POOLED <= size <= LARGEST_POOLED:
            return bytearray(size)
        capacity = 1 << (size - 1).bit_length()
        buffers = self._pool.setdefault(capacity, [])
        for buffer in buffers:
            if _is_free(buffer):
                return buffer
        buffer = bytearray(capacity)
        if len(buffers) < POOLED_PER_CLASS:
            buffers.append(buffer)
        return buffer


class Framing:
    """One direction of one connection."""

    __slots__ = ("_arriving", "_buffer", "_buffers", "_filled", "_header", "_last_size", "_max_bytes", "_size", "error")

    def __init__(self, max_bytes: int, buffers: ReceiveBuffers) -> None:
        self.error: str | None = None
        self._max_bytes = max_bytes
        self._buffers = buffers
        self._header = b""
        self._buffer: bytearray | None = None
        self._arriving = memoryview(b"")
        self._filled = 0
        self._size = 0
        self._last_size = 0

    @property
    def is_amid_frame(self) -> bool:
        return self._buffer is not None or bool(self._header)

    @property
    def received_of_frame(self) -> int:
        """The received bytes of the frame that is still arriving."""
        return self._filled + len(self._header)

    def get_buffer(self) -> memoryview:
        """The buffer for the next bytes, never empty.  `received` must follow before another connection's `get_buffer`."""
        if self._buffer is not None:
            return self._arriving[self._filled :]
        shared = self._buffers.start if self._last_size > SHARED_BYTES else self._buffers.shared
        if self._header:
            shared[: len(self._header)] = self._header
            return shared[len(self._header) :]
        return shared

    def received(self, count: int) -> Sequence[memoryview]:  # hot: 1 us a small frame
        if self._buffer is not None:
            return self._received_into_own(count)
        shared = self._buffers.shared
        if self._header:
            count += len(self._header)
            self._header = b""
        frames: list[memoryview] = []
        position = 0
        while count - position >= SIZE_BYTES:
            (size,) = _SIZE.unpack_from(shared, position)
            if not 0 <= size <= self._max_bytes:
                self.error = f"a request of {size} bytes was announced, at most {self._max_bytes} are taken"
                return frames
            position += SIZE_BYTES
            end = position + size
            if end > count:
                self._begin(size, shared[position:count])
                return frames
            # The copy is on purpose, see the module.
            frames.append(memoryview(bytearray(shared[position:end])))
            self._last_size = size
            position = end
        if position < count:
            self._header = bytes(shared[position:count])
        return frames

    def _begin(self, size: int, start: memoryview) -> None:
        self._size = size
        self._filled = len(start)
        capacity = self._capacity()
        self._buffer = self._buffers.take(capacity)
        self._arriving = memoryview(self._buffer)[:capacity]
        self._arriving[: len(start)] = start

    def _capacity(self) -> int:
        return min(self._size, max(FIRST_CAPACITY, GROWTH * self._filled, self._last_size))

    def _received_into_own(self, count: int) -> Sequence[memoryview]:
        self._filled += count
        if self._filled < len(self._arriving):
            return ()
        if self._filled < self._size:
            self._grow()
            return ()
        frame = self._arriving
        self._buffer = None
        self._arriving = memoryview(b"")
        self._last_size = self._size
        self._filled = 0
        return (frame,)

    def _grow(self) -> None:
        capacity = self._capacity()
        buffer = self._buffers.take(capacity)
        arriving = memoryview(buffer)[:capacity]
        arriving[: self._filled] = self._arriving[: self._filled]
        self._buffer, self._arriving = buffer, arriving


def _is_free(buffer: bytearray) -> bool:
    """Whether no view of a buffer is left: Python refuses to resize a buffer with views."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
