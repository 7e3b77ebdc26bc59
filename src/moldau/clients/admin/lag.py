"""● Counts the records that a group has still to read.  It counts in the batches, where Kafka subtracts offsets.

Transaction markers take offsets, too, and compaction leaves gaps: the difference of two offsets counts both.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.clients.cluster import STALE_METADATA, Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.records.batch import batches, records_of
from moldau.types import TopicPartition

FETCH_BYTES: Final = 4 * 1024 * 1024
NO_SESSION: Final = -1
READ_WITHIN_MS: Final = 100


class Lag(NamedTuple):
    """A group's lag in one partition.  `offsets`: the number that Kafka's tools show.  `records`: how many records there really are, or at
    least are if `is_complete` is False.
    """

    offsets: int
    records: int
    is_complete: bool


async def count_lag(cluster: Cluster, positions: Mapping[TopicPartition, tuple[int, int]], *, max_bytes: int) -> dict[TopicPartition, Lag]:
    """Count the lag of each partition.

    `positions`: the offset to read next and the end (exclusive).  At most `max_bytes` are read.  For the rest, each offset counts as one
    record.

    Errors: KafkaError.
    """
    left_bytes = max_bytes
    lags = {}
    for one, (offset, end) in positions.items():
        position, count = offset, 0
        while position < end and left_bytes > 0:
            data = await _fetch(cluster, one, position)
            if data is None or not data:
                break
            left_bytes -= len(data)
            position, found = _count(memoryview(data), position, end)
            count += found
        is_complete = position >= end
        lags[one] = Lag(max(0, end - offset), count + max(0, end - position), is_complete)
    return lags


async def _fetch(cluster: Cluster, one: TopicPartition, offset: int) -> bytes | None:
    """The batches from `offset` on.  None: the offset is no longer there, and everything before the log's start is gone."""
    leader = await cluster.leader_of(one)
    asked = FetchPartition(partition=one.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=READ_WITHIN_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_epoch=NO_SESSION,
        topics=[FetchTopic(topic=one.topic, topic_id=cluster.view.topic_id_of(one.topic), partitions=[asked])],
    )
    response = await cluster.send(request, node_id=leader.node_id)
    answer = response.responses[0].partitions[0]
    code = ErrorCode.of(answer.error_code or response.error_code)
    if code is ErrorCode.OFFSET_OUT_OF_RANGE or code in STALE_METADATA:
        return None
    if code is not ErrorCode.NONE:
        raise KafkaError(code, f"{one}: {code.text}")
    return bytes(answer.records) if isinstance(answer.records, bytes | bytearray | memoryview) else b""


def _count(view: memoryview, offset: int, end: int) -> tuple[int, int]:
    """How far `view` goes, and how many records it has from `offset` to before `end`."""
    position, count = offset, 0
    for at, header in batches(view):
        position = max(position, header.next_offset)
        if header.is_control:
            continue
        if offset <= header.base_offset and header.next_offset <= end:
            count += header.records_count
        else:
            count += sum(offset <= record.offset < end for record in records_of(view[at : at + header.size]))
    return position, count
