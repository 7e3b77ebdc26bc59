"""● DeleteRecords: removes the records before an offset.

Versions       0-2.
Authorises     DELETE on each topic.
Behaviour      The log start moves up; the next retention check deletes files.  Offset -1 is the high watermark.  The answer is the low
               watermark: the log start that every replica has reached.  It waits for followers that are behind, timeout_ms at most.
Errors         UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE, POLICY_VIOLATION (a topic that is compacted and not
               deleted), INVALID_TOPIC_EXCEPTION (an internal topic), REQUEST_TIMED_OUT.
Differs from Kafka: nothing known.
"""

from typing import Final

from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.replication.waits import ProduceWait
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

UNKNOWN_LOW_WATERMARK: Final = -1


@handles(DeleteRecordsRequest)
def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Later[DeleteRecordsResponse]:
    timeouts = broker.replicas.timeouts

    def leave() -> None:
        timeouts.discard(wait)

    def answer() -> None:
        leave()
        later.complete(response)

    later: Later[DeleteRecordsResponse] = Later(leave)
    wait = ProduceWait(answer)
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=[_delete(broker, topic.name, asked, wait) for asked in topic.partitions])
            for topic in request.topics
        ]
    )
    if not wait.pending:
        return response
    timeouts.add(wait, broker.clock.monotonic_ms() + max(0, request.timeout_ms))
    return later


def _delete(broker: Broker, topic: str, asked: DeleteRecordsPartition, wait: ProduceWait) -> DeleteRecordsPartitionResult:
    """The answer, or a provisional one until `wait` is settled."""
    partition = broker.replicas.hosted.get((topic, asked.partition_index))
    if not broker.cluster.has_partition(topic, asked.partition_index):
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.is_internal(topic):
        return _refused(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if partition is None or not partition.is_leader:
        return _refused(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if partition.log.config.is_compacted and not partition.log.config.is_deleted:
        return _refused(asked, ErrorCode.POLICY_VIOLATION)
    start = partition.delete_records_before(asked.offset)
    if isinstance(start, ErrorCode):
        return _refused(asked, start)
    low_watermark = partition.low_watermark
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=low_watermark)
    if low_watermark < start:
        partition.await_deletion(start, wait, result)
    return result


def _refused(asked: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=UNKNOWN_LOW_WATERMARK, error_code=code)
