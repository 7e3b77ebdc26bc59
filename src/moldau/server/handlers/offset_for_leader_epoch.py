"""● OffsetForLeaderEpoch: the end of a leader epoch, so that a reader or follower finds out where it must truncate.

Versions       2-4.
Authorises     DESCRIBE on each topic; CLUSTER_ACTION for followers.
Behaviour      The largest epoch that is not newer than the asked one, and its end offset (exclusive); -1 and -1 if there is none.
Version notes  3+ a replica id, -1 for a consumer.
Errors         UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
Differs from Kafka: nothing known.
"""

from moldau.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic=topic.topic, partitions=[_end_of(broker, topic.topic, asked) for asked in topic.partitions])
            for topic in request.topics
        ]
    )


def _end_of(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.replicas.hosted.get((topic, asked.partition))
    if partition is None:
        code = broker.refusal_of_absent(topic, asked.partition)
    else:
        code = partition.refusal_of(asked.current_leader_epoch, from_leader_only=True)
    if partition is None or code:
        return EpochEndOffset(error_code=code, partition=asked.partition)
    end = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)
