"""● FindCoordinator: the broker that coordinates a group, a transactional id or a share partition.

Versions       0-6.
Authorises     DESCRIBE on the group or the transactional id; CLUSTER_ACTION on the cluster for share partitions.
Behaviour      Hashes the key onto a partition of the internal topic and names its leader.  The first question creates the topic.
Version notes  4+ asks for several keys at once (KIP-699); 6+ knows share partitions, by group:topicId:partition (KIP-932).
Errors         INVALID_REQUEST (an unknown key type, a key that names no share partition),
               COORDINATOR_NOT_AVAILABLE (the topic is being made, or has no leader).
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable
from typing import Any, Final, NamedTuple

from moldau.coordinator.share.machine import SharePartitionKey
from moldau.errors import ErrorCode
from moldau.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from moldau.server.coordinators.topic import CoordinatorTopic
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.pieces import in_pieces
from moldau.server.requests.registry import handles

SEVERAL_KEYS_VERSION: Final = 4
SHARE_PARTITION_VERSION: Final = 6
GROUP, TRANSACTION, SHARE_PARTITION = 0, 1, 2


class Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


@handles(FindCoordinatorRequest)
def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if context.version >= SEVERAL_KEYS_VERSION:
        return _find_several(broker, context, request)
    found = _find(broker, context, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=found.error, error_message=_message(found), node_id=found.node_id, host=found.host, port=found.port
    )


async def _find_several(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    def coordinator(key: str) -> Coordinator:
        found = _find(broker, context, key, request.key_type)
        return Coordinator(
            key=key,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
            error_code=found.error,
            error_message=_message(found),
        )

    return FindCoordinatorResponse(coordinators=await in_pieces(broker.clock, coordinator, request.coordinator_keys))


def _find(broker: Broker, context: RequestContext, key: str, key_type: int) -> Found:
    if key_type not in (GROUP, TRANSACTION, SHARE_PARTITION) or (key_type == SHARE_PARTITION and not _is_share_partition(context, key)):
        return Found(ErrorCode.INVALID_REQUEST)
    coordinators = broker.coordinators
    topics: dict[int, CoordinatorTopic[Any]] = {
        GROUP: coordinators.groups,
        TRANSACTION: coordinators.transactions,
        SHARE_PARTITION: coordinators.shares,
    }
    topic = topics[key_type]
    index = topic.partition_for(key)
    if not broker.cluster.has_partition(topic.topic, index):
        broker.coordinators.create_topic(topic.topic)
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = broker.cluster.leader_of(topic.topic, index, context.client.listener)
    if leader.endpoint is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Found(ErrorCode.NONE, leader.leader_id, leader.endpoint.host, leader.endpoint.port)


def _is_share_partition(context: RequestContext, key: str) -> bool:
    try:
        SharePartitionKey.parse(key)
    except ValueError:
        return False
    return context.version >= SHARE_PARTITION_VERSION


def _message(found: Found) -> str | None:
    return None if found.error is ErrorCode.NONE else found.error.text
