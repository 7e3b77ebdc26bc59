"""● AlterPartitionReassignments: partitions begin to move to other brokers, or stop moving.

Versions       0-1.
Authorises     ALTER on the cluster.
Errors         those of `metadata.elections.alter_partition_reassignments`; NOT_CONTROLLER.
Version notes  Version 1 can forbid that the number of replicas changes.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(AlterPartitionReassignmentsRequest)
def alter_partition_reassignments(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    return broker.controller.alter_partition_reassignments(request)
