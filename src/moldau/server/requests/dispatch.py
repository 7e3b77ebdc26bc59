"""● The way from a frame to the parts of its reply: header, version, decoder, handler, encoder.

Every connection of a listener shares one `Dispatcher`.  A handler returns its response at once, or a `Later`, or a coroutine, or None for
no reply; `net/connection.py` decides which requests may run meanwhile.  This module is the one place where errors become answers:

    unsupported version           the connection is closed without an answer, but for ApiVersions: version 0 with UNSUPPORTED_VERSION
    bytes that cannot be read     the connection is closed
    KafkaError                    `request.refused(code)`
    any other exception           `request.refused(UNKNOWN_SERVER_ERROR)`, and the stack trace in the log
    either, for a request without reply  the connection is closed: the client would take an answer for that of its next request

Source: KafkaApis.handle, RequestContext.parseRequest; KIP-511.  Called by `net/connection.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from moldau.clock import Clock
from moldau.config import shortened
from moldau.errors import ErrorCode, KafkaError
from moldau.net.connection import Connection, InvalidFrame, LaterReply, Reply, ReplyOrLater
from moldau.net.correlation import is_answered
from moldau.net.later import Later
from moldau.protocol.compiler import request_decoder
from moldau.protocol.declared import Struct
from moldau.protocol.header import RequestHeader, decode_request_header, encode_response
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.protocol.wire import DecodeError, EncodeError, Request, Response
from moldau.types import Part

LOG: Final = logging.getLogger(__name__)

ANONYMOUS: Final = "User:ANONYMOUS"
LONG_FRAME: Final = 1 << 16
"""The bytes from which on a request is long: the decision and the encoding of its answer then take two turns of the loop."""


class ConnectionClosed(InvalidFrame):
    """The connection is to be closed without an answer.  The text is for the log."""


class Client:
    """The client of one connection, as far as handlers need it."""

    __slots__ = ("connection_number", "host", "last_append", "listener", "on_closed", "port", "principal")

    def __init__(self, *, listener: str, host: str, port: int, principal: str = ANONYMOUS, connection_number: int = 0) -> None:
        self.listener: Final = listener
        self.host: Final = host
        self.port: Final = port
        self.connection_number: Final = connection_number
        """Greater than that of every connection that was accepted before."""
        self.principal = principal
        self.last_append: asyncio.Event | None = None
        """A future that is done once the newest waiting produce request has appended; None when none waits."""
        self.on_closed: dict[Hashable, Callable[[], None]] = {}
        """Functions to call when the connection is gone."""

    def closed(self) -> None:
        to_do, self.on_closed = self.on_closed, {}
        for do in to_do.values():
            do()


class RequestContext:
    """A handler's knowledge of a request beside its body."""

    __slots__ = ("client", "header", "now_ms")

    def __init__(self, header: RequestHeader, client: Client, now_ms: int) -> None:
        self.header: Final = header
        self.client: Final = client
        self.now_ms: Final = now_ms

    @property
    def version(self) -> int:
        return self.header.api_version


Answer: TypeAlias = Response | Later[Any] | Awaitable[Response | None] | None
Handler: TypeAlias = Callable[[Any, RequestContext, Any], Answer]
"""A function of (the parts that its listener's handlers use, context, request) that returns the answer."""


class Api(NamedTuple):
    """One API as it is served on a listener."""

    request: type[Request[Any]]
    handle: Handler
    documentation: str = ""
    """The documentation at the head of its handler, without the name."""
    listeners: tuple[str, ...] = ()
    """The listeners where this handler serves the API; empty for all listeners of the API."""


class HasClock(Protocol):
    """The clock, the only part of the handlers' parts that this module reads."""

    @property
    def clock(self) -> Clock: ...


class Dispatcher:
    """The APIs of one listener."""

    def __init__(self, services: HasClock, apis: Mapping[int, Api]) -> None:
        self._services: Final = services
        self._apis: Final = apis
        self._routes: dict[tuple[int, int], tuple[Callable[[memoryview], Any], Handler]] = {}

    # hot: 4 µs beside header, decoder, handler and encoder
    def dispatch(self, connection: Connection, frame: memoryview) -> ReplyOrLater:
        """The reply; None for none.  Errors: ConnectionClosed."""
        try:
            header, body = decode_request_header(frame)
            route = self._routes.get(header[:2])
            if route is None:
                route = self._route(header)
                if route is None:
                    return self._unsupported_api_versions(header)
            decode, handle = route
            request = decode(body)
        except DecodeError as error:
            raise ConnectionClosed(f"unreadable request: {error}") from None
        client = connection.session
        if client is None:
            peer = connection.peer
            client = connection.session = Client(
                listener=connection.listener_name, host=peer.host, port=peer.port, connection_number=connection.number
            )
        context = RequestContext(header, client, self._services.clock.now_ms())  # type: ignore[arg-type]
        try:
            answer = handle(self._services, context, request)
        except Exception as error:
            answer = refusal_of(error, context, request)
        if isinstance(answer, Response):
            if len(frame) > LONG_FRAME and header.api_key != ProduceRequest.API_KEY:  # its records make it long, its answer is short
                return _encoded_next_turn(answer, context, request)
            return reply_of(answer, context, request)
        if answer is None:
            return None
        return self._later(answer, context, request, len(frame) > LONG_FRAME)

    def _route(self, header: RequestHeader) -> tuple[Callable[[memoryview], Any], Handler] | None:
        """The API of a header, found once per version.  None for an unknown version of ApiVersions.  Errors: ConnectionClosed."""
        api = self._apis.get(header.api_key)
        if api is None:
            raise ConnectionClosed(f"api key {header.api_key} is not served on this listener")
        served = served_versions(api.request)
        if header.api_version not in served:
            if api.request is ApiVersionsRequest:
                return None
            raise ConnectionClosed(f"{api.request.__name__} version {header.api_version} is not served, only {served[0]}-{served[-1]}")
        route = request_decoder(api.request, header.api_version), api.handle
        self._routes[header[:2]] = route
        return route

    @staticmethod
    def _unsupported_api_versions(header: RequestHeader) -> Reply:
        """The answer to ApiVersions in an unknown version: version 0, which every client can read, lists the known ones (KIP-511)."""
        response = ApiVersionsRequest().refused(ErrorCode.UNSUPPORTED_VERSION)
        return encode_response(response, version=0, correlation_id=header.correlation_id)

    def _later(
        self, answer: Later[Any] | Awaitable[Response | None], context: RequestContext, request: Request[Any], is_long: bool
    ) -> LaterReply:
        if isinstance(answer, Later):
            return answer.map(
                lambda response: reply_of(response, context, request),
                lambda error: reply_of(refusal_of(error, context, request), context, request),
            )
        return self._await(answer, context, request, is_long)

    @staticmethod
    async def _await(answer: Awaitable[Response | None], context: RequestContext, request: Request[Any], is_long: bool) -> Reply:
        try:
            response = await answer
        except Exception as error:
            response = refusal_of(error, context, request)
        if response is None:
            return None
        return await _encoded_next_turn(response, context, request) if is_long else reply_of(response, context, request)


async def _encoded_next_turn(response: Response, context: RequestContext, request: Request[Any]) -> Reply:
    """Encode a long answer in the next turn of the loop: other requests have their turn before."""
    await asyncio.sleep(0)
    return reply_of(response, context, request)


def reply_of(response: Response, context: RequestContext, request: Request[Any]) -> list[Part]:
    """The bytes of a response; those of a refusal if the response cannot be encoded in its version."""
    header = context.header
    try:
        return encode_response(response, version=header.api_version, correlation_id=header.correlation_id)
    except EncodeError:
        _shorten_texts(response)
    try:
        return encode_response(response, version=header.api_version, correlation_id=header.correlation_id)
    except EncodeError as error:
        refusal = refusal_of(error, context, request)
        return encode_response(refusal, version=header.api_version, correlation_id=header.correlation_id)


def _shorten_texts(message: Struct) -> None:
    """Shorten texts for people: a text that quotes a name of the request can be longer than the protocol allows."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name.endswith("error_message") and value is not None:
            setattr(message, field.name, shortened(value))
        elif isinstance(value, Struct):
            _shorten_texts(value)
        elif field.kind == "array" and field.struct is not None:
            for element in value or ():
                _shorten_texts(element)


def served_versions(request: type[Request[Any]]) -> range:
    """The versions of an API, without those that Kafka holds back as unstable."""
    versions = request.VERSIONS
    return versions[:-1] if request.LATEST_IS_UNSTABLE and len(versions) > 1 else versions


def refusal_of(error: Exception, context: RequestContext, request: Request[Any]) -> Response:
    """The refusal for an error.  Errors: ConnectionClosed, passed through or for a request without answer."""
    if isinstance(error, ConnectionClosed):
        raise error
    code, detail = ErrorCode.UNKNOWN_SERVER_ERROR, None
    if isinstance(error, KafkaError):
        LOG.debug("%s v%d from %s refused: %s", type(request).__name__, context.version, context.client.host, error)
        code, detail = error.code, error.detail
    else:
        LOG.error("%s v%d from %s failed", type(request).__name__, context.version, context.client.host, exc_info=error)
    if not is_answered(request):
        raise ConnectionClosed(f"a produce without acknowledgement failed: {code.name}")
    response: Response = request.refused(code, detail)
    return response
