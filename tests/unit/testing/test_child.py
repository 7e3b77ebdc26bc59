"""Tests start processes of their own."""

import errno
import socket

import pytest

from moldau.testing.child import HOST, held_ports


def test_a_held_port_is_for_a_server_that_is_told_of_it_and_for_nobody_else() -> None:
    with held_ports(2) as (port, other):
        for _ in range(2):  # the process is started, killed and started again
            with socket.create_server((HOST, port)) as server, socket.create_connection((HOST, port)), server.accept()[0]:
                pass
        with socket.socket() as stranger, pytest.raises(OSError, match="in use") as caught:
            stranger.bind((HOST, other))
        assert caught.value.errno == errno.EADDRINUSE
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, other))
