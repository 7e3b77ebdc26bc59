"""● AllocateProducerIds: a broker gets its next block of producer ids.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Errors         STALE_BROKER_EPOCH; NOT_CONTROLLER.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(AllocateProducerIdsRequest)
def allocate_producer_ids(
    broker: Broker, context: RequestContext, request: AllocateProducerIdsRequest
) -> Awaitable[AllocateProducerIdsResponse]:
    return broker.controller.allocate_producer_ids(request)
