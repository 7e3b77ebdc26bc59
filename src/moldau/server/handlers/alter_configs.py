"""● AlterConfigs: all options of topics, brokers, groups or client metrics replaced by those given.

Versions       0-2.
Authorises     ALTER_CONFIGS on the cluster or on each topic or group.
Behaviour      What is not named is taken away: IncrementalAlterConfigs is the API to use.
Errors         those of `metadata.configs.alter_configs`; NOT_CONTROLLER.
Differs from Kafka: a resource that is named twice is answered INVALID_REQUEST each time; Kafka gives no answer at all.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(AlterConfigsRequest)
def alter_configs(broker: Broker, context: RequestContext, request: AlterConfigsRequest) -> Awaitable[AlterConfigsResponse]:
    return broker.controller.alter_configs(request)
