"""● AlterReplicaLogDirs: replicas move to another folder of this broker, while they serve.

Versions       1-2.
Authorises     ALTER on the cluster.
Behaviour      Answered once the move has begun; DescribeLogDirs tells how far it is.  A replica that is there already stays, and a move
               of it to somewhere else is broken off.  For a partition that is not here the folder is remembered: it will be made there.
Errors         LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR for a folder that is offline, INVALID_TOPIC_EXCEPTION for a name too long to move,
               REPLICA_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Kafka: a move goes on when another folder is offline; Kafka begins none then.
"""

from moldau.errors import ErrorCode
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.pieces import in_pieces
from moldau.server.requests.registry import handles
from moldau.storage.folders.names import fits_set_aside
from moldau.types import TopicPartition


@handles(AlterReplicaLogDirsRequest)
async def alter_replica_log_dirs(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    wanted: dict[TopicPartition, str] = {}

    def note(named: tuple[str, str, int]) -> None:
        path, topic, number = named
        wanted[TopicPartition(topic, number)] = path

    await in_pieces(
        broker.clock,
        note,
        ((directory.path, topic.name, number) for directory in request.dirs for topic in directory.topics for number in topic.partitions),
    )
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}

    def alter(where: TopicPartition) -> None:
        code = _alter(broker, where, wanted[where])
        results.setdefault(where.topic, []).append(AlterReplicaLogDirPartitionResult(partition_index=where.partition, error_code=code))

    await in_pieces(broker.clock, alter, wanted)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in results.items()]
    )


def _alter(broker: Broker, where: TopicPartition, path: str) -> ErrorCode:
    if not fits_set_aside(where):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    target = broker.logs.directory_at(path)
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = broker.replicas.hosted.get(where)
    if not target.is_online or (partition is not None and partition.log.failure is not None):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition is None:
        broker.logs.prefer(where, target)
        is_known = broker.cluster.has_partition(where.topic, where.partition)
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        broker.mover.move(where, target)
    except OSError as error:
        broker.complain(f"{where} cannot move to {path}: {error}")
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
