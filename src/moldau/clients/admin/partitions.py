"""● Works on partitions: finds where they begin and end, deletes old records, elects leaders, moves partitions to other brokers and
replicas between a broker's folders.

Source: Admin.listOffsets, deleteRecords, describeProducers, describeLogDirs, listPartitionReassignments, electLeaders,
alterPartitionReassignments, alterReplicaLogDirs, describeReplicaLogDirs; KIP-107, 113, 455, 460, 664.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from moldau.clients.admin.answers import by_topic, error_of, raise_for
from moldau.clients.admin.leaders import Leaders, is_open
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.values import READ_UNCOMMITTED, TIMEOUT_MS
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from moldau.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from moldau.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from moldau.types import TopicPartition


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
    """The folder of a replica, and the folder that it is moving to."""

    current: str | None = None
    future: str | None = None


Answers = dict[TopicPartition, KafkaError | None]


class PartitionAdmin(Limited):
    """Answers are by partition; one that failed has its `KafkaError` there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._leaders: Final = Leaders(cluster)

    async def list_offsets(
        self, targets: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse | KafkaError]:
        """The offset of each target.  `targets`: a timestamp in milliseconds, or a special value such as EARLIEST.

        Offset -1: no record is as new as the timestamp.  The call is repeated while leaders move.
        """
        found: dict[TopicPartition, ListOffsetsPartitionResponse | KafkaError] = {}
        await self._leaders.know(targets)

        async def attempt() -> None:
            missing = {one: target for one, target in targets.items() if is_open(found.get(one))}
            for node_id, group in (await self._leaders.group(missing, found)).items():
                response = await self._cluster.send(
                    _list_offsets(group, missing, isolation_level), node_id=node_id, extra_s=TIMEOUT_MS / 1000
                )
                for topic in response.topics:
                    for one in topic.partitions:
                        found[TopicPartition(topic.name, one.partition_index)] = error_of(one.error_code) or one

        return await self._leaders.until_settled(attempt, found)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete everything below the given offsets.  Returns each partition's new first offset."""
        found: dict[TopicPartition, int | KafkaError] = {}
        await self._leaders.know(before)

        async def attempt() -> None:
            missing = [one for one in before if is_open(found.get(one))]
            for node_id, group in (await self._leaders.group(missing, found)).items():
                topics = [
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=number, offset=before[TopicPartition(topic, number)])
                            for number in members
                        ],
                    )
                    for topic, members in by_topic(group).items()
                ]
                request = DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)
                response = await self._cluster.send(request, node_id=node_id, extra_s=timeout_ms / 1000)
                for topic in response.topics:
                    for one in topic.partitions:
                        found[TopicPartition(topic.name, one.partition_index)] = error_of(one.error_code) or one.low_watermark

        return await self._leaders.until_settled(attempt, found)

    async def describe_producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        found: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
        await self._leaders.know(partitions)
        for node_id, group in (await self._leaders.group(partitions, found)).items():
            topics = [TopicRequest(name=topic, partition_indexes=members) for topic, members in by_topic(group).items()]
            response = await self._cluster.send(DescribeProducersRequest(topics=topics), node_id=node_id)
            for topic in response.topics:
                for one in topic.partitions:
                    error = error_of(one.error_code, one.error_message)
                    found[TopicPartition(topic.name, one.partition_index)] = error or one.active_producers
        return found

    async def describe_log_dirs(
        self, broker_ids: Sequence[int], *, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[int, list[DescribeLogDirsResult] | KafkaError]:
        """The folders of brokers with the partitions in them.  `partitions` None: all."""
        topics = None
        if partitions is not None:
            topics = [DescribableLogDirTopic(topic=topic, partitions=members) for topic, members in by_topic(partitions).items()]
        found: dict[int, list[DescribeLogDirsResult] | KafkaError] = {}
        for broker_id in broker_ids:
            response = await self._cluster.send(DescribeLogDirsRequest(topics=topics), node_id=broker_id)
            found[broker_id] = error_of(response.error_code) or response.results
        return found

    async def list_reassignments(self, partitions: Sequence[TopicPartition] | None) -> dict[TopicPartition, OngoingPartitionReassignment]:
        """The reassignments that are under way.  `partitions` None: those of all partitions."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=members) for topic, members in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics)
        response = await self._cluster.send_to_controller(request, lambda answer: answer.error_code)
        raise_for(response.error_code, response.error_message)
        return {TopicPartition(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}

    async def elect_leaders(self, kind: ElectionType, partitions: Collection[TopicPartition] | None) -> Answers:
        """Elect leaders.  `partitions` None: all partitions whose leader is not the wanted one."""
        topics = (
            None if partitions is None else [TopicPartitions(topic=name, partitions=found) for name, found in by_topic(partitions).items()]
        )
        request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=TIMEOUT_MS)
        response = await self._cluster.send_to_controller(request, _of_election, extra_s=TIMEOUT_MS / 1000)
        raise_for(response.error_code)
        return {
            TopicPartition(topic.topic, one.partition_id): error_of(one.error_code, one.error_message)
            for topic in response.replica_election_results
            for one in topic.partition_result
        }

    async def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True) -> Answers:
        """Move partitions to other brokers.

        `targets`: the brokers of each partition, the preferred leader first.  None cancels a reassignment that is under way.
        """
        topics = [
            ReassignableTopic(name=name, partitions=[_to_brokers(number, targets[TopicPartition(name, number)]) for number in numbers])
            for name, numbers in by_topic(targets).items()
        ]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, allow_replication_factor_change=may_change_factor, topics=topics
        )
        response = await self._cluster.send_to_controller(request, lambda answer: answer.error_code, extra_s=TIMEOUT_MS / 1000)
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, one.partition_index): error_of(one.error_code, one.error_message)
            for topic in response.responses
            for one in topic.partitions
        }

    async def move_replicas(self, folders: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
        """Move replicas to other folders of their brokers.

        REPLICA_NOT_AVAILABLE: the replica is not there yet, and will be made in that folder.
        """
        answers: dict[Replica, KafkaError | None] = {}
        for broker_id, replicas in _by_broker(folders).items():
            by_folder: dict[str, list[TopicPartition]] = defaultdict(list)
            for one in replicas:
                by_folder[folders[one]].append(one.topic_partition)
            dirs = [
                AlterReplicaLogDir(
                    path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=found) for name, found in by_topic(here).items()]
                )
                for path, here in by_folder.items()
            ]
            response = await self._cluster.send(AlterReplicaLogDirsRequest(dirs=dirs), node_id=broker_id)
            for topic in response.results:
                for each in topic.partitions:
                    answers[Replica(topic.topic_name, each.partition_index, broker_id)] = error_of(each.error_code)
        return answers

    async def folders_of(self, replicas: Collection[Replica]) -> dict[Replica, ReplicaFolders]:
        found = dict.fromkeys(replicas, ReplicaFolders())
        for broker_id, here in _by_broker(replicas).items():
            answer = (await self.describe_log_dirs([broker_id], partitions=[one.topic_partition for one in here]))[broker_id]
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


def _list_offsets(group: Iterable[TopicPartition], targets: Mapping[TopicPartition, int], isolation_level: int) -> ListOffsetsRequest:
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(partition_index=number, timestamp=targets[TopicPartition(topic, number)]) for number in members
            ],
        )
        for topic, members in by_topic(group).items()
    ]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=TIMEOUT_MS)


def _of_election(response: ElectLeadersResponse) -> int:
    """The error of the request; its first version has errors of partitions only."""
    found = [one.error_code for topic in response.replica_election_results for one in topic.partition_result]
    return response.error_code or (found[0] if found else ErrorCode.NONE)


def _by_broker(replicas: Iterable[Replica]) -> dict[int, list[Replica]]:
    groups: dict[int, list[Replica]] = defaultdict(list)
    for one in replicas:
        groups[one.broker_id].append(one)
    return groups
