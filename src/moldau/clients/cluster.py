"""● One client's connections to one cluster, opened when first needed, and the cluster's latest metadata.

Producer, consumer and admin are built on it and may share one.  Guarantee: a request goes out once per `send`, except that another
controller gets what one refused because it is not the active one.  The caller decides whether to try again; `retrying` does it for callers
that may.
"""

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from moldau.clients.errors import AuthenticationError, FatalError
from moldau.clients.forking import DETAIL, watch
from moldau.clients.older import fitted, in_newest_form
from moldau.clients.view import EMPTY, ClusterView, Node
from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel, Told
from moldau.net.transport import Network
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.wire import AnyResponse, Request
from moldau.types import NO_LEADER, TopicPartition

if TYPE_CHECKING:
    import ssl

    from moldau.net.sasl import Credentials

T = TypeVar("T")

DEFAULT_PORT: Final = 9092
CONNECT_WITHIN_S: Final = 10.0
ANSWER_WITHIN_S: Final = 30.0
GIVE_UP_AFTER_S: Final = 60.0
RETRY_AFTER_S: Final = 0.1
is_limited: Final = ContextVar("is_limited", default=False)
"""Whether the caller cancels a call in time: `retrying` has no limit of its own there."""
CONTROLLERS: Final = 2
"""The type of endpoint that DescribeCluster is asked for."""
RETIRES_AFTER: Final = 0.85
"""The share of the time for which a broker accepts a connection's credentials after which the client gives the connection up."""

STALE_METADATA: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Error codes after which the leader has to be looked up anew."""


class Unreachable(Exception):
    """No broker answers at these addresses."""


class NoSuchNode(Unreachable):
    """The cluster answers, and has no node with this id."""


Connect = Callable[[str, int], Awaitable[Channel]]


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Addresses from `host:port,host:port`.

    The port may be missing; an IPv6 address stands in brackets.  A protocol before `://` is left out, as by Java's client.

    Errors: ValueError.
    """
    addresses = []
    for part in filter(None, map(str.strip, text.split(","))):
        place = part.rpartition("://")[2]
        host, colon, port = place.rpartition(":")
        if not colon or place.endswith("]"):
            host, port = place, str(DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not an address of the form host:port")
        addresses.append((host, int(port)))
    if not addresses:
        raise ValueError("no address is given")
    return addresses


class Cluster:
    """The connections to one cluster.  Use it as an async context manager, or call `close`."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        connect: Connect,
        *,
        answer_within_s: float = ANSWER_WITHIN_S,
        is_at_controllers: bool = False,
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._connect = connect
        self._channels: dict[tuple[str, int], Channel] = {}
        self._of_parent: dict[tuple[str, int], Channel] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}
        self._answer_within_s = answer_within_s
        self.view: ClusterView = EMPTY
        self.is_at_controllers: Final = is_at_controllers
        """Whether `bootstrap` are controllers (KIP-919).  The active one is asked, which alone decides."""
        self._refusal: str | None = None
        self._needs_readers = False
        """Whether the loop has to watch sockets."""
        self.connection_creations = 0
        self.requests = 0

    @classmethod
    def connect(
        cls,
        bootstrap: str,
        *,
        network: Network | None = None,
        client_id: str = "moldau",
        connect_within_s: float = CONNECT_WITHIN_S,
        answer_within_s: float = ANSWER_WITHIN_S,
        ssl_context: "ssl.SSLContext | None" = None,
        sasl: "Credentials | None" = None,
        at_controllers: bool = False,
    ) -> "Cluster":
        """A cluster of which no connection is open yet.

        `bootstrap`: `host:port,host:port`, of controllers if `at_controllers`.  `ssl_context`: connect over TLS.  `sasl`: authenticate
        with these credentials.

        Errors: ValueError.
        """
        from moldau.net.sockets import SystemNetwork

        door: Network = network or SystemNetwork()
        if ssl_context is not None:
            from moldau.net.tls import TlsNetwork

            door = TlsNetwork(door, ssl_context, handshake_within_s=connect_within_s)

        async def open_channel(host: str, port: int) -> Channel:
            try:
                channel = await Channel.connect(door, host, port, client_id=client_id, timeout_s=connect_within_s)
            except OSError as error:
                if ssl_context is not None:
                    from moldau.clients.refusals import tls_refusal

                    if (refusal := tls_refusal(error)) is not None:
                        raise AuthenticationError(f"{host}:{port} over TLS: {refusal}") from error
                raise
            if sasl is not None:
                await _authenticate(channel, sasl, within_s=connect_within_s)
            return channel

        cluster = cls(parse_bootstrap(bootstrap), open_channel, answer_within_s=answer_within_s, is_at_controllers=at_controllers)
        cluster._needs_readers = network is None
        return cluster

    def sibling(self) -> "Cluster":
        """The same cluster over connections of its own, for long requests that must not hold up others."""
        return Cluster(self._bootstrap, self._connect, answer_within_s=self._answer_within_s)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self._bootstrap)

    async def send(
        self, request: Request[AnyResponse], *, node_id: int | None = None, extra_s: float = 0.0, max_version: int | None = None
    ) -> AnyResponse:
        """Send a request to one node, or to any node that answers.

        `extra_s`: how many seconds the broker itself may wait.  `max_version`: use no newer version, even if both sides know one.

        Errors: Unreachable; OSError when the connection breaks or no answer comes in time; AuthenticationError; KafkaError
        UNSUPPORTED_VERSION; at controllers, UNSUPPORTED_ENDPOINT_TYPE for what is asked of brokers alone, and NOT_CONTROLLER when no
        controller stays active.
        """
        if not self.is_at_controllers:
            return await self._send(request, node_id, extra_s, max_version)
        from moldau.clients.controllers import refuse_what_brokers_do

        refuse_what_brokers_do(request)
        if node_id is not None:
            return await self._send(request, node_id, extra_s, max_version)
        return await retrying(partial(self._send_to_active, request, extra_s, max_version), within_s=GIVE_UP_AFTER_S + extra_s)

    async def _send_to_active(self, request: Request[AnyResponse], extra_s: float, max_version: int | None) -> AnyResponse:
        """Send to the active controller, or to another one where it cannot be reached.

        Errors: as `send`; KafkaError, retriable, if the node is not active.
        """
        from moldau.clients.controllers import inactive

        if self.view.controller_id not in self.view.nodes:
            await self._find_controllers()
        answer = await self._send(request, None, extra_s, max_version)
        if (code := inactive(answer)) is not None:
            self.view = replace(self.view, controller_id=NO_LEADER)
            raise KafkaError(code)
        return answer

    async def _send(self, request: Request[AnyResponse], node_id: int | None, extra_s: float, max_version: int | None) -> AnyResponse:
        channel = await (self.any_channel() if node_id is None else self.channel_to(node_id))
        version = self._version_of(channel, request, max_version)
        answer = await channel.send(fitted(request, version), version, timeout_s=self._answer_within_s + extra_s)
        return in_newest_form(request, version, answer)

    def ask(
        self, channel: Channel, request: Request[AnyResponse], told: Told, *, extra_s: float = 0.0, max_version: int | None = None
    ) -> None:
        """Send a request on an open channel now.  `told` gets its response, in the turn in which that is read, or a ChannelClosed.

        The request has no older form.  Errors at once: OSError; KafkaError UNSUPPORTED_VERSION; EncodeError.
        """
        version = self._version_of(channel, request, max_version)
        channel.ask(request, told, version, timeout_s=self._answer_within_s + extra_s)

    def _version_of(self, channel: Channel, request: Request[AnyResponse], max_version: int | None) -> int:
        """The version in which a request leaves now."""
        self.requests += 1
        version = channel.version_of(type(request))
        return version if max_version is None else min(max_version, version)

    async def send_to_controller(
        self, request: Request[AnyResponse], error_of: Callable[[AnyResponse], int], *, extra_s: float = 0.0
    ) -> AnyResponse:
        """Send to the active controller, and again while that one cannot be reached, or while `error_of` the answer is NOT_CONTROLLER.

        Where KRaft runs, each broker forwards, and names any broker as the controller.  Where ZooKeeper runs, the controller alone answers.

        Errors: as `send`; KafkaError NOT_CONTROLLER when that lasts.
        """

        async def attempt() -> AnyResponse:
            if self.view.controller_id not in self.view.nodes:
                await self.refresh([])
            known = self.view.controller_id if self.view.controller_id in self.view.nodes else None
            try:
                answer = await self.send(request, node_id=known, extra_s=extra_s)
            except Unreachable as error:
                if known is None:
                    raise
                self.view = replace(self.view, controller_id=NO_LEADER)
                raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error
            if error_of(answer) == ErrorCode.NOT_CONTROLLER:
                self.view = replace(self.view, controller_id=NO_LEADER)
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return answer

        return await (self.send(request, extra_s=extra_s) if self.is_at_controllers else retrying(attempt))

    async def any_channel(self) -> Channel:
        """An open connection to any broker, else a new one to the first address that can be reached.

        Among controllers the active one, where it can be reached.
        """
        if self.is_at_controllers and (active := self.view.nodes.get(self.view.controller_id)) is not None:
            with contextlib.suppress(OSError):
                return await self._open((active.host, active.port))
        for channel in self._channels.values():
            if not self._is_over(channel):
                return channel
        known = [(node.host, node.port) for node in self.view.nodes.values()]
        reasons = []
        for address in dict.fromkeys([*self._bootstrap, *known]):
            try:
                return await self._open(address)
            except OSError as error:
                reasons.append(f"{address[0]}:{address[1]}: {_reason(error)}")
        raise Unreachable("; ".join(reasons))

    async def _find_controllers(self) -> None:
        """Ask any controller for all of them, and for the active one.  Errors: as `send`."""
        from moldau.protocol.messages.describe_cluster import DescribeClusterRequest

        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS)
        response = await self._send(request, None, 0.0, None)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), response.error_message)
        nodes = {one.broker_id: Node(one.broker_id, one.host, one.port) for one in response.brokers}
        self.view = replace(self.view, nodes=nodes, cluster_id=response.cluster_id, controller_id=response.controller_id)

    async def channel_to(self, node_id: int) -> Channel:
        kind = "controller" if self.is_at_controllers else "broker"
        node = self.view.nodes.get(node_id)
        if node is None:
            await (self._find_controllers() if self.is_at_controllers else self.refresh([]))
            node = self.view.nodes.get(node_id)
        if node is None:
            raise NoSuchNode(f"the cluster has no {kind} {node_id}")
        try:
            return await self._open((node.host, node.port))
        except OSError as error:
            raise Unreachable(f"{kind} {node_id} at {node}: {_reason(error)}") from error

    def open_channel_to(self, node_id: int) -> Channel | None:
        """The connection to a node if a request may begin on it now; else `channel_to` opens one."""
        node = self.view.nodes.get(node_id)
        channel = None if node is None else self._channels.get((node.host, node.port))
        return channel if channel is not None and not self._is_over(channel) else None

    async def refresh(self, topics: Collection[str] | None = None, *, allow_auto_topic_creation: bool = False) -> ClusterView:
        """Ask for the brokers and these topics; None asks for all topics."""
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=allow_auto_topic_creation)
        response = await self.send(request)
        self.view = self.view.updated(response, all_topics=topics is None)
        return self.view

    async def leader_of(self, topic_partition: TopicPartition) -> Node:
        """The node id of a partition's leader; asks the cluster if it is not known.

        Errors: KafkaError with the topic's code, or LEADER_NOT_AVAILABLE.
        """
        leader = self.view.leader_of(topic_partition)
        if leader is None:
            await self.refresh([topic_partition.topic])
            leader = self.view.leader_of(topic_partition)
        if leader is not None:
            return leader
        code = self.view.error_of(topic_partition.topic)
        if code:
            raise KafkaError(code)
        if topic_partition.partition not in self.view.partitions_of(topic_partition.topic):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_partition}")
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")

    @property
    def connection_count(self) -> int:
        """The connections that are open."""
        return sum(not channel.is_closed for channel in self._channels.values())

    async def _open(self, address: tuple[str, int]) -> Channel:
        async with self._opening.setdefault(address, asyncio.Lock()):
            self._check_open()
            self.check_loop()
            channel = self._channels.get(address)
            if channel is None or self._is_over(channel):
                if channel is not None and not channel.is_closed:
                    channel.retire()
                channel = await self._connect(*address)
                if self._refusal is not None:  # `end` was called meanwhile
                    channel.close()
                    self._check_open()
                if not self.connection_creations:
                    watch(self)
                self.connection_creations += 1
                self._channels[address] = channel
            return channel

    @staticmethod
    def _is_over(channel: Channel) -> bool:
        """Whether no request should begin on a channel any more."""
        return channel.is_closed or asyncio.get_running_loop().time() >= channel.retire_at

    def check_loop(self) -> None:
        """Refuse a loop that cannot watch sockets, before anything waits for an answer.  Errors: FatalError."""
        loop = type(asyncio.get_running_loop())
        if self._needs_readers and getattr(loop, "add_reader", None) is asyncio.AbstractEventLoop.add_reader:
            detail = (
                f"{loop.__name__} cannot watch sockets: before asyncio.run, call "
                "asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy()); or use moldau.sync"
            )
            raise FatalError(ErrorCode.INVALID_REQUEST, detail)

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise FatalError(ErrorCode.INVALID_REQUEST, self._refusal)

    def end(self, detail: str) -> None:
        """Close, and refuse every later request with a FatalError of this detail."""
        self._refusal = detail
        self.close()

    def forked(self) -> None:
        """Refuse every request in a child of the process with the connections.  These stay as they are: their sockets are the parent's."""
        self._refusal = DETAIL
        self._of_parent, self._channels = self._channels, {}

    def close(self) -> None:
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


async def retrying(attempt: Callable[[], Awaitable[T]], *, within_s: float = GIVE_UP_AFTER_S) -> T:
    """Call `attempt` until it succeeds, fails with an error that is not retriable, or time is up.

    Errors: the last KafkaError; those of `attempt`, its own time-outs too.
    """
    last: KafkaError | None = None
    try:
        async with asyncio.timeout(None if is_limited.get() else within_s) as limit:
            while True:
                try:
                    return await attempt()
                except KafkaError as error:
                    if not error.code.retriable:
                        raise
                    last = error
                    await asyncio.sleep(RETRY_AFTER_S)  # within `except`: a caller that cancels finds the error behind its own
    except TimeoutError:
        if last is not None and limit.expired():
            raise last from None
        raise


async def _authenticate(channel: Channel, credentials: "Credentials", *, within_s: float) -> None:
    """Authenticate a connection.  A provider of tokens has as long for its token as a broker for a connection.

    The client gives a connection up before the broker stops to accept it (KIP-368).  The next request opens another one, with fresh
    credentials.

    Errors: AuthenticationError; OSError.
    """
    from moldau.net.authentication import authenticate
    from moldau.net.sasl import AuthenticationFailed

    try:
        async with asyncio.timeout(within_s):
            lifetime_ms = await authenticate(channel, credentials)
    except AuthenticationFailed as error:
        channel.abort()
        raise AuthenticationError(str(error)) from error.__cause__
    except BaseException:
        channel.abort()
        raise
    if lifetime_ms:
        channel.retire_at = asyncio.get_running_loop().time() + lifetime_ms / 1000 * RETIRES_AFTER


def _reason(error: OSError) -> str:
    if error.errno == errno.ECONNREFUSED:
        return "connection refused"
    return error.strerror or str(error) or type(error).__name__
