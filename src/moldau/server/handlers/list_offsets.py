"""● ListOffsets: the offset of a timestamp, of the start, of the end.

Versions       1-11.
Authorises     DESCRIBE on each topic.
Behaviour      -1 latest: the high watermark, or the last stable offset for read_committed.  -2 earliest: the log start.  -3 the record
               with the largest timestamp (KIP-734).  -4 earliest local: the same as earliest without tiered storage (KIP-405).  -5
               latest tiered (KIP-1005) and -6 earliest pending upload (KIP-1023): nothing, without tiered storage.  Anything else: the
               first record with that timestamp or a later one. Nothing found is answered with offset -1 and no error.
Version notes  2+ isolation level; 4+ leader epochs; 7+ -3, 8+ -4, 9+ -5, 11+ -6.
Errors         UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE
               (LEADER_NOT_AVAILABLE below version 5), INVALID_REQUEST for a partition named twice, UNSUPPORTED_VERSION for a special
               timestamp before its version.
Differs from Kafka: nothing known.
"""

from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.replication.partition import Isolation, Partition
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
NEVER: Final = 0x7FFF
SINCE: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The version that brought each special timestamp."""

CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
NO_TIMESTAMP: Final = -1
NOT_FOUND: Final = -1
OFFSET_NOT_AVAILABLE_VERSION: Final = 5
READ_COMMITTED: Final = 1
LEADER_EPOCH_VERSION: Final = 4


@handles(ListOffsetsRequest)
def list_offsets(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    seen: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            seen[topic.name, asked.partition_index] = seen.get((topic.name, asked.partition_index), 0) + 1
    topics = []
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        for asked in topic.partitions:
            times = seen.pop((topic.name, asked.partition_index), 0)
            if times > 1:
                answers.append(_refused(asked, ErrorCode.INVALID_REQUEST))
            elif times == 1:
                answers.append(_offset_of(broker, context.version, request, topic.name, asked))
        if context.version < LEADER_EPOCH_VERSION:
            for answer in answers:
                answer.leader_epoch = -1
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _offset_of(
    broker: Broker, version: int, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < 0 and version < SINCE.get(asked.timestamp, NEVER):
        return _refused(asked, ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.replicas.hosted.get((topic, asked.partition_index))
    if partition is None:
        return _refused(asked, broker.refusal_of_absent(topic, asked.partition_index))
    refusal = partition.refusal_of(asked.current_leader_epoch, from_leader_only=request.replica_id != DEBUGGING_CONSUMER)
    if refusal:
        return _refused(asked, refusal)
    if request.replica_id == CONSUMER:
        isolation = Isolation.COMMITTED_TRANSACTIONS if request.isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK
    else:
        isolation = Isolation.LOG_END
    return _look_up(partition, asked, isolation, version)


def _look_up(partition: Partition, asked: ListOffsetsPartition, isolation: Isolation, version: int) -> ListOffsetsPartitionResponse:
    log = partition.log
    limit = partition.end_for(isolation)
    lags = isolation is not Isolation.LOG_END and partition.leader_epoch_start_offset > log.high_watermark
    unavailable = ErrorCode.OFFSET_NOT_AVAILABLE if version >= OFFSET_NOT_AVAILABLE_VERSION else ErrorCode.LEADER_NOT_AVAILABLE
    if asked.timestamp == LATEST:
        return _refused(asked, unavailable) if lags else _answer(asked, NO_TIMESTAMP, limit, partition.leader_epoch)
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        earliest = log.epochs.earliest
        epoch = log.epochs.epoch_for_offset(start)
        if epoch < 0 and earliest is not None and earliest.start_offset <= start:
            epoch = earliest.epoch
        return _answer(asked, NO_TIMESTAMP, start, epoch)
    if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _answer(asked, NO_TIMESTAMP, NOT_FOUND, -1)
    found = log.offset_of_max_timestamp() if asked.timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(asked.timestamp)
    if found is not None and found.offset < limit:
        return _answer(asked, found.timestamp, found.offset, log.epochs.epoch_for_offset(found.offset))
    return _refused(asked, unavailable) if lags else _answer(asked, NO_TIMESTAMP, NOT_FOUND, -1)


def _answer(asked: ListOffsetsPartition, timestamp: int, offset: int, leader_epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=leader_epoch
    )


def _refused(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
