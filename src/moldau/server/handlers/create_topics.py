"""● CreateTopics: new topics, decided by the controller.

Versions       2-7.
Authorises     CREATE on the cluster or on each topic.
Errors         those of `metadata.topics.create_topics`; NOT_CONTROLLER.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(CreateTopicsRequest)
def create_topics(broker: Broker, context: RequestContext, request: CreateTopicsRequest) -> Awaitable[CreateTopicsResponse]:
    return broker.controller.create_topics(request)
