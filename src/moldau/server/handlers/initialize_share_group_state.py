"""● InitializeShareGroupState: the states of share partitions begin here, or begin anew.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      The group coordinator asks, before a share group first reads a partition or when its offsets are reset.
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
               FENCED_STATE_EPOCH.
Differs from Kafka: nothing known.
"""

from moldau.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeShareGroupStateResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(InitializeShareGroupStateRequest)
async def initialize_share_group_state(
    broker: Broker, context: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    return await broker.coordinators.share_persister.ask(request, attempts=1)
