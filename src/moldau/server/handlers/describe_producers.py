"""● DescribeProducers: the producers that have written to a partition lately, with or without an open transaction.

Versions       0.
Authorises     READ on each topic.
Errors         UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION (an invalid topic name).
Differs from Kafka: nothing known.
"""

from moldau.errors import ErrorCode
from moldau.metadata.topic_names import invalid_topic_reason
from moldau.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(DescribeProducersRequest)
def describe_producers(broker: Broker, context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[_producers_of(broker, topic.name, index) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _producers_of(broker: Broker, topic: str, index: int) -> PartitionResponse:
    if invalid_topic_reason(topic) is not None:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, active_producers=[])
    partition = broker.replicas.hosted.get((topic, index))
    if partition is None or not partition.is_leader:
        code = broker.refusal_of_absent(topic, index)
        return PartitionResponse(partition_index=index, error_code=code, active_producers=[])
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start_offset,
            )
            for producer in partition.log.active_producers()
        ],
    )
