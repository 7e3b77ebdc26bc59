"""● The addresses that `moldau up` gives to nodes."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from moldau.tools.cli.failure import Failure

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9092


def checked_port(port: int) -> int:
    """The port itself.  Errors: Failure."""
    if not 0 < port < 65536:
        raise Failure(f"{port} is not a port", "Ports go from 1 to 65535")
    return port


@contextmanager
def held_ports(host: str, ports: Iterable[int], *, way_out: str = "Choose other ports with --port") -> Iterator[None]:
    """Holds ports on which nodes will listen, so that `free_ports` gives none of them.  Errors: Failure if one cannot be had."""
    with ExitStack() as held:
        for port in ports:
            try:
                held.enter_context(socket.create_server((host, port)))
            except OSError as error:
                reason = (error.strerror or str(error)).partition(" (while ")[0].lower()  # Python names the address again behind it
                raise Failure(f"cannot listen on {host}:{port}: {reason}", way_out) from error
        yield


def free_ports(count: int) -> list[int]:
    """`count` different ports on which nobody listens at this moment."""
    with ExitStack() as probes:
        found = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in found]
