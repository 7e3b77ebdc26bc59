"""◇ Leaders and in-sync sets on request: ElectLeaders, AlterPartition, AlterPartitionReassignments, ListPartitionReassignments.

Source: ReplicationControlManager; KIP-455, 460, 497, 704, 841, 903.
"""

from collections.abc import Sequence
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import UNCHANGED, merge
from moldau.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from moldau.metadata.outcome import Outcome
from moldau.metadata.partition_change import RECOVERED, RECOVERING, Election, change_of
from moldau.metadata.producer_ids import check_broker_epoch
from moldau.metadata.records import PartitionChangeRecord
from moldau.metadata.topics import check_replicas
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from moldau.protocol.wire import StoredRecord
from moldau.types import NO_LEADER

PREFERRED: Final = 0
UNCLEAN: Final = 1

MESSAGES: Final = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


# ---------------------------------------------------------------------- elections


def elect_leaders(image: MetadataImage, schema: ConfigSchema, request: ElectLeadersRequest) -> Outcome[ElectLeadersResponse]:
    """Elect leaders on request.

    Errors per partition: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE; INVALID_REQUEST for an unknown election type.
    """
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[StoredRecord] = []
    if request.topic_partitions is None:
        asked = [(topic.name, list(range(len(topic.partitions)))) for topic in image.topics.values()]
    else:
        asked = [(one.topic, one.partitions) for one in request.topic_partitions]
    results = []
    for name, numbers in asked:
        partition_results = []
        for number in numbers:
            code, text = _elect(image, schema, (name, number), request.election_type, records)
            if request.topic_partitions is None and code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            partition_results.append(PartitionResult(partition_id=number, error_code=code, error_message=text))
        results.append(ReplicaElectionResult(topic=name, partition_result=partition_results))
    return Outcome(ElectLeadersResponse(replica_election_results=results), records, is_atomic=False)


def _elect(
    image: MetadataImage, schema: ConfigSchema, where: tuple[str, int], kind: int, records: list[StoredRecord]
) -> tuple[ErrorCode, str | None]:
    name, number = where
    topic = image.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    partition = image.partition(name, number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}"
    is_needless = partition.leader == partition.preferred_leader if kind == PREFERRED else partition.leader != NO_LEADER
    if is_needless:
        return ErrorCode.ELECTION_NOT_NEEDED, MESSAGES[ErrorCode.ELECTION_NOT_NEEDED]
    change = change_of(image, schema, topic, number)
    change.election = Election.PREFERRED if kind == PREFERRED else Election.UNCLEAN
    record = change.record()
    if record is None:
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if kind == PREFERRED else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        return code, MESSAGES[code]
    records.append(record)
    return ErrorCode.NONE, None


# ---------------------------------------------------------------------- in-sync sets


def alter_partition(
    image: MetadataImage, schema: ConfigSchema, request: AlterPartitionRequest, *, version: int
) -> Outcome[AlterPartitionResponse]:
    """Change an in-sync set as its leader proposes.

    Errors: STALE_BROKER_EPOCH; per partition UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_CONTROLLER, FENCED_LEADER_EPOCH,
    INVALID_REQUEST, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, NEW_LEADER_ELECTED.
    """
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    records: list[StoredRecord] = []
    answered = []
    for asked_topic in request.topics:
        topic = image.topic(asked_topic.topic_id)
        partitions = []
        for asked in asked_topic.partitions:
            if topic is None:
                partitions.append(_isr_refused(asked.partition_index, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                partitions.append(_alter_isr(image, schema, request.broker_id, topic, asked, version, records))
        answered.append(AlterPartitionResponseTopicData(topic_id=asked_topic.topic_id, partitions=partitions))
    return Outcome(AlterPartitionResponse(topics=answered), records, is_atomic=False)


def _isr_refused(number: int, code: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=number, error_code=code, leader_id=0, leader_epoch=0, isr=[], partition_epoch=0
    )


def _alter_isr(
    image: MetadataImage,
    schema: ConfigSchema,
    broker_id: int,
    topic: TopicImage,
    asked: AlterPartitionRequestPartitionData,
    version: int,
    records: list[StoredRecord],
) -> AlterPartitionResponsePartitionData:
    number = asked.partition_index
    partition = image.partition(topic.name, number)
    if partition is None:
        return _isr_refused(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    proposed = asked.new_isr_with_epochs if version >= 3 else [BrokerState(broker_id=one) for one in asked.new_isr]
    code = _isr_refusal(image, broker_id, partition, asked, proposed)
    if code is not ErrorCode.NONE:
        return _isr_refused(number, code)
    change = change_of(image, schema, topic, number)
    change.isr = [one.broker_id for one in proposed]
    change.recovery_state = asked.leader_recovery_state
    record = change.record()
    if record is not None:
        records.append(record)
        partition = merge(partition, record)
        if record.leader not in (broker_id, UNCHANGED):
            return _isr_refused(number, ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResponsePartitionData(
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _isr_refusal(
    image: MetadataImage,
    broker_id: int,
    partition: PartitionRegistration,
    asked: AlterPartitionRequestPartitionData,
    proposed: Sequence[BrokerState],
) -> ErrorCode:
    """The reason to refuse this in-sync set; NONE if it is valid.

    The order of the checks matters: the first answer tells a leader what it does not know yet.
    """
    isr = [one.broker_id for one in proposed]
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    for one in proposed:
        broker = image.brokers.get(one.broker_id)
        if broker is None or not broker.is_active or one.broker_epoch not in (-1, broker.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


# ---------------------------------------------------------------------- reassignments


def alter_partition_reassignments(
    image: MetadataImage, schema: ConfigSchema, request: AlterPartitionReassignmentsRequest
) -> Outcome[AlterPartitionReassignmentsResponse]:
    """Move partitions to other brokers.  Errors per partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS.
    """
    records: list[StoredRecord] = []
    responses = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            code, text = ErrorCode.NONE, None
            try:
                record = _reassign(image, schema, topic.name, asked, keep_factor=not request.allow_replication_factor_change)
                if record is not None:
                    records.append(record)
            except KafkaError as error:
                code, text = error.code, None if error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS else error.detail
            partitions.append(ReassignablePartitionResponse(partition_index=asked.partition_index, error_code=code, error_message=text))
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, responses=responses
    )
    return Outcome(response, records, is_atomic=False)


def _reassign(
    image: MetadataImage, schema: ConfigSchema, name: str, asked: ReassignablePartition, *, keep_factor: bool
) -> PartitionChangeRecord | None:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = image.partition(name, asked.partition_index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{asked.partition_index}.")
    if asked.replicas is None:
        return _cancel(image, schema, topic, asked.partition_index)
    check_replicas(image, asked.replicas)
    if keep_factor:
        _check_factor(partition, len(asked.replicas))
    change = change_of(image, schema, topic, asked.partition_index)
    change.election = Election.ONLINE
    # Replicas that an earlier reassignment was adding count as present: they may be in sync, and must be removed like any other.
    change.removing = sorted(set(partition.replicas) - set(asked.replicas))
    change.adding = sorted(set(asked.replicas) - set(partition.replicas))
    change.replicas = [*asked.replicas, *change.removing]
    return change.record()


def _check_factor(partition: PartitionRegistration, wanted: int) -> None:
    """Check that the number of replicas stays.  Errors: KafkaError INVALID_REPLICATION_FACTOR."""
    current = len((set(partition.replicas) | set(partition.adding_replicas)) - set(partition.removing_replicas))
    if wanted != current:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {current} to {wanted}")


def _cancel(image: MetadataImage, schema: ConfigSchema, topic: TopicImage, number: int) -> PartitionChangeRecord | None:
    """Cancel a reassignment and go back to the former replicas.  If none of them is in sync, records would be lost: this is refused unless
    unclean elections are on.

    Errors: KafkaError NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT.
    """
    partition = topic.partitions[number]
    if not partition.is_reassigning:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    change = change_of(image, schema, topic, number)
    change.replicas = [one for one in partition.replicas if one not in partition.adding_replicas]
    change.isr = [one for one in partition.isr if one not in partition.adding_replicas]
    if not change.isr:
        if change.election is not Election.UNCLEAN:
            text = f"Unable to revert partition assignment for {topic.name}:{number} because it would require an unclean leader election."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        change.isr = change.replicas[:1]
    change.removing, change.adding = (), ()
    return change.record()


def list_partition_reassignments(image: MetadataImage, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """The reassignments under way, of all partitions or of the listed ones.  Unknown topics and partitions are left out."""
    if request.topics is None:
        asked = [(topic.name, list(range(len(topic.partitions)))) for topic in image.topics.values()]
    else:
        asked = [(one.name, one.partition_indexes) for one in request.topics]
    found = []
    for name, numbers in asked:
        moving = []
        for number in numbers:
            partition = image.partition(name, number)
            if partition is not None and partition.is_reassigning:
                moving.append(
                    OngoingPartitionReassignment(
                        partition_index=number,
                        replicas=list(partition.replicas),
                        adding_replicas=list(partition.adding_replicas),
                        removing_replicas=list(partition.removing_replicas),
                    )
                )
        if moving:
            found.append(OngoingTopicReassignment(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(topics=found)
