"""● UnregisterBroker: the cluster forgets a broker that will not come back.

Versions       0.
Authorises     ALTER on the cluster.
Errors         BROKER_ID_NOT_REGISTERED; NOT_CONTROLLER.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(UnregisterBrokerRequest)
def unregister_broker(broker: Broker, context: RequestContext, request: UnregisterBrokerRequest) -> Awaitable[UnregisterBrokerResponse]:
    return broker.controller.unregister_broker(request)
