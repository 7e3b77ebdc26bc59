"""● The other brokers: the leaders of partitions, and a connection to each broker, made with its first request.

    markers ─▶ the leader of a partition          verification ─▶ the coordinator of a transaction          share states, dead letters …

The callers decide for partitions that this broker leads itself: a request that comes here is for another broker.
Source: NetworkClient of TransactionMarkerChannelManager, AddPartitionsToTxnManager, PersisterStateManager, InterBrokerSendThread.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from moldau.net.channel import Channel, ChannelClosed
from moldau.net.transport import Address, Network
from moldau.protocol.wire import AnyResponse, Request
from moldau.types import NO_LEADER, TopicPartition

T = TypeVar("T")


class Brokers(Protocol):
    """See the module."""

    def leader_of(self, where: TopicPartition) -> int:
        """The broker that leads a partition; NO_LEADER if there is none or no such partition."""
        ...

    async def ask(self, broker_id: int, request: Request[AnyResponse]) -> AnyResponse:
        """Send a request to another broker.

        Errors: OSError where the broker cannot be reached or does not answer, KafkaError UNSUPPORTED_VERSION.
        """
        ...


def by_leader(items: Iterable[T], leader_of: Callable[[T], int], local_id: int) -> tuple[list[T], dict[int, list[T]]]:
    """The items to decide in this process, also those without a leader; and the items of other brokers, by broker id.

    Each in its order.
    """
    here: list[T] = []
    elsewhere: dict[int, list[T]] = {}
    for item in items:
        leader_id = leader_of(item)
        (here if leader_id in (local_id, NO_LEADER) else elsewhere.setdefault(leader_id, [])).append(item)
    return here, elsewhere


class NoBrokers:
    """The other brokers of a broker that is alone."""

    def leader_of(self, where: TopicPartition) -> int:
        return NO_LEADER

    async def ask(self, broker_id: int, request: Request[AnyResponse]) -> AnyResponse:
        raise ChannelClosed(f"broker {broker_id} is not known")


class BrokerChannels:
    """See the module; `close` at the end."""

    def __init__(
        self,
        *,
        local_id: int,
        network: Network,
        leader_of: Callable[[TopicPartition], int],
        endpoint_of: Callable[[int], Address | None],
        timeout_ms: int,
    ) -> None:
        """`endpoint_of`: the address of a broker for other brokers."""
        self.leader_of: Final = leader_of
        self._local_id: Final = local_id
        self._network: Final = network
        self._endpoint_of: Final = endpoint_of
        self._timeout_s: Final = timeout_ms / 1000
        self._channels: Final[dict[Address, Channel]] = {}
        self._connecting: Final[dict[Address, asyncio.Lock]] = {}
        self._is_closed = False

    async def ask(self, broker_id: int, request: Request[AnyResponse]) -> AnyResponse:
        address = self._endpoint_of(broker_id)
        if address is None or self._is_closed:
            raise ChannelClosed(f"broker {broker_id} is not known")
        return await (await self._connected(address)).send(request)

    async def _connected(self, address: Address) -> Channel:
        async with self._connecting.setdefault(address, asyncio.Lock()):
            channel = self._channels.get(address)
            if channel is None or channel.is_closed:
                channel = self._channels[address] = await Channel.connect(
                    self._network, address.host, address.port, client_id=f"broker-{self._local_id}", timeout_s=self._timeout_s
                )
                channel.on_closed = lambda _: self._forget(address)
            return channel

    def _forget(self, address: Address) -> None:
        """Drop the connection to an address: a broker may come back at another one."""
        self._channels.pop(address, None)
        if not self._connecting[address].locked():
            self._connecting.pop(address, None)

    def close(self) -> None:
        self._is_closed = True
        for channel in list(self._channels.values()):
            channel.abort()
