"""◇ AssignReplicasToDirs: a broker reports the log directory of each of its replicas (KIP-858).

The controller has to know: when a broker reports a directory as failed, the replicas in it are in sync no more.  One that is assigned to a
directory which is offline already leaves its in-sync set at once.

A replica that begins anew because its directory is gone has lost its log: where there are other replicas, it must not lead until it has
fetched from one of them.  Where it was the last known leader, or without eligible replicas the last one in sync, Kafka 4.3.1 elects it
when the next broker is unfenced, and all replicas truncate to its empty log.  A replica whose directory was not told before its broker
came back with other directories counts as in one that is gone, see `brokers.register_broker`.
Source: ReplicationControlManager.handleAssignReplicasToDirs.
"""

from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.features import is_directory_assignment_supported
from moldau.metadata.image import BrokerRegistration, MetadataImage
from moldau.metadata.outcome import Outcome
from moldau.metadata.partition_change import Election, change_of
from moldau.metadata.producer_ids import check_broker_epoch
from moldau.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from moldau.protocol.wire import StoredRecord


def assign_replicas_to_dirs(
    image: MetadataImage, schema: ConfigSchema, request: AssignReplicasToDirsRequest
) -> Outcome[AssignReplicasToDirsResponse]:
    """Note the log directories of replicas.

    Errors: UNSUPPORTED_VERSION, STALE_BROKER_EPOCH; per partition UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER
    when the broker has no replica of it.
    """
    if not is_directory_assignment_supported(image.metadata_version):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    broker = image.brokers[request.broker_id]
    records: list[StoredRecord] = []
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            partitions = []
            for asked in topic.partitions:
                code = _assign(image, schema, broker, (topic.topic_id, asked.partition_index), directory.id, records)
                partitions.append(AssignReplicasToDirsResponsePartitionData(partition_index=asked.partition_index, error_code=code))
            topics.append(AssignReplicasToDirsResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
        directories.append(AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics))
    return Outcome(AssignReplicasToDirsResponse(directories=directories), records, is_atomic=False)


def _assign(
    image: MetadataImage,
    schema: ConfigSchema,
    broker: BrokerRegistration,
    where: tuple[UUID, int],
    directory_id: UUID,
    records: list[StoredRecord],
) -> ErrorCode:
    topic_id, number = where
    topic = image.topic(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= number < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions[number]
    if broker.id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    change = change_of(image, schema, topic, number)
    change.new_directories = {broker.id: directory_id}
    may_lead, is_online = change.may_lead, broker.has_online_dir(directory_id)
    # The new directory decides: a replica whose disk was replaced could not lead before, and nothing else would elect it.
    change.may_lead = lambda one: broker.is_active and is_online if one == broker.id else may_lead(one)
    before = partition.directory_of(broker.id)
    if is_online and (len(partition.replicas) == 1 or before is None or broker.has_online_dir(before)):
        change.election = Election.ONLINE
    elif is_online:
        change.isr = [one for one in partition.isr if one != broker.id]
        change.lost_their_log = change.lost_their_disk = (broker.id,)
    else:
        change.isr = [one for one in partition.isr if one != broker.id]
    record = change.record()
    if record is not None:
        records.append(record)
    return ErrorCode.NONE
