"""● What an administrator does with partitions: elect their leaders, move them to other brokers, move replicas between a broker's folders.

Source: Admin.electLeaders, alterPartitionReassignments, alterReplicaLogDirs, describeReplicaLogDirs; KIP-113, 455, 460.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from moldau.clients.admin.admin import Admin

TIMEOUT_MS: Final = 30_000


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


class Replica(NamedTuple):
    """One copy of a partition."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ReplicaFolders(NamedTuple):
    """Where a replica is, and where it is on its way to."""

    current: str | None = None
    future: str | None = None


Answers = dict[TopicPartition, KafkaError | None]


class PartitionAdmin:
    def __init__(self, admin: "Admin") -> None:
        self.admin: Final = admin
        self._cluster: Final = admin.cluster

    async def elect_leaders(self, kind: ElectionType, partitions: Collection[TopicPartition] | None) -> Answers:
        """`partitions` None: all for which there is something to do."""
        topics = None if partitions is None else [TopicPartitions(topic=name, partitions=found) for name, found in _numbers(partitions)]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=TIMEOUT_MS)
        response = await self._cluster.send(request, extra_s=TIMEOUT_MS / 1000)
        _raise_for(response.error_code)
        return {
            TopicPartition(topic.topic, one.partition_id): _error(one.error_code, one.error_message)
            for topic in response.replica_election_results
            for one in topic.partition_result
        }

    async def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True) -> Answers:
        """The brokers that each partition is to be on, the first to lead; None ends a move that is under way."""
        topics = [
            ReassignableTopic(name=name, partitions=[_to_brokers(number, targets[TopicPartition(name, number)]) for number in numbers])
            for name, numbers in _numbers(targets)
        ]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, allow_replication_factor_change=may_change_factor, topics=topics
        )
        response = await self._cluster.send(request, extra_s=TIMEOUT_MS / 1000)
        _raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, one.partition_index): _error(one.error_code, one.error_message)
            for topic in response.responses
            for one in topic.partitions
        }

    async def move_replicas(self, folders: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
        """Within their brokers.  REPLICA_NOT_AVAILABLE: it is not there yet, and will be made in that folder."""
        answers: dict[Replica, KafkaError | None] = {}
        for broker_id, replicas in _by_broker(folders).items():
            by_folder: dict[str, list[TopicPartition]] = defaultdict(list)
            for one in replicas:
                by_folder[folders[one]].append(one.topic_partition)
            dirs = [
                AlterReplicaLogDir(
                    path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=found) for name, found in _numbers(here)]
                )
                for path, here in by_folder.items()
            ]
            response = await self._cluster.send(AlterReplicaLogDirsRequest(dirs=dirs), node_id=broker_id)
            for topic in response.results:
                for each in topic.partitions:
                    answers[Replica(topic.topic_name, each.partition_index, broker_id)] = _error(each.error_code)
        return answers

    async def folders_of(self, replicas: Collection[Replica]) -> dict[Replica, ReplicaFolders]:
        found = dict.fromkeys(replicas, ReplicaFolders())
        for broker_id, here in _by_broker(replicas).items():
            answer = (await self.admin.describe_log_dirs([broker_id], partitions=[one.topic_partition for one in here]))[broker_id]
            if isinstance(answer, KafkaError):
                raise answer
            for folder in answer:
                for topic in folder.topics:
                    for one in topic.partitions:
                        replica = Replica(topic.name, one.partition_index, broker_id)
                        if replica in found:
                            known = found[replica]
                            is_future = one.is_future_key
                            found[replica] = known._replace(future=folder.log_dir) if is_future else known._replace(current=folder.log_dir)
        return found


def _to_brokers(number: int, replicas: Sequence[int] | None) -> ReassignablePartition:
    return ReassignablePartition(partition_index=number, replicas=None if replicas is None else list(replicas))


def _numbers(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """By topic."""
    groups: dict[str, list[int]] = defaultdict(list)
    for one in partitions:
        groups[one.topic].append(one.partition)
    return list(groups.items())


def _by_broker(replicas: Iterable[Replica]) -> dict[int, list[Replica]]:
    groups: dict[int, list[Replica]] = defaultdict(list)
    for one in replicas:
        groups[one.broker_id].append(one)
    return groups


def _error(code: int, message: str | None = None) -> KafkaError | None:
    return KafkaError(ErrorCode.of(code), message) if code else None


def _raise_for(code: int, message: str | None = None) -> None:
    error = _error(code, message)
    if error is not None:
        raise error
