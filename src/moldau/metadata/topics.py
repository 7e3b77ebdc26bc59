"""◇ CreateTopics, DeleteTopics, CreatePartitions: every check in Kafka's order, one atomic batch a request.

Topics of one request do not depend on each other: a refused topic does not keep the others from being created.  Only a request that
would write more than 10,000 records is refused as a whole.

Source: ReplicationControlManager, ControllerApis.scala; KIP-4, 195, 525, 516.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema, Effective
from moldau.metadata.configs import set_records
from moldau.metadata.image import MetadataImage, PartitionRegistration, Resource, ResourceType, TopicImage, partition_record
from moldau.metadata.outcome import MAX_BATCH_RECORDS, Outcome
from moldau.metadata.partition_change import default_directory
from moldau.metadata.placement import Chance, UsableBroker, place
from moldau.metadata.records import RemoveTopicRecord, TopicRecord
from moldau.metadata.topic_names import invalid_topic_reason, unified
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from moldau.protocol.wire import StoredRecord
from moldau.types import METADATA_TOPIC, ZERO_UUID

TOO_MUCH: Final = "Excessively large number of partitions per request."


@dataclass(slots=True, frozen=True)
class TopicRules:
    """The knowledge that a decision about topics needs beside the image.

    `new_id` gives a fresh topic id; `chance` spreads leaders over brokers.
    """

    schema: ConfigSchema
    num_partitions: int
    replication_factor: int
    new_id: Callable[[], UUID]
    chance: Chance


# ---------------------------------------------------------------------- creating


def create_topics(image: MetadataImage, rules: TopicRules, request: CreateTopicsRequest) -> Outcome[CreateTopicsResponse]:
    """Make topics.

    Errors per topic: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_CONFIG, INVALID_REQUEST, INVALID_REPLICATION_FACTOR,
    INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT; POLICY_VIOLATION for all.
    """
    times = Counter(topic.name for topic in request.topics)
    defaults = {config.name: _told(config) for config in rules.schema.new_topic_configs(image, {})}
    results: list[CreatableTopicResult] = []
    records: list[StoredRecord] = []
    for topic in request.topics:
        if times[topic.name] > 1 or topic.name == METADATA_TOPIC:
            continue
        try:
            made, result = _create_topic(image, rules, topic, defaults)
        except KafkaError as error:
            results.append(_refused(topic.name, error))
            continue
        if len(records) + len(made) > MAX_BATCH_RECORDS:
            too_much = KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MUCH)
            return Outcome(CreateTopicsResponse(topics=[_refused(one.name, too_much) for one in request.topics]))
        records += made
        results.append(result)
    for name, count in times.items():
        if count > 1:
            results.append(_refused(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        elif name == METADATA_TOPIC:
            prohibited = KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
            results.append(_refused(name, prohibited))
    return Outcome(CreateTopicsResponse(topics=results), [] if request.validate_only else records)


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.detail)


def _create_topic(
    image: MetadataImage, rules: TopicRules, topic: CreatableTopic, defaults: Mapping[str, CreatableTopicConfigs]
) -> tuple[list[StoredRecord], CreatableTopicResult]:
    """`defaults`: the configs of a topic that overrides none, made once for all topics of a request.  Errors: KafkaError."""
    _check_name(image, topic.name)
    overrides = _overrides(image, rules, topic)
    assignment = _assignment(image, rules, topic)
    topic_id = rules.new_id()
    records: list[StoredRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += set_records(Resource(ResourceType.TOPIC, topic.name), overrides, {})
    records += [partition_record(topic_id, number, _new_partition(image, replicas)) for number, replicas in enumerate(assignment)]
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        num_partitions=len(assignment),
        replication_factor=len(assignment[0]),
        configs=[
            _told(config) if config.name in overrides else defaults[config.name]
            for config in rules.schema.new_topic_configs(image, overrides)
        ]
        if overrides
        else list(defaults.values()),
    )
    return records, result


def _told(config: Effective) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=config.name,
        value=config.value,
        read_only=False,
        config_source=config.source,
        is_sensitive=config.option.is_sensitive,
    )


def _check_name(image: MetadataImage, name: str) -> None:
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    by = unified(name)
    if by is not None and by in image.colliding_names:
        colliding = image.colliding_names[by][0]
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding}")
    reason = invalid_topic_reason(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def _overrides(image: MetadataImage, rules: TopicRules, topic: CreatableTopic) -> dict[str, str]:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    refusal = rules.schema.validate_topic(overrides, broker_count=len(image.brokers))
    if refusal is not None:
        raise KafkaError(refusal.code, refusal.message)
    return overrides


def _assignment(image: MetadataImage, rules: TopicRules, topic: CreatableTopic) -> list[tuple[int, ...]]:
    """Replicas of each partition.  Errors: KafkaError."""
    if topic.assignments:
        return _manual_assignment(image, topic)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    factor = rules.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    count = rules.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    try:
        return _place(image, rules, count, factor)
    except KafkaError as error:
        raise KafkaError(error.code, f"Unable to replicate the partition {factor} time(s): {error.detail}") from None


def _place(image: MetadataImage, rules: TopicRules, count: int, factor: int) -> list[tuple[int, ...]]:
    brokers = [
        UsableBroker(one.id, one.rack, one.fenced)
        for one in image.brokers.values()
        if not one.in_controlled_shutdown and one.has_uncordoned_dirs
    ]
    # A request for more than may be written is refused anyway: there is no need to place a billion partitions first.
    placed = place(brokers, partition_count=min(count, MAX_BATCH_RECORDS + 1), replication_factor=factor, chance=rules.chance)
    for replicas in placed:
        if not any(map(image.is_active, replicas)):
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced or in controlled shutdown.")
    return placed


def _manual_assignment(image: MetadataImage, topic: CreatableTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor != -1:
        text = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    if topic.num_partitions != -1:
        text = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    assigned: dict[int, tuple[int, ...]] = {}
    factor = None
    for one in topic.assignments:
        if one.partition_index in assigned:
            text = f"Found multiple manual partition assignments for partition {one.partition_index}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        _check_new_replicas(image, one.broker_ids, factor, one.partition_index)
        factor = len(one.broker_ids)
        assigned[one.partition_index] = tuple(one.broker_ids)
    if any(number not in assigned for number in range(len(assigned))):
        text = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return [assigned[number] for number in range(len(assigned))]


def _check_new_replicas(image: MetadataImage, replicas: Sequence[int], factor: int | None, number: int) -> None:
    """Check the replicas of a new partition that were assigned by hand.  Errors: KafkaError INVALID_REPLICA_ASSIGNMENT."""
    check_replicas(image, replicas, factor)
    if not any(map(image.is_active, replicas)):
        text = f"All brokers specified in the manual partition assignment for partition {number} are fenced or in controlled shutdown."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def check_replicas(image: MetadataImage, replicas: Sequence[int], factor: int | None = None) -> None:
    """Check that assigned replicas are registered brokers, each once, and `factor` of them if that is given.

    Errors: KafkaError INVALID_REPLICA_ASSIGNMENT.
    """

    def refuse(text: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)

    if not replicas:
        raise refuse("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise refuse(f"The manual partition assignment includes broker {broker}, but no such broker is registered.")
        if broker == previous:
            raise refuse(f"The manual partition assignment includes the broker {broker} more than once.")
        previous = broker
    if factor is not None and len(replicas) != factor:
        raise refuse(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {factor} replica(s)."
        )


def _new_partition(image: MetadataImage, replicas: tuple[int, ...]) -> PartitionRegistration:
    isr = tuple(filter(image.is_active, replicas))
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(default_directory(image, one) for one in replicas),
        isr=isr,
        removing_replicas=(),
        adding_replicas=(),
        elr=(),
        last_known_elr=(),
        leader=isr[0],
        leader_recovery_state=0,
        leader_epoch=0,
        partition_epoch=0,
    )


# ---------------------------------------------------------------------- deleting


def delete_topics(image: MetadataImage, request: DeleteTopicsRequest, *, is_enabled: bool, version: int) -> Outcome[DeleteTopicsResponse]:
    """Remove topics, by name or by id.

    Errors: TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3), INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
    UNKNOWN_TOPIC_ID.
    """
    if not is_enabled:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
    responses: list[DeletableTopicResult] = []
    records: list[StoredRecord] = []

    def answer(name: str | None, topic_id: UUID, code: ErrorCode, text: str | None = None) -> None:
        message = None if code is ErrorCode.NONE else text or MESSAGES[code]
        responses.append(DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message))

    names = Counter(request.topic_names)
    ids: Counter[UUID] = Counter()
    for one in request.topics:
        if one.name is not None and one.topic_id != ZERO_UUID:
            answer(one.name, one.topic_id, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        elif one.name is not None:
            names[one.name] += 1
        elif one.topic_id == ZERO_UUID:
            answer(None, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        else:
            ids[one.topic_id] += 1
    for name, count in names.items():
        topic = image.topics.get(name)
        if count > 1:
            answer(name, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif topic is None:
            answer(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic.id in ids:
            text = "The provided topic name maps to an ID that was already supplied."
            answer(name, topic.id, ErrorCode.INVALID_REQUEST, text)
            ids[topic.id] = 0
        else:
            records.append(RemoveTopicRecord(topic_id=topic.id))
            answer(name, topic.id, ErrorCode.NONE)
    for topic_id, count in ids.items():
        topic = image.topic(topic_id)
        if count > 1:
            answer(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        elif topic is None:
            answer(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        elif count == 1:
            records.append(RemoveTopicRecord(topic_id=topic_id))
            answer(topic.name, topic_id, ErrorCode.NONE)
    if len(records) > MAX_BATCH_RECORDS:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MUCH)
    return Outcome(DeleteTopicsResponse(responses=responses), records)


MESSAGES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}
"""Kafka's texts for codes without a detail."""


# ---------------------------------------------------------------------- growing


def create_partitions(image: MetadataImage, rules: TopicRules, request: CreatePartitionsRequest) -> Outcome[CreatePartitionsResponse]:
    """Add partitions to topics.

    Errors per topic: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR, POLICY_VIOLATION.
    """
    times = Counter(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name.")
        for name, count in times.items()
        if count > 1
    ]
    records: list[StoredRecord] = []
    for asked in request.topics:
        if times[asked.name] > 1:
            continue
        try:
            made = _new_partitions(image, rules, asked)
            if len(records) + len(made) > MAX_BATCH_RECORDS:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MUCH)
        except KafkaError as error:
            message = None if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.detail
            results.append(CreatePartitionsTopicResult(name=asked.name, error_code=error.code, error_message=message))
        else:
            records += made
            results.append(CreatePartitionsTopicResult(name=asked.name))
    return Outcome(CreatePartitionsResponse(results=results), [] if request.validate_only else records)


def _new_partitions(image: MetadataImage, rules: TopicRules, asked: CreatePartitionsTopic) -> list[StoredRecord]:
    topic = image.topics.get(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(topic.partitions)
    if asked.count == have:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if asked.count < have:
        text = f"The topic {asked.name} currently has {have} partition(s); {asked.count} would not be an increase."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    placed = _more_replicas(image, rules, topic, asked)
    return [partition_record(topic.id, number, _new_partition(image, replicas)) for number, replicas in enumerate(placed, have)]


def _more_replicas(image: MetadataImage, rules: TopicRules, topic: TopicImage, asked: CreatePartitionsTopic) -> list[tuple[int, ...]]:
    have = len(topic.partitions)
    additional = asked.count - have
    factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        return _place(image, rules, additional, factor)
    if len(asked.assignments) != additional:
        text = f"Attempted to add {additional} additional partition(s), but only {len(asked.assignments)} assignment(s) were specified."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    for number, one in enumerate(asked.assignments, have):
        _check_new_replicas(image, one.broker_ids, factor, number)
    return [tuple(one.broker_ids) for one in asked.assignments]
