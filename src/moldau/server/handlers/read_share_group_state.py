"""● ReadShareGroupState: what a new leader of a share partition begins with.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Leaders of older epochs are fenced from then on.
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
               FENCED_LEADER_EPOCH.
Differs from Kafka: nothing known.
"""

from moldau.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(ReadShareGroupStateRequest)
async def read_share_group_state(
    broker: Broker, context: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    return await broker.coordinators.share_persister.ask(request, attempts=1)
