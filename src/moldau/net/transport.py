"""● The door to the network: `Network` makes connections, a `Transport` carries bytes, a `Receiver` takes them.

The real form is `sockets.SystemNetwork`, the simulated one `moldau.testing.network.SimNetwork`; every other module uses only these
interfaces.  The loop calls a `Receiver` once at a time, and never from within a call to its `Transport`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from moldau.types import Part


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Receiver(Protocol):
    """The receiving side of one connection."""

    def get_buffer(self) -> memoryview:
        """A buffer to receive into, not empty.  `received` follows at once, or no byte was received."""
        ...

    def received(self, count: int) -> None:
        """Note that `count` bytes are in the buffer."""
        ...

    def writable(self) -> None:
        """All written bytes have left, after some of them had to wait."""
        ...

    def closed(self, error: Exception | None) -> None:
        """The connection is over; called once and last.  `error` None: either side closed it."""
        ...


class Transport(Protocol):
    """The sending side of one connection."""

    @property
    def peer(self) -> Address: ...

    @property
    def buffered(self) -> int:
        """The written bytes that have not left; a slice of a file counts with its size."""
        ...

    def write(self, parts: Sequence[Part]) -> None:
        """Write parts in order, as much as possible at once.

        Parts must not change afterwards.  On a closed connection this does nothing.
        """
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Close once the peer should have all written bytes; no more bytes are received."""
        ...

    def abort(self) -> None:
        """Close now; bytes that have not left are lost."""
        ...


class Listening(Protocol):
    """A listening port."""

    @property
    def port(self) -> int: ...

    def close(self) -> None:
        """Take no new connections; open ones go on."""
        ...


Accept = Callable[[Transport], Receiver | None]
"""A function that takes a new connection and returns its receiver; None refuses the connection."""


class Network(Protocol):
    """Listens, and makes connections."""

    async def listen(self, host: str, port: int, accept: Accept, *, backlog: int = 50) -> Listening:
        """Listen.  An empty host is every address, port 0 any free one.  Errors: OSError with a text that names the address."""
        ...

    async def connect(self, host: str, port: int, receiver: Receiver) -> Transport:
        """Open a connection.  Errors: OSError."""
        ...
