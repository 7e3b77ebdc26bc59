"""● WriteTxnMarkers: the coordinator of a transaction ends it on the partitions led here.

Versions       1-2.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Each partition is answered when its marker can no longer be lost.  A transaction of version 1 has no epoch of its own: its
               marker closes the connection if later markers of that producer came from the same coordinator on a newer connection.
Version notes  2+ names the client's transaction.version, with which the epoch has to be above the one seen (KIP-1228).
Errors         On a partition UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_ID_MAPPING (a producer id below 0),
               INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
Differs from Kafka: a partition named twice gets the marker once and two answers; Kafka gives no answer at all.  A producer id of -1 and a
               negative epoch are refused with codes of their own, by Kafka with UNKNOWN_SERVER_ERROR; of a producer id below -1 Kafka
               writes the marker.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial

from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.txn.state import EPOCH_BUMP_SINCE
from moldau.errors import ErrorCode
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.server.coordinators.markers import settle, settled_codes
from moldau.server.coordinators.transactions import close_if_overtaken
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.pieces import in_pieces, one_by_one
from moldau.server.requests.registry import handles
from moldau.types import TopicPartition


@handles(WriteTxnMarkersRequest)
def write_txn_markers(broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest) -> Awaitable[WriteTxnMarkersResponse]:
    for marker in request.markers:
        if marker.transaction_version < EPOCH_BUMP_SINCE:
            producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
            # Every coordinator has connections of its own.  A partition may not have seen the newer epoch yet, so it cannot tell.
            sender = (marker.producer_id, marker.coordinator_epoch)
            close_if_overtaken(broker, context, "a marker", sender, producer, tells_zombies=False)
    return _write_all(broker, request)


async def _write_all(broker: Broker, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=await one_by_one(broker.clock, partial(_write, broker), request.markers))


async def _write(broker: Broker, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    named = dict.fromkeys(TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    outcomes = await in_pieces(broker.clock, partial(_append, broker, marker), named)
    codes = dict(zip(named, await settled_codes(outcomes), strict=True))
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=codes[TopicPartition(topic.name, index)])
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def _append(broker: Broker, marker: WritableTxnMarker, topic_partition: TopicPartition) -> "ErrorCode | asyncio.Future[ErrorCode]":
    partition = broker.replicas.hosted.get(topic_partition)
    if partition is None:
        return broker.refusal_of_absent(*topic_partition)
    if marker.producer_id < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if marker.producer_epoch < 0:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    acknowledged: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    code = broker.coordinators.markers.append(
        partition,
        ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch),
        is_commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        on_acknowledged=partial(settle, acknowledged),
    )
    return acknowledged if code is None else code
