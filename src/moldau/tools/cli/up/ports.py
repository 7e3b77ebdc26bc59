"""● The addresses that `moldau up` gives to nodes."""

import socket
from contextlib import ExitStack
from typing import Final

from moldau.tools.cli.failure import Failure

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9092


def checked_port(port: int) -> int:
    """The port itself.  Errors: Failure."""
    if not 0 < port < 65536:
        raise Failure(f"{port} is not a port", "Ports go from 1 to 65535")
    return port


def free_ports(count: int) -> list[int]:
    """`count` different ports on which nobody listens at this moment."""
    with ExitStack() as probes:
        found = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in found]
