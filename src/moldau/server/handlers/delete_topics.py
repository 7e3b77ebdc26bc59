"""● DeleteTopics: topics go, with their partitions and configs, decided by the controller.

Versions       1-6.
Authorises     DELETE on each topic.
Behaviour      By name, from version 6 on also by id.  Answered once that is committed; the logs are set aside and go a minute later.
Errors         those of `metadata.topics.delete_topics`; NOT_CONTROLLER.
Version notes  Before version 3 disabled deletion is INVALID_REQUEST.
Differs from Kafka: the answers come in the order of the request, names before ids; Kafka shuffles them.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(DeleteTopicsRequest)
def delete_topics(broker: Broker, context: RequestContext, request: DeleteTopicsRequest) -> Awaitable[DeleteTopicsResponse]:
    return broker.controller.delete_topics(request, version=context.version)
