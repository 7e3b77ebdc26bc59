"""● ListPartitionReassignments: partitions that are on the move.

Versions       0.
Authorises     DESCRIBE on the cluster.
Errors         none of its own: unknown partitions, and those that do not move, are left out.
Differs from Kafka: nothing known.
"""

from moldau.metadata.elections import list_partition_reassignments as listed
from moldau.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(ListPartitionReassignmentsRequest)
def list_partition_reassignments(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return listed(services.loader.image, request)
