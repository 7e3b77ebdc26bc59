"""● The client's side of one connection: `await channel.send(request)` gives its response.

    channel = await Channel.connect(network, host, port, client_id="a-client")     # has agreed on versions
    response = await channel.send(MetadataRequest(topics=None))                    # any number at a time, answered in order

`ask` calls a function with the answer instead, in the turn in which it is read.

A request without an answer in time ends the connection, because the answers behind it cannot come either.  The end of the connection fails
every request in flight with the same reason.  Used by clients, and between brokers.
"""

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

from moldau.errors import ErrorCode, KafkaError
from moldau.net.correlation import Correlation, CorrelationError, is_answered
from moldau.net.framing import Framing, ReceiveBuffers
from moldau.net.transport import Address, Network, Transport
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.wire import AnyResponse, Request, Response
from moldau.version import __version__

SOFTWARE_NAME: Final = "moldau"
MAX_RESPONSE_BYTES: Final = (1 << 31) - 1
DEFAULT_TIMEOUT_S: Final = 30.0


class ChannelClosed(ConnectionError):
    """The connection is over; whether the request took effect is not known."""


class RequestTimedOut(ChannelClosed, TimeoutError):
    """No response came in time, and the connection was closed."""


Told: TypeAlias = Callable[[Response | ChannelClosed], None]


class _Asked(NamedTuple):
    """A request in flight."""

    told: Told
    timer: asyncio.TimerHandle


class Channel:
    """One connection to a broker; a `Receiver` of its transport.  Made by `connect`."""

    def __init__(self, *, client_id: str | None, timeout_s: float, buffers: ReceiveBuffers | None = None) -> None:
        self.on_closed: Callable[[Channel], None] | None = None
        self.retire_at = math.inf
        """The time on the loop's clock after which no request should begin."""
        self._is_retired = False
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._correlation = Correlation(client_id)
        self._framing = Framing(MAX_RESPONSE_BYTES, buffers or ReceiveBuffers())
        self._transport: Transport | None = None
        self._pending: dict[int, _Asked] = {}
        self._failure: ChannelClosed | None = None

    @classmethod
    async def connect(
        cls,
        network: Network,
        host: str,
        port: int,
        *,
        client_id: str | None = SOFTWARE_NAME,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        agree: bool = True,
        buffers: ReceiveBuffers | None = None,
    ) -> "Channel":
        """Open a connection.  Without `agree` requests go in the newest version known here.  Channels of one loop can share `buffers`.

        Errors: OSError (ChannelClosed, RequestTimedOut), KafkaError.
        """
        channel = cls(client_id=client_id, timeout_s=timeout_s, buffers=buffers)
        try:
            async with asyncio.timeout(timeout_s):
                channel._transport = await network.connect(host, port, channel)
        except TimeoutError:
            raise RequestTimedOut(f"{Address(host, port)} did not take the connection in {timeout_s:g} s") from None
        if agree:
            try:
                await channel.agree_on_versions()
            except BaseException:
                channel.abort()
                raise
        return channel

    def __repr__(self) -> str:
        return f"Channel({self.peer}, {len(self._pending)} in flight)"

    @property
    def peer(self) -> Address:
        assert self._transport is not None, "not connected"
        return self._transport.peer

    @property
    def is_closed(self) -> bool:
        return self._failure is not None

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def version_of(self, request: type[Request[Any]]) -> int:
        """The version in which `send` sends a request.  Errors: KafkaError UNSUPPORTED_VERSION."""
        return self._correlation.version_of(request)

    def level_of(self, feature: str) -> int:
        """The level of a feature that the cluster had finalized when the connection was made; 0: none."""
        return self._correlation.finalized_features.get(feature, 0)

    async def agree_on_versions(self) -> None:
        """Ask for the broker's versions.  Errors: KafkaError, ChannelClosed."""
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        response = await self.send(request, ApiVersionsRequest.VERSIONS[-1])
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            highest = max((api.max_version for api in response.api_keys if api.api_key == ApiVersionsRequest.API_KEY), default=0)
            response = await self.send(request, min(highest, ApiVersionsRequest.VERSIONS[-1]))
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), f"{self.peer} does not tell which versions it serves")
        self._correlation.agree(response)

    # requests

    async def send(self, request: Request[AnyResponse], version: int | None = None, *, timeout_s: float | None = None) -> AnyResponse:
        """Send a request and wait for its response.

        Errors: ChannelClosed, RequestTimedOut; KafkaError UNSUPPORTED_VERSION and EncodeError, which leave the channel as it was.
        """
        future: asyncio.Future[Response] = self._loop.create_future()
        timer = self.ask(request, partial(_settle, future), version, timeout_s=timeout_s)
        try:
            # Responses are matched to their requests by number, and decoded by the request's class.
            return cast(AnyResponse, await future)
        finally:
            timer.cancel()

    def ask(self, request: Request[Any], told: Told, version: int | None = None, *, timeout_s: float | None = None) -> asyncio.TimerHandle:
        """Send a request.  `told` gets its response, in the turn in which that is read, or the error that ended the connection.

        Returns the timer that ends the connection without a response in time.  Errors at once: as `send`.
        """
        assert is_answered(request), "a produce with acks=0 has no response: use post"
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        number = self._write(request, version)
        timer = self._loop.call_later(timeout_s, self._expire, type(request).__name__, timeout_s)
        self._pending[number] = _Asked(told, timer)
        return timer

    def post(self, request: Request[Any], version: int | None = None) -> None:
        """Send a request without response: a produce with acks=0.  Errors: as `send`."""
        assert not is_answered(request), "post is for a produce with acks=0; this request has a response: use send"
        self._write(request, version)

    def _write(self, request: Request[Any], version: int | None) -> int:
        if self._failure is not None:
            raise ChannelClosed(*self._failure.args) from self._failure
        assert self._transport is not None, "not connected"
        number, parts = self._correlation.request(request, version)
        self._transport.write(parts)
        return number

    def _expire(self, what: str, timeout_s: float) -> None:
        self._end(RequestTimedOut(f"{self.peer} did not answer {what} in {timeout_s:g} s"))

    # responses

    def get_buffer(self) -> memoryview:
        return self._framing.get_buffer()

    def received(self, count: int) -> None:
        frames = self._framing.received(count)
        try:
            for frame in frames:
                if self._failure is not None:  # who was told of the frame before has closed the channel
                    return
                number, response = self._correlation.response(frame)
                asked = self._pending.pop(number)
                asked.timer.cancel()
                self._tell(asked.told, response)
            if self._framing.error is not None:
                raise CorrelationError(self._framing.error)
        except CorrelationError as error:
            self._end(ChannelClosed(f"{self.peer}: {error}"))
        if self._is_retired and not self._pending:
            self.close()

    def _tell(self, told: Told, answer: Response) -> None:
        """A bug in `told` is its own: the answers behind this one are read all the same."""
        try:
            told(answer)
        except Exception as error:
            self._loop.call_exception_handler({"message": f"{told!r} failed at an answer of {self.peer}", "exception": error})

    def writable(self) -> None:
        pass

    # ending

    def closed(self, error: Exception | None) -> None:
        reason = f"the connection broke: {error}" if error is not None else "the connection was closed"
        failure = ChannelClosed(f"{self.peer}: {reason}")
        failure.__cause__ = error
        self._fail(failure)

    def abort(self) -> None:
        """Close now; requests in flight fail."""
        if self._transport is not None:
            self._end(ChannelClosed(f"{self.peer}: closed here"))

    def close(self) -> None:
        """Close once all written bytes have left; requests in flight fail."""
        if self._transport is not None and self._failure is None:
            self._fail(ChannelClosed(f"{self.peer}: closed here"))
            self._transport.close()

    def retire(self) -> None:
        """Close once all requests in flight are answered; no request may begin meanwhile."""
        self._is_retired = True
        if not self._pending:
            self.close()

    def _end(self, failure: ChannelClosed) -> None:
        self._fail(failure)
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, failure: ChannelClosed) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        pending, self._pending = self._pending, {}
        for asked in pending.values():
            asked.timer.cancel()
            copy = type(failure)(*failure.args)
            copy.__cause__ = failure.__cause__
            self._loop.call_soon(asked.told, copy)
        if self.on_closed is not None:
            self.on_closed(self)


def _settle(future: "asyncio.Future[Response]", answer: Response | ChannelClosed) -> None:
    if future.done():  # its caller was cancelled
        return
    if isinstance(answer, ChannelClosed):
        future.set_exception(answer)
        future.exception()  # a caller that is cancelled before it goes on does not look at it
    else:
        future.set_result(answer)
