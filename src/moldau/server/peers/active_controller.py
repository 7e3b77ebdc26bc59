"""● The active controller wherever it is: a decision is made in this process if its controller leads, else over a connection.

    a client's request ─▶ Envelope with the client's principal and address ─┐
    this node's own request ────────────────────────────────────────────────┴─▶ one connection to the active controller

Until its time is over, a request is sent again while no controller is known, when the asked controller is not active any more, and when its
connection breaks: every request to a controller may be repeated.  A connection is given up as soon as another controller is known to lead,
so no request waits for a dead or paused one.
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
    """The node that leads the metadata log (below 0: none), and its controller's address if known."""

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
        """`local`: the controller of this process, if there is one; `timeout_ms` bounds a request with all its tries."""
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
        """Send a request of this node.  Errors: KafkaError REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, and those of the decision."""

        async def remotely(channel: Channel) -> AnyResponse:
            spoken = channel.version_of(type(request)) if version is None else version
            if "broker" in request.LISTENERS:
                return await _enveloped(channel, request, spoken, client_id=None, principal=ANONYMOUS, host=OWN_ADDRESS)
            return await channel.send(request, spoken)

        return await self._until_answered(lambda local: local.ask(request, version=version), remotely)

    async def forward(self, request: Request[AnyResponse], context: RequestContext) -> AnyResponse:
        """Forward a client's request.  Errors: as `ask`."""
        client = context.client

        async def remotely(channel: Channel) -> AnyResponse:
            return await _enveloped(
                channel, request, context.version, client_id=context.header.client_id, principal=client.principal, host=client.host
            )

        return await self._until_answered(lambda local: local.forward(request, context), remotely)

    def leader_changed(self) -> None:
        """Note that another node may lead: requests that wait for the old leader are sent again."""
        address = self._leading().address
        if self._channel is not None and self._channel_to != address:
            self._channel.abort()

    def close(self) -> None:
        """Close.  Waiting requests get NOT_CONTROLLER."""
        self._is_closed = True
        if self._channel is not None:
            self._channel.abort()

    async def _until_answered(
        self, locally: Callable[[ControllerCalls], Awaitable[AnyResponse]], remotely: Callable[[Channel], Awaitable[AnyResponse]]
    ) -> AnyResponse:
        until_ms = self._clock.monotonic_ms() + self._timeout_ms
        trouble = "no controller is known"
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
        """A connection to the controller.  Errors: OSError, KafkaError."""
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
    """Send a client's request in an Envelope.  Errors: KafkaError, of the envelope itself; OSError."""
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
        raise KafkaError(ErrorCode.of(answer.error_code), "The controller did not take the forwarded request.")
    try:
        _, response = decode_response(type(request), version, memoryview(answer.response_data))
    except DecodeError as error:
        raise OSError(f"{channel.peer}: unreadable answer to the forwarded request: {error}") from error
    return response
