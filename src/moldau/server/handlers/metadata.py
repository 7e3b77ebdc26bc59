"""● Metadata: brokers, topics, partitions and who leads them.

Versions       0-13.
Authorises     DESCRIBE on each topic; what may not be described is left out, or answered with TOPIC_AUTHORIZATION_FAILED when asked for.
Errors         UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, LEADER_NOT_AVAILABLE (of a partition).
Differs from Kafka: topics are not created on demand yet.
"""

from collections.abc import Iterable

from moldau.errors import ErrorCode
from moldau.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(MetadataRequest)
def metadata(broker: Broker, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    image = broker.loader.image
    listener = context.client.listener
    wants_all = request.topics is None or (context.version == 0 and not request.topics)
    found = [_topic(image, topic) for topic in image.topics.values()] if wants_all else _asked(image, request.topics or ())
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=one.id, host=endpoint.host, port=endpoint.port, rack=one.rack)
            for one in image.alive_brokers()
            if (endpoint := one.endpoint(listener)) is not None
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.config.node_id,
        topics=list(found),
    )


def _asked(image: MetadataImage, topics: Iterable[MetadataRequestTopic]) -> Iterable[MetadataResponseTopic]:
    for asked in topics:
        topic = image.topics.get(asked.name) if asked.name is not None else image.topic(asked.topic_id)
        if topic is not None:
            yield _topic(image, topic)
        elif asked.name is not None:
            yield MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=asked.name, partitions=[])
        else:
            yield MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id, partitions=[])


def _topic(image: MetadataImage, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name.startswith("__"),
        partitions=[_partition(number, one) for number, one in enumerate(topic.partitions)],
    )


def _partition(number: int, one: PartitionRegistration) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if one.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=one.leader,
        leader_epoch=one.leader_epoch,
        replica_nodes=list(one.replicas),
        isr_nodes=list(one.isr),
    )
