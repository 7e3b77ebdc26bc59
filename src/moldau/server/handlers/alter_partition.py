"""● AlterPartition: a leader proposes another in-sync set.

Versions       2-3.
Authorises     CLUSTER_ACTION on the cluster.
Errors         those of `metadata.elections.alter_partition`; NOT_CONTROLLER.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(AlterPartitionRequest)
def alter_partition(broker: Broker, context: RequestContext, request: AlterPartitionRequest) -> Awaitable[AlterPartitionResponse]:
    return broker.controller.alter_partition(request, version=context.version)
