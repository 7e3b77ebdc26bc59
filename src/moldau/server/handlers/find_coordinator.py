"""● FindCoordinator: which broker coordinates a group or a transactional id.

Versions       0-6.
Authorises     DESCRIBE on the group or the transactional id.
Behaviour      Hashes the key onto a partition of the internal topic and names its leader.  The first question creates the topic.
Version notes  4+ asks for several keys at once (KIP-699); 6+ knows share groups (KIP-932).
Errors         INVALID_REQUEST (a key type that is not known), COORDINATOR_NOT_AVAILABLE (the topic is being made, or has no leader).
Differs from Kafka: nothing known.
"""

from typing import Final, NamedTuple

from moldau.errors import ErrorCode
from moldau.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles

SEVERAL_KEYS_VERSION: Final = 4
GROUP, TRANSACTION = 0, 1


class Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


@handles(FindCoordinatorRequest)
def find_coordinator(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.version < SEVERAL_KEYS_VERSION:
        found = _find(broker, context, request.key, request.key_type)
        return FindCoordinatorResponse(
            error_code=found.error, error_message=_message(found), node_id=found.node_id, host=found.host, port=found.port
        )
    coordinators = []
    for key in request.coordinator_keys:
        found = _find(broker, context, key, request.key_type)
        coordinators.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.error,
                error_message=_message(found),
            )
        )
    return FindCoordinatorResponse(coordinators=coordinators)


def _find(broker: Broker, context: RequestContext, key: str, key_type: int) -> Found:
    if key_type not in (GROUP, TRANSACTION):
        return Found(ErrorCode.INVALID_REQUEST)
    topic = broker.coordinators.groups if key_type == GROUP else broker.coordinators.transactions
    index = topic.partition_for(key)
    if not broker.cluster.has_partition(topic.topic, index):
        broker.coordinators.create_topic(topic.topic)
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = broker.cluster.leader_of(topic.topic, index, context.client.listener)
    if leader.endpoint is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Found(ErrorCode.NONE, leader.leader_id, leader.endpoint.host, leader.endpoint.port)


def _message(found: Found) -> str | None:
    return None if found.error is ErrorCode.NONE else found.error.text
