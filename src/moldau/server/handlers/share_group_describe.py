"""● ShareGroupDescribe: share groups with their members and assignments (KIP-932).

Versions       1.
Authorises     DESCRIBE on each group, and on the topics that its members read.
Errors         On a group UNSUPPORTED_VERSION (share.version is 0), INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
               GROUP_ID_NOT_FOUND (of another protocol too).
Differs from Kafka: a group that is named twice is answered once.
"""

from collections.abc import Awaitable
from functools import partial

from moldau.coordinator.group.share import ShareGroup
from moldau.net.later import Later
from moldau.protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse
from moldau.server.handlers.groups import describe_each, serves_share_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(ShareGroupDescribeRequest)
def share_group_describe(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | Later[ShareGroupDescribeResponse] | Awaitable[ShareGroupDescribeResponse]:
    return describe_each(
        broker,
        ShareGroup,
        request,
        partial(DescribedGroup, assignor_name=""),
        lambda groups: ShareGroupDescribeResponse(groups=groups),
        is_served=serves_share_groups(broker),
    )
