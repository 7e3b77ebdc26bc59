"""● ListOffsets: the offset of a timestamp, of the start, of the end.

Versions       1-11.
Authorises     DESCRIBE on each topic.
Behaviour      -1 latest: the high watermark, or the last stable offset for read_committed.  -2 earliest: the log start.  -3 the record with
               the largest timestamp (KIP-734), of the local ones.  -4 earliest local: the same as earliest without tiered storage
               (KIP-405).  -5 latest tiered (KIP-1005) and -6 earliest pending upload (KIP-1023): nothing, without tiered storage.  Any
               other value: the first record with that timestamp or a later one; the search in remote storage takes
               remote.list.offsets.request.timeout.ms at most.  If there is none, the answer is offset -1 without an error.
Version notes  2+ isolation level; 4+ leader epochs; 7+ -3, 8+ -4, 9+ -5, 11+ -6.
Errors         UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE
               (LEADER_NOT_AVAILABLE below version 5), INVALID_REQUEST for a partition named twice or an isolation level that is neither 0
               nor 1, UNSUPPORTED_VERSION for a special timestamp before its version.
Differs from Kafka: an unknown isolation level is refused with INVALID_REQUEST, by Kafka with UNKNOWN_SERVER_ERROR.
"""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.protocol.records.corrupt import CorruptBatch, ExpandsTooFar
from moldau.replication.partition import Isolation, Partition
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.storage.files import Files
from moldau.storage.log import Log
from moldau.storage.time_search import Candidate, TimestampOffset, first_record_at_or_after
from moldau.storage.validator import LIGHT_PLAIN_BYTES
from moldau.types import NO_TIMESTAMP

LOG: Final = logging.getLogger(__name__)

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
NOT_FOUND: Final = -1
OFFSET_NOT_AVAILABLE_VERSION: Final = 5
READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
LEADER_EPOCH_VERSION: Final = 4
SEARCHES_AT_ONCE: Final = 100
"""Searches in one turn of the loop: a few milliseconds' worth with records in the page cache, because a request may name every
partition.
"""


class TimeSearch(NamedTuple):
    """One partition whose records must be searched; the answer goes into `slot`."""

    slot: ListOffsetsPartitionResponse
    partition: Partition
    asked: ListOffsetsPartition
    isolation: Isolation


@handles(ListOffsetsRequest)
def list_offsets(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"isolation_level={request.isolation_level} is neither 0 nor 1")
    searches: list[TimeSearch] = []
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
                answers.append(_offset_of(broker, context.version, request, topic.name, asked, searches))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    response = ListOffsetsResponse(topics=topics)
    return _search(broker, searches, response, context.version) if searches else _in_version(response, context.version)


def _in_version(response: ListOffsetsResponse, version: int) -> ListOffsetsResponse:
    if version < LEADER_EPOCH_VERSION:
        for topic in response.topics:
            for answer in topic.partitions:
                answer.leader_epoch = -1
    return response


async def _search(broker: Broker, searches: list[TimeSearch], response: ListOffsetsResponse, version: int) -> ListOffsetsResponse:
    """Search side by side, while other requests have their turn.  Records that the object store does not have may be here."""
    at_once = asyncio.Semaphore(SEARCHES_AT_ONCE)

    async def answer_in_turn(search: TimeSearch) -> None:
        async with at_once:
            await asyncio.sleep(0)
            await answer(search)

    async def answer(search: TimeSearch) -> None:
        asked, partition = search.asked, search.partition
        log = partition.log
        try:
            found = await _find(broker, partition, asked.timestamp)
        except CorruptBatch as error:
            LOG.warning("%s: %s", partition.topic_partition, error)
            found = ErrorCode.CORRUPT_MESSAGE
        if isinstance(found, ErrorCode):
            answered = _refused(asked, found)
        elif found is not None and found.offset < partition.end_for(search.isolation):
            answered = _answer(asked, found.timestamp, found.offset, log.epochs.epoch_for_offset(found.offset))
        else:
            unavailable = _unavailable(partition, search.isolation, version)
            answered = _refused(asked, unavailable) if unavailable else _answer(asked, NO_TIMESTAMP, NOT_FOUND, -1)
        search.slot.error_code, search.slot.timestamp = answered.error_code, answered.timestamp
        search.slot.offset, search.slot.leader_epoch = answered.offset, answered.leader_epoch

    await asyncio.gather(*map(answer_in_turn, searches))
    return _in_version(response, version)


async def _find(broker: Broker, partition: Partition, timestamp: int) -> TimestampOffset | ErrorCode | None:
    """Find one offset.  Errors: CorruptBatch, also for records that a client wrote with a good CRC around them."""
    log = partition.log
    found = None
    if timestamp >= 0 and log.is_tiered and log.local_log_start_offset > log.log_start_offset and broker.remote is not None:
        found = await broker.remote.find_timestamp(partition, timestamp)
    return await _find_here(broker.files, log, timestamp) if found is None else found


async def _find_here(files: Files, log: Log, timestamp: int) -> TimestampOffset | None:
    is_max = timestamp == MAX_TIMESTAMP
    candidate = log.candidate_for_max_timestamp() if is_max else log.candidate_for_timestamp(timestamp)
    while candidate is not None:
        found = await _look_into(files, candidate)
        if found is not None:
            return found
        candidate = None if is_max else log.candidate_for_timestamp(timestamp, candidate.next_offset)
    return None


async def _look_into(files: Files, candidate: Candidate) -> TimestampOffset | None:
    if candidate.is_light:
        with suppress(ExpandsTooFar):
            return first_record_at_or_after(*candidate.search, LIGHT_PLAIN_BYTES)
    return await files.compute(first_record_at_or_after, *candidate.search)


def _offset_of(
    broker: Broker, version: int, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition, searches: list[TimeSearch]
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
    if asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
        slot = _answer(asked, NO_TIMESTAMP, NOT_FOUND, -1)
        searches.append(TimeSearch(slot, partition, asked, isolation))
        return slot
    return _look_up(partition, asked, isolation, version)


def _look_up(partition: Partition, asked: ListOffsetsPartition, isolation: Isolation, version: int) -> ListOffsetsPartitionResponse:
    log = partition.log
    limit = partition.end_for(isolation)
    if asked.timestamp == LATEST:
        unavailable = _unavailable(partition, isolation, version)
        return _refused(asked, unavailable) if unavailable else _answer(asked, NO_TIMESTAMP, limit, partition.leader_epoch)
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset if asked.timestamp == EARLIEST else log.local_log_start_offset
        earliest = log.epochs.earliest
        epoch = log.epochs.epoch_for_offset(start)
        if epoch < 0 and earliest is not None and earliest.start_offset <= start:
            epoch = earliest.epoch
        return _answer(asked, NO_TIMESTAMP, start, epoch)
    return _tiered(partition, asked)


def _tiered(partition: Partition, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    """The end of the copies (inclusive), or the first offset that is not copied."""
    log = partition.log
    if not log.is_tiered:
        return _answer(asked, NO_TIMESTAMP, NOT_FOUND, -1)
    if asked.timestamp == LATEST_TIERED:
        offset = log.copied_offset - 1
        return _answer(asked, NO_TIMESTAMP, offset, log.epochs.epoch_for_offset(offset) if offset >= 0 else -1)
    if log.copied_offset == 0 and log.local_log_start_offset > log.log_start_offset:
        return _answer(asked, NO_TIMESTAMP, NOT_FOUND, -1)  # not known yet
    offset = max(log.copied_offset, log.log_start_offset)
    return _answer(asked, NO_TIMESTAMP, offset, log.epochs.epoch_for_offset(offset))


def _unavailable(partition: Partition, isolation: Isolation, version: int) -> ErrorCode:
    """The error of a new leader that does not know yet how far consumers see."""
    if isolation is Isolation.LOG_END or partition.leader_epoch_start_offset <= partition.log.high_watermark:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= OFFSET_NOT_AVAILABLE_VERSION else ErrorCode.LEADER_NOT_AVAILABLE


def _answer(asked: ListOffsetsPartition, timestamp: int, offset: int, leader_epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=leader_epoch
    )


def _refused(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
