"""● The active controller wherever it is: decided in this process where that one leads, asked over a connection where another does.

    a client's request ─▶ Envelope with the client's principal and address ─┐
    this node's own request ────────────────────────────────────────────────┴─▶ one connection to the active controller

A request is sent again, until its time is over, while no controller is known, when the one that was asked is not active any more, and
when its connection breaks: whatever a controller decides may be asked twice.  A connection is given up as soon as another controller is
known to lead, so nobody waits for one that is dead or paused.
Source: NodeToControllerChannelManagerImpl, ForwardingManagerImpl, EnvelopeUtils; KIP-590.
"""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.net.transport import Address, Network
from moldau.protocol.header import decode_response, encode_request
from moldau.protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest
from moldau.protocol.stored import encode_versioned
from moldau.protocol.wire import AnyResponse, DecodeError, Request
from moldau.server.peers.controller import ControllerCalls
from moldau.server.requests.dispatch import ANONYMOUS, RequestContext
from moldau.types import joined

RETRY_PAUSE_S: Final = 0.05
FRAME_LENGTH: Final = 4
OWN_ADDRESS: Final = "127.0.0.1"
"""A node's own requests come from no client; the controller wants an address all the same."""


class Leading(NamedTuple):
    """The node that leads the metadata log, below 0 for none, and where its controller listens, where that is known."""

    node_id: int
    address: Address | None


class ActiveController:
    """See the module; a `ControllerCalls`."""

    def __init__(
        self,
        *,
        node_id: int,
        local: ControllerCalls | None,
        leading: Callable[[], Leading],
        network: Network,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        """`local` is the controller of this process, where there is one; `timeout_ms` bounds a request with all its tries."""
        self._node_id: Final = node_id
        self._local: Final = local
        self._leading: Final = leading
        self._network: Final = network
        self._clock: Final = clock
        self._timeout_ms: Final = timeout_ms
        self._connecting: Final = asyncio.Lock()
        self._channel: Channel | None = None
        self._channel_to: Address | None = None
        self._is_closed = False

    async def ask(self, request: Request[AnyResponse], *, version: int | None = None) -> AnyResponse:
        """Errors: KafkaError REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, and what the decision raises."""

        async def remotely(channel: Channel) -> AnyResponse:
            spoken = channel.version_of(type(request)) if version is None else version
            if "broker" in request.LISTENERS:
                return await _enveloped(channel, request, spoken, client_id=None, principal=ANONYMOUS, host=OWN_ADDRESS)
            return await channel.send(request, spoken)

        return await self._until_answered(lambda local: local.ask(request, version=version), remotely)

    async def forward(self, request: Request[AnyResponse], context: RequestContext) -> AnyResponse:
        """Errors: as `ask`."""
        client = context.client

        async def remotely(channel: Channel) -> AnyResponse:
            return await _enveloped(
                channel, request, context.version, client_id=context.header.client_id, principal=client.principal, host=client.host
            )

        return await self._until_answered(lambda local: local.forward(request, context), remotely)

    def leader_changed(self) -> None:
        """Another node may lead: what waits for an answer of the old one is asked again."""
        address = self._leading().address
        if self._channel is not None and self._channel_to != address:
            self._channel.abort()

    def close(self) -> None:
        """What still waits gets NOT_CONTROLLER."""
        self._is_closed = True
        if self._channel is not None:
            self._channel.abort()

    async def _until_answered(
        self, locally: Callable[[ControllerCalls], Awaitable[AnyResponse]], remotely: Callable[[Channel], Awaitable[AnyResponse]]
    ) -> AnyResponse:
        until_ms = self._clock.monotonic_ms() + self._timeout_ms
        trouble = "none is known"
        while not self._is_closed:
            left_ms = until_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No active controller answered in time: {trouble}")
            leading = self._leading()
            try:
                if leading.node_id == self._node_id and self._local is not None:
                    return await locally(self._local)
                if leading.address is not None:
                    async with asyncio.timeout(left_ms / 1000):
                        response = await remotely(await self._connected(leading.address))
                    if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NOT_CONTROLLER:
                        return response
                    trouble = f"node {leading.node_id} is not active"
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                trouble = str(error)
            except (OSError, TimeoutError) as error:
                trouble = str(error)
            await asyncio.sleep(RETRY_PAUSE_S)
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is shutting down.")

    async def _connected(self, address: Address) -> Channel:
        """Errors: OSError, KafkaError."""
        async with self._connecting:
            if self._channel is None or self._channel.is_closed or self._channel_to != address:
                if self._channel is not None:
                    self._channel.abort()
                self._channel_to = address
                self._channel = await Channel.connect(
                    self._network, address.host, address.port, client_id=f"broker-{self._node_id}", timeout_s=self._timeout_ms / 1000
                )
            return self._channel


async def _enveloped(
    channel: Channel, request: Request[AnyResponse], version: int, *, client_id: str | None, principal: str, host: str
) -> AnyResponse:
    """Errors: KafkaError, of the envelope itself; OSError."""
    kind, _, name = principal.partition(":")
    frame = joined(encode_request(request, version=version, correlation_id=0, client_id=client_id))
    answer = await channel.send(
        EnvelopeRequest(
            request_data=frame[FRAME_LENGTH:],
            request_principal=encode_versioned(DefaultPrincipalData(type=kind, name=name, token_authenticated=False), 0),
            client_host_address=ipaddress.ip_address(host).packed,
        )
    )
    if answer.error_code != ErrorCode.NONE or answer.response_data is None:
        raise KafkaError(ErrorCode.of(answer.error_code), "The controller did not take what was forwarded.")
    try:
        _, response = decode_response(type(request), version, memoryview(answer.response_data))
    except DecodeError as error:
        raise OSError(f"{channel.peer}: unreadable answer to what was forwarded: {error}") from error
    return response
