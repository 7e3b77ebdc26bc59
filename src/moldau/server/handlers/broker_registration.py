"""● BrokerRegistration: a broker joins the cluster.

Versions       0-4.
Authorises     CLUSTER_ACTION on the cluster.
Errors         those of `metadata.brokers.register_broker`; NOT_CONTROLLER.
Differs from Kafka: more than 1,000 listeners, features or directories are refused.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(BrokerRegistrationRequest)
def broker_registration(
    broker: Broker, context: RequestContext, request: BrokerRegistrationRequest
) -> Awaitable[BrokerRegistrationResponse]:
    return broker.controller.register_broker(request)
