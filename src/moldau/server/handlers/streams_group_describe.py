"""● StreamsGroupDescribe: streams groups with their topology, their members and their tasks (KIP-1071).

Versions       0.
Authorises     DESCRIBE on each group, and on the topics of its topology.
Errors         On a group UNSUPPORTED_VERSION (the protocol is switched off, or streams.version is 0), INVALID_GROUP_ID, NOT_COORDINATOR,
               COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND (of another protocol too).
Differs from Kafka: a group that is named twice is answered once.
"""

from collections.abc import Awaitable

from moldau.coordinator.group.streams.group import StreamsGroup
from moldau.net.later import Later
from moldau.protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from moldau.server.handlers.groups import describe_each, serves_streams_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(StreamsGroupDescribeRequest)
def streams_group_describe(
    broker: Broker, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse | Later[StreamsGroupDescribeResponse] | Awaitable[StreamsGroupDescribeResponse]:
    return describe_each(
        broker,
        StreamsGroup,
        request,
        DescribedGroup,
        lambda groups: StreamsGroupDescribeResponse(groups=groups),
        is_served=serves_streams_groups(broker),
    )
