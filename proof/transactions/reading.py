"""● A connection of a transactional client of a simulated cluster, and requests for committed records and their answers."""

import asyncio
import random
from typing import Any, Final

from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Network
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from moldau.protocol.wire import AnyResponse, Request
from moldau.types import FileSlice, TopicPartition
from proof.transactions.schedules.verdict import not_aborted, written_in
from proof.transactions.schedules.wire import Lost, Make

TIMEOUT_S: Final = 4.0
RETRY_S: Final = 0.2
FETCH_WAIT_MS: Final = 300
COMMITTED: Final = 1
OF_NO_TRANSACTION: Final = (1 << 64) - 1
"""A value that nobody copied."""
FETCH_VERSION, OFFSET_FETCH_VERSION = 12, 9


class ChannelLine:
    """One connection of a session, opened when it is first used."""

    def __init__(self, network: Network, address: tuple[str, int], name: str, buffers: ReceiveBuffers) -> None:
        self.is_given_up = False
        self._network: Final = network
        self._address: Final = address
        self._name: Final = name
        self._buffers: Final = buffers
        self._channel: asyncio.Task[Channel] | None = None

    @property
    def is_closed(self) -> bool:
        opening = self._channel
        return opening is not None and opening.done() and (opening.exception() is not None or opening.result().is_closed)

    async def ask(self, make: Make, version: int) -> Any:
        """Errors: Lost."""
        if self._channel is None:
            self._channel = asyncio.get_running_loop().create_task(self._open())
        try:
            channel = await asyncio.shield(self._channel)
            return await channel.send(make(), version)
        except (OSError, KafkaError):
            self.give_up()
            # The pause keeps the client from asking a broker that is down over and over.
            await asyncio.sleep(RETRY_S)
            raise Lost from None

    async def _open(self) -> Channel:
        host, port = self._address
        return await Channel.connect(self._network, host, port, client_id=self._name, timeout_s=TIMEOUT_S, buffers=self._buffers)

    def give_up(self) -> None:
        self.is_given_up = True
        opening = self._channel
        if opening is not None and opening.done() and opening.exception() is None:
            opening.result().abort()


class TransactionClient:
    """A machine with transactional clients on it, or with the auditor."""

    def __init__(self, name: str, network: Network, address: tuple[str, int], choice: random.Random) -> None:
        self.name: Final = name
        self.choice: Final = choice
        self._network: Final = network
        self._address: Final = address
        self._buffers: Final = ReceiveBuffers()
        self._loop: Final = asyncio.get_running_loop()
        self._channel: Channel | None = None

    def connect(self) -> ChannelLine:
        return ChannelLine(self._network, self._address, self.name, self._buffers)

    async def ask(self, request: Request[AnyResponse], version: int | None = None) -> AnyResponse:
        """Errors: OSError, KafkaError."""
        if self._channel is None or self._channel.is_closed:
            host, port = self._address
            self._channel = await Channel.connect(
                self._network, host, port, client_id=self.name, timeout_s=TIMEOUT_S, buffers=self._buffers
            )
        return await self._channel.send(request, version)


def fetch_request(positions: list[tuple[TopicPartition, int]], *, max_bytes: int) -> FetchRequest:
    """A fetch of committed records."""
    topics: dict[str, list[FetchPartition]] = {}
    for partition, offset in positions:
        asked = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        topics.setdefault(partition.topic, []).append(asked)
    return FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=COMMITTED,
        topics=[FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )


def committed_records(partition: PartitionData, start_offset: int = 0) -> tuple[int, list[tuple[int, int]]]:
    """(next offset, (offset, value) of each record that counts).  Records are filtered by the answer's list of aborted transactions."""
    assert not isinstance(partition.records, FileSlice)
    written = list(written_in(memoryview(partition.records or b"")))
    aborted = [(each.first_offset, each.producer_id) for each in partition.aborted_transactions or ()]
    found = [(offset, value) for offset, value in not_aborted(written, aborted) if offset >= start_offset and value != OF_NO_TRANSACTION]
    return (written[-1].next_offset if written else start_offset), found


def offsets_request(group: str) -> OffsetFetchRequest:
    """A request for the group's stable offsets, which no open transaction can move any more."""
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=True)


def code_of_offsets(response: OffsetFetchResponse) -> int:
    (group,) = response.groups
    codes = [one.error_code for topic in group.topics for one in topic.partitions if one.error_code]
    return group.error_code or (codes[0] if codes else 0)


def code_of_fetch(response: FetchResponse) -> int:
    return response.error_code or response.responses[0].partitions[0].error_code


def raise_for(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode.of(code))
