"""● ControllerRegistration: a controller tells the active one how it can be reached.

Versions       0.
Authorises     CLUSTER_ACTION on the cluster.
Errors         INVALID_REGISTRATION; NOT_CONTROLLER.
Differs from Kafka: more than 1,000 listeners or features are refused.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(ControllerRegistrationRequest)
def controller_registration(
    broker: Broker, context: RequestContext, request: ControllerRegistrationRequest
) -> Awaitable[ControllerRegistrationResponse]:
    return broker.controller.register_controller(request)
