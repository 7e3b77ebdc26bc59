"""● A follower's questions to its leader about one partition, beside fetches: a `tier_start.Leader` over a connection of its own.

The first question opens the connection.  Every question goes out under the leader epoch at which the line was made.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.replication.partition import Partition
from moldau.storage.epochs import EpochEnd
from moldau.types import OffsetAndEpoch

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
EARLIEST_PENDING_UPLOAD: Final = -6


class LeaderLine:
    """See the module.  Errors of each question: KafkaError, OSError."""

    def __init__(self, partition: Partition, local_id: int, connect: Callable[[], Awaitable[Channel]]) -> None:
        self._where: Final = partition.topic_partition
        self._leader_epoch: Final = partition.leader_epoch
        self._local_id: Final = local_id
        self._connect: Final = connect
        self._channel: Channel | None = None

    async def latest_offset(self) -> OffsetAndEpoch:
        return await self._offset_of(LATEST)

    async def earliest_offset(self) -> OffsetAndEpoch:
        return await self._offset_of(EARLIEST)

    async def earliest_local_offset(self) -> OffsetAndEpoch:
        return await self._offset_of(EARLIEST_LOCAL)

    async def earliest_pending_upload_offset(self) -> OffsetAndEpoch:
        return await self._offset_of(EARLIEST_PENDING_UPLOAD)

    async def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        topic, index = self._where
        asked = OffsetForLeaderPartition(partition=index, current_leader_epoch=self._leader_epoch, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(replica_id=self._local_id, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
        response = await (await self._connected()).send(request)
        for found in response.topics:
            for each in found.partitions:
                if (found.topic, each.partition) == self._where:
                    self._check(each.error_code)
                    return EpochEnd(each.leader_epoch, each.end_offset)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the leader's answer leaves out {self._where}")

    async def _offset_of(self, timestamp: int) -> OffsetAndEpoch:
        topic, index = self._where
        asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=self._leader_epoch, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=self._local_id, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        response = await (await self._connected()).send(request)
        for found in response.topics:
            for each in found.partitions:
                if (found.name, each.partition_index) == self._where:
                    self._check(each.error_code)
                    return OffsetAndEpoch(each.offset, each.leader_epoch)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the leader's answer leaves out {self._where}")

    @staticmethod
    def _check(error_code: int) -> None:
        if error_code:
            raise KafkaError(ErrorCode.of(error_code))

    async def _connected(self) -> Channel:
        if self._channel is None:
            self._channel = await self._connect()
        return self._channel

    def close(self) -> None:
        if self._channel is not None:
            self._channel.abort()
