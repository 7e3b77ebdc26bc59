"""● Tells the controller the folder of each replica whose metadata differs (KIP-858).

Most assignments come many at a time, when a topic is made or a broker starts, so they wait a moment and go together.  A failed request is
sent again.

Source: AssignmentsManager.  Called by `publisher.py` and when a log has moved.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from moldau.background import in_background
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from moldau.server.peers.controller import ControllerCalls

LOG: Final = logging.getLogger(__name__)

TOGETHER_MS: Final = 50
RETRY_MS: Final = 1000
MAX_AT_ONCE: Final = 2250
"""The most assignments in one request, as in Kafka."""
GONE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Errors after which an assignment is no longer needed."""


class Replica(NamedTuple):
    topic_id: UUID
    partition: int


class DirectoryAssignments:
    """See the module.  `broker_epoch` is below 0 until the broker is registered."""

    def __init__(self, controller: ControllerCalls, *, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._controller: Final = controller
        self._broker_id: Final = broker_id
        self._broker_epoch: Final = broker_epoch
        self._waiting: dict[Replica, UUID] = {}
        self._task: asyncio.Task[None] | None = None

    def want(self, topic_id: UUID, partition: int, directory_id: UUID) -> None:
        """Tell the controller a replica's folder.  The newest call for a replica counts."""
        self._waiting[Replica(topic_id, partition)] = directory_id
        if self._task is None:
            self._task = in_background(self._work(), name="directory assignments")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        pause_ms = TOGETHER_MS
        while self._waiting:
            await asyncio.sleep(pause_ms / 1000)
            if self._broker_epoch() < 0:
                continue
            pause_ms = TOGETHER_MS if await self._send(dict(list(self._waiting.items())[:MAX_AT_ONCE])) else RETRY_MS
        self._task = None

    async def _send(self, share: dict[Replica, UUID]) -> bool:
        """Send assignments.  True unless they have to be sent again."""
        try:
            response = await self._controller.ask(_request(self._broker_id, self._broker_epoch(), share))
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:  # the cluster's metadata.version knows no directories
                self._waiting.clear()
                return True
            LOG.debug("assignments to directories refused: %s", error)
            return False
        except Exception:
            LOG.exception("a mistake of ours, while the controller is told of directories")
            return False
        if response.error_code:
            return False
        is_done = True
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    replica = Replica(topic.topic_id, partition.partition_index)
                    if partition.error_code not in (ErrorCode.NONE, *GONE):
                        is_done = False
                    elif self._waiting.get(replica) == directory.id:
                        del self._waiting[replica]
        return is_done


def _request(broker_id: int, broker_epoch: int, share: dict[Replica, UUID]) -> AssignReplicasToDirsRequest:
    directories: dict[UUID, dict[UUID, list[int]]] = {}
    for replica, directory_id in share.items():
        directories.setdefault(directory_id, {}).setdefault(replica.topic_id, []).append(replica.partition)
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory_id,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=number) for number in numbers],
                    )
                    for topic_id, numbers in topics.items()
                ],
            )
            for directory_id, topics in directories.items()
        ],
    )
