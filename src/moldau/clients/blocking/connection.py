"""● One blocking connection to a broker: `send` a request and wait, or `post` several and `receive` their responses in order.

    connection = Connection.open("localhost", 9092, Wire(client_id="spark"))
    response = connection.send(MetadataRequest(topics=None))

A wrong byte or a timeout ends the connection: a late answer could be taken for that of another request.
"""

import math
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from moldau import __version__
from moldau.clients.errors import AuthenticationError
from moldau.clients.refusals import tls_refusal
from moldau.errors import ErrorCode, KafkaError
from moldau.net.correlation import Correlation, CorrelationError, is_answered
from moldau.net.framing import Framing, ReceiveBuffers
from moldau.net.sasl import AuthenticationFailed
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.wire import AnyResponse, Request, Response

SOFTWARE_NAME: Final = "moldau"
MAX_RESPONSE_BYTES: Final = (1 << 31) - 1
CONNECT_WITHIN_S: Final = 10.0
ANSWER_WITHIN_S: Final = 30.0
OF_A_SESSION: Final = 0.85
TRANSACTION_VERSION: Final = "transaction.version"


class ConnectionLost(ConnectionError):
    """The connection is over; whether the requests in flight took effect is not known."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The way to connect for one client.

    `tls`: a context for encrypted connections.  `authenticate`: proves who the client is, and returns for how many milliseconds the
    broker accepts it (0: for good).
    """

    client_id: str = SOFTWARE_NAME
    connect_within_s: float = CONNECT_WITHIN_S
    answer_within_s: float = ANSWER_WITHIN_S
    tls: ssl.SSLContext | None = None
    authenticate: "Callable[[Connection], int] | None" = None


class Connection:
    """One connection.  `open` makes it."""

    def __init__(self, stream: socket.socket, wire: Wire, name: str) -> None:
        self.name: Final = name
        self.transaction_version = 0
        """The cluster's level of transaction.version, as the broker reported it."""
        self._stream = stream
        self._wire = wire
        self._correlation = Correlation(wire.client_id)
        self._framing = Framing(MAX_RESPONSE_BYTES, ReceiveBuffers())
        self._arrived: list[memoryview] = []
        self._closed = False
        self._expires_s = math.inf

    @classmethod
    def open(cls, host: str, port: int, wire: Wire) -> "Connection":
        """A connection that is connected, encrypted, authenticated and has agreed on versions.

        Errors: AuthenticationError where one side refuses the other; ConnectionLost; KafkaError.
        """
        name = f"{host}:{port}"
        try:
            stream = socket.create_connection((host, port), timeout=wire.connect_within_s)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if wire.tls is not None:
                stream = wire.tls.wrap_socket(stream, server_hostname=host)
        except OSError as error:
            _check_refusal(name, wire, error)
            raise ConnectionLost(f"{name}: {_reason(error)}") from error
        connection = cls(stream, wire, name)
        try:
            connection._agree()
            if wire.authenticate is not None:
                lifetime_ms = wire.authenticate(connection)
                if lifetime_ms:
                    connection._expires_s = time.monotonic() + lifetime_ms / 1000 * OF_A_SESSION
        except AuthenticationFailed as error:
            connection.close()
            raise AuthenticationError(str(error)) from None
        except ConnectionLost as error:
            _check_refusal(name, wire, error)
            raise
        except BaseException:
            connection.close()
            raise
        return connection

    def _agree(self) -> None:
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        response = self.send(request, version=ApiVersionsRequest.VERSIONS[-1])
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            highest = max((api.max_version for api in response.api_keys if api.api_key == ApiVersionsRequest.API_KEY), default=0)
            response = self.send(request, version=min(highest, ApiVersionsRequest.VERSIONS[-1]))
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), f"{self.name} does not tell which versions it serves")
        self._correlation.agree(response)
        self.transaction_version = _level_of_transactions(response)

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed or about to be: the broker ends it when its authentication is too old (KIP-368)."""
        return self._closed or (time.monotonic() >= self._expires_s and not self.in_flight)

    @property
    def in_flight(self) -> int:
        return self._correlation.in_flight

    def version_of(self, request: type[Request[Any]]) -> int:
        """The newest version of a request that both sides know.  Errors: KafkaError UNSUPPORTED_VERSION."""
        return self._correlation.version_of(request)

    def send(self, request: Request[AnyResponse], *, version: int | None = None, extra_s: float = 0.0) -> AnyResponse:
        """Send a request and wait for its response.

        `extra_s`: how many seconds the broker itself may wait.  Errors: ConnectionLost; KafkaError UNSUPPORTED_VERSION.
        """
        assert not self._correlation.in_flight, "responses come in order: call receive() for the requests in flight first"
        self.post(request, version=version)
        return cast(AnyResponse, self.receive(extra_s=extra_s))

    def post(self, request: Request[Any], *, version: int | None = None) -> None:
        """Write a request; `receive` reads its response later.  Errors: as `send`."""
        assert is_answered(request), "a Produce with acks=0 has no response: send it with acks=1 or -1"
        if self._closed:
            raise ConnectionLost(f"{self.name}: closed here")
        _, parts = self._correlation.request(request, version)
        try:
            self._stream.settimeout(self._wire.answer_within_s)
            for part in parts:
                self._stream.sendall(cast(bytes, part))
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, *, extra_s: float = 0.0) -> Response:
        """The response to the oldest request in flight.  Errors: ConnectionLost."""
        assert self._correlation.in_flight, "no request is in flight"
        try:
            deadline = time.monotonic() + self._wire.answer_within_s + extra_s
            while not self._arrived:
                self._stream.settimeout(max(0.001, deadline - time.monotonic()))
                count = self._stream.recv_into(self._framing.get_buffer())
                if not count:
                    raise ConnectionLost(f"{self.name} closed the connection")
                self._arrived.extend(self._framing.received(count))
                if self._framing.error is not None:
                    raise CorrelationError(self._framing.error)
            return self._correlation.response(self._arrived.pop(0))[1]
        except (OSError, CorrelationError) as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> ConnectionLost:
        self.close()
        if isinstance(error, ConnectionLost):
            return error
        return ConnectionLost(f"{self.name}: {_reason(error)}")

    def close(self) -> None:
        self._closed = True
        self._stream.close()


def _check_refusal(name: str, wire: Wire, error: OSError) -> None:
    """Errors: AuthenticationError, if one side refuses the other over TLS."""
    if wire.tls is not None and (refusal := tls_refusal(error)) is not None:
        raise AuthenticationError(f"{name} over TLS: {refusal}") from error


def _level_of_transactions(response: ApiVersionsResponse) -> int:
    return next((one.max_version_level for one in response.finalized_features if one.name == TRANSACTION_VERSION), 0)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer within the request's time limit"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
