"""● AssignReplicasToDirs: a broker says in which of its folders its replicas lie.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Errors         those of `metadata.directories.assign_replicas_to_dirs`; NOT_CONTROLLER.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(AssignReplicasToDirsRequest)
def assign_replicas_to_dirs(
    broker: Broker, context: RequestContext, request: AssignReplicasToDirsRequest
) -> Awaitable[AssignReplicasToDirsResponse]:
    return broker.controller.assign_replicas_to_dirs(request)
