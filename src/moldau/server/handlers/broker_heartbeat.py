"""● BrokerHeartbeat: a broker proves that it lives, and asks to be unfenced or to stop.

Versions       0-2.
Authorises     CLUSTER_ACTION on the cluster.
Errors         STALE_BROKER_EPOCH; NOT_CONTROLLER.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(BrokerHeartbeatRequest)
def broker_heartbeat(broker: Broker, context: RequestContext, request: BrokerHeartbeatRequest) -> Awaitable[BrokerHeartbeatResponse]:
    return broker.controller.broker_heartbeat(request)
