"""● ElectLeaders: the preferred replica leads again, or with unclean election any that lives.

Versions       0-2.
Authorises     ALTER on the cluster.
Behaviour      With null topics every topic is listed, with those partitions only for which something was to do.
Errors         those of `metadata.elections.elect_leaders`; NOT_CONTROLLER.
Version notes  Version 0 knows preferred elections only.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(ElectLeadersRequest)
def elect_leaders(broker: Broker, context: RequestContext, request: ElectLeadersRequest) -> Awaitable[ElectLeadersResponse]:
    return broker.controller.elect_leaders(request)
