"""● ListPartitionReassignments: partitions that are on the move.

Versions       0.
Authorises     DESCRIBE on the cluster.
Errors         none of its own: what is unknown, or does not move, is left out.
Differs from Kafka: nothing known.
"""

from moldau.metadata.elections import list_partition_reassignments as listed
from moldau.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(ListPartitionReassignmentsRequest)
def list_partition_reassignments(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return listed(broker.loader.image, request)
