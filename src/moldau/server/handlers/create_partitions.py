"""● CreatePartitions: more partitions for topics, decided by the controller.

Versions       0-3.
Authorises     ALTER on each topic.
Errors         those of `metadata.topics.create_partitions`; NOT_CONTROLLER.
Differs from Kafka: a request for more than 10,000 is a POLICY_VIOLATION of that topic, not an UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(CreatePartitionsRequest)
def create_partitions(broker: Broker, context: RequestContext, request: CreatePartitionsRequest) -> Awaitable[CreatePartitionsResponse]:
    return broker.controller.create_partitions(request)
