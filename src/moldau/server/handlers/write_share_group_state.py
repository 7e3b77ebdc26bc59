"""● WriteShareGroupState: what the leaders of share partitions have decided is kept.

Versions       0-1.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Answered once it cannot be lost any more.  A state that was never begun is not written.
Version notes  1+ counts the records behind the start offset that are done with (KIP-1226).
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
               FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.
Differs from Kafka: nothing known.
"""

from moldau.protocol.messages.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(WriteShareGroupStateRequest)
async def write_share_group_state(
    broker: Broker, context: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    return await broker.coordinators.share_persister.ask(request, attempts=1)
