"""● ConsumerGroupDescribe: members, epochs and assignments of groups of the consumer protocol (KIP-848).

Versions       0-1.
Authorises     DESCRIBE on each group, and on the topics that its members read.
Version notes  1+ says which protocol each member speaks.
Errors         On a group UNSUPPORTED_VERSION (the protocol is switched off, or group.version is 0),
               INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND (of another protocol too).
Differs from Kafka: a group that is named twice is answered once.
"""

from collections.abc import Awaitable
from functools import partial

from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.net.later import Later
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup
from moldau.server.handlers.groups import describe_each, serves_consumer_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(ConsumerGroupDescribeRequest)
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Later[ConsumerGroupDescribeResponse] | Awaitable[ConsumerGroupDescribeResponse]:
    return describe_each(
        broker,
        ConsumerGroup,
        request,
        partial(DescribedGroup, assignor_name=""),
        lambda groups: ConsumerGroupDescribeResponse(groups=groups),
        is_served=serves_consumer_groups(broker),
    )
