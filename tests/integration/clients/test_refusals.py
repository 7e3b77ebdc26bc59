"""A connection that one side refuses is no lost connection: the error says why, and what to do."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from moldau.clients.blocking.authentication import authenticating
from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.connection import Connection, Wire
from moldau.clients.errors import AuthenticationError
from moldau.net.sasl import AuthenticationFailed, Plain
from proof.kafka.certificates import Certificates

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("tls"), HOST)


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port that serves one connection after the other, until the block ends."""
    with socket.create_server((HOST, 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    stream, _ = listener.accept()
                except OSError:
                    return
                with stream, contextlib.suppress(OSError):
                    serve(stream)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def over_tls(certificates: Certificates, *, asks_for_a_certificate: bool = False) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    if asks_for_a_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.authority)

    def serve(stream: socket.socket) -> None:
        with context.wrap_socket(stream, server_side=True, do_handshake_on_connect=False) as encrypted:
            try:
                encrypted.do_handshake()
                encrypted.recv(1)
            except ssl.SSLError:
                # What the client writes meanwhile is read, as otherwise the refusal would get lost.
                while socket.socket.recv(encrypted, 1 << 16):
                    pass

    return serve


def test_an_authority_that_is_not_known(certificates: Certificates) -> None:
    with listening(over_tls(certificates)) as port, pytest.raises(AuthenticationError, match=r"ssl\.truststore\.location"):
        Connection.open(HOST, port, Wire(tls=ssl.create_default_context()))


def test_a_broker_that_wants_a_certificate(certificates: Certificates) -> None:
    trusting = Wire(tls=ssl.create_default_context(cafile=certificates.authority))
    serve = over_tls(certificates, asks_for_a_certificate=True)
    with listening(serve) as port, pytest.raises(AuthenticationError, match=r"ssl\.keystore\.location"):
        Connection.open(HOST, port, trusting)


def test_a_port_without_tls(certificates: Certificates) -> None:
    def serve(stream: socket.socket) -> None:
        stream.recv(1)
        stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    trusting = Wire(tls=ssl.create_default_context(cafile=certificates.authority))
    with listening(serve) as port, pytest.raises(AuthenticationError, match="without TLS"):
        BlockingCluster([(HOST, port)], trusting).any()


def test_credentials_that_are_refused_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "_agree", lambda self: None)

    def refuses(connection: Connection) -> int:
        raise AuthenticationFailed("alice: the broker refuses the password")

    assert authenticating(Plain("alice", "wrong"))
    with listening(lambda stream: None) as port, pytest.raises(AuthenticationError, match="refuses the password"):
        BlockingCluster([(HOST, port)], Wire(authenticate=refuses)).any()
