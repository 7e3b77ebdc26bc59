"""● IncrementalAlterConfigs: single options of topics, brokers, groups or client metrics set, taken away, appended to, subtracted from.

Versions       0-1.
Authorises     ALTER_CONFIGS on the cluster or on each topic or group.
Behaviour      APPEND and SUBTRACT begin with the value that holds; they are for lists.
Errors         those of `metadata.configs.incremental_alter_configs`; NOT_CONTROLLER.
Differs from Kafka: an operation that there is not is INVALID_REQUEST for every kind of resource, not an UNKNOWN_SERVER_ERROR for some;
               levels of loggers cannot be set.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(IncrementalAlterConfigsRequest)
def incremental_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    return broker.controller.incremental_alter_configs(request)
