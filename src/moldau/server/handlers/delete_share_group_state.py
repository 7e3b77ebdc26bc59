"""● DeleteShareGroupState: the states of share partitions are forgotten.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      A state that is not there counts as deleted.
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Kafka: nothing known.
"""

from moldau.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(DeleteShareGroupStateRequest)
async def delete_share_group_state(
    broker: Broker, context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    return await broker.coordinators.share_persister.ask(request, attempts=1)
