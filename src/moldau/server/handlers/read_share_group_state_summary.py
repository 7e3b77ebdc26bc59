"""● ReadShareGroupStateSummary: how far share groups have come.

Versions       0-1.
Authorises     CLUSTER_ACTION on the cluster.
Behaviour      Start offsets without the runs behind them; -1 of a state that was never begun.
Version notes  1+ counts the records behind the start offset that are done with (KIP-1226).
Errors         On a partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Kafka: nothing known.
"""

from moldau.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(ReadShareGroupStateSummaryRequest)
async def read_share_group_state_summary(
    broker: Broker, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    return await broker.coordinators.share_persister.ask(request, attempts=1)
