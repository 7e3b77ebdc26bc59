"""● The door to the network: `Network` makes connections, a `Transport` carries bytes, a `Receiver` takes them.

The real form is `sockets.SystemNetwork`, the simulated one `moldau.testing.network.SimNetwork`; everything else in the house speaks these.
Callbacks of a `Receiver` come from the loop, one at a time, never from within a call to its `Transport`.
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
    """Who takes what one connection brings."""

    def get_buffer(self) -> memoryview:
        """Where to receive into, not empty; `received` follows at once, or nothing was received."""
        ...

    def received(self, count: int) -> None:
        """So many bytes are in the buffer."""
        ...

    def writable(self) -> None:
        """All that was written has left, after some of it had to wait."""
        ...

    def closed(self, error: Exception | None) -> None:
        """The connection is over; called once and last.  No error: either side closed it."""
        ...


class Transport(Protocol):
    """One connection's way out."""

    @property
    def peer(self) -> Address: ...

    @property
    def buffered(self) -> int:
        """Bytes written that have not left; a slice of a file counts with its size."""
        ...

    def write(self, parts: Sequence[Part]) -> None:
        """In order, as much as possible at once.  Parts must not change afterwards.  On a closed connection: nothing."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """When all that was written has reached the peer, or should have; nothing is received any more."""
        ...

    def abort(self) -> None:
        """Now; what has not left is lost."""
        ...


class Listening(Protocol):
    """An open door."""

    @property
    def port(self) -> int: ...

    def close(self) -> None:
        """No new connections; those that stand go on."""
        ...


Accept = Callable[[Transport], Receiver | None]
"""Who takes a new connection; None refuses it."""


class Network(Protocol):
    """Makes connections."""

    async def listen(self, host: str, port: int, accept: Accept, *, backlog: int = 50) -> Listening:
        """An empty host is every address, port 0 any that is free.  Errors: OSError with a text that names the address."""
        ...

    async def connect(self, host: str, port: int, receiver: Receiver) -> Transport:
        """Errors: OSError."""
        ...
