"""● DescribeTopicPartitions: topics with their partitions, page by page, eligible leader replicas among them.

Versions       0.
Authorises     DESCRIBE on each topic.
Behaviour      In the order of their names, from the cursor on, at most response_partition_limit partitions (and at most
               max.request.partition.size.limit); next_cursor says where the next page begins.
Errors         INVALID_REQUEST for an invalid cursor; UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION of a topic.
Differs from Kafka: an impossible name is answered with INVALID_TOPIC_EXCEPTION, and a cursor behind the last partition (up to 2^31-1) with
               no partitions; Kafka fails at both.
"""

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.image import MetadataImage, PartitionRegistration
from moldau.metadata.topic_names import invalid_topic_reason
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.server.handlers.authorized_operations import TOPIC_OPERATIONS
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.types import INTERNAL_TOPICS, ZERO_UUID


@handles(DescribeTopicPartitionsRequest)
def describe_topic_partitions(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = broker.loader.image
    names = _names(image, request)
    remaining = max(min(broker.config.server.max_request_partition_size_limit, request.response_partition_limit), 1)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor = None
    for name in names:
        if remaining == 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        start = request.cursor.partition_index if request.cursor is not None and request.cursor.topic_name == name else 0
        topic = _topic(image, context.client.listener, name, start, remaining)
        topics.append(topic)
        remaining -= len(topic.partitions)
        known = image.topics.get(name)
        if known is not None and start + len(topic.partitions) < len(known.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=start + len(topic.partitions))
            break
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def _names(image: MetadataImage, request: DescribeTopicPartitionsRequest) -> list[str]:
    """The names from the cursor's topic on.  Errors: KafkaError INVALID_REQUEST."""
    cursor = request.cursor
    since = "" if cursor is None else cursor.topic_name
    asked = [topic.name for topic in request.topics] or list(image.topics)
    names = sorted({name for name in asked if name >= since})
    if cursor is not None and request.topics and cursor.topic_name not in names:
        text = f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}")
    return names


def _topic(image: MetadataImage, listener: str, name: str, start: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
    topic = image.topics.get(name)
    if topic is None:
        is_valid = invalid_topic_reason(name) is None
        return DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
            name=name,
            topic_id=ZERO_UUID,
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
            topic_authorized_operations=TOPIC_OPERATIONS,
        )
    numbered = list(enumerate(topic.partitions))[start : start + limit]
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(image, listener, number, one) for number, one in numbered],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(image: MetadataImage, listener: str, number: int, one: PartitionRegistration) -> DescribeTopicPartitionsResponsePartition:
    leader = image.brokers.get(one.leader)
    is_reachable = leader is not None and not leader.fenced and leader.endpoint(listener) is not None
    is_elsewhere = leader is not None and not leader.fenced
    code = ErrorCode.NONE if is_reachable else ErrorCode.LISTENER_NOT_FOUND if is_elsewhere else ErrorCode.LEADER_NOT_AVAILABLE
    return DescribeTopicPartitionsResponsePartition(
        error_code=code,
        partition_index=number,
        leader_id=one.leader if is_reachable else -1,
        leader_epoch=one.leader_epoch,
        replica_nodes=list(one.replicas),
        isr_nodes=list(one.isr),
        eligible_leader_replicas=list(one.elr),
        last_known_elr=list(one.last_known_elr),
        offline_replicas=[replica for replica in one.replicas if not _is_online(image, listener, replica, one)],
    )


def _is_online(image: MetadataImage, listener: str, replica: int, one: PartitionRegistration) -> bool:
    broker = image.brokers.get(replica)
    directory = one.directory_of(replica)
    return (
        broker is not None
        and not broker.fenced
        and broker.endpoint(listener) is not None
        and (directory is None or broker.has_online_dir(directory))
    )
