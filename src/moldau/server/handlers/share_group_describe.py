"""● ShareGroupDescribe: share groups with their members and who reads what (KIP-932).

Versions       1.
Authorises     DESCRIBE on each group, and on the topics that its members read.
Errors         On a group UNSUPPORTED_VERSION (share.version is 0), INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
               GROUP_ID_NOT_FOUND (of another protocol too).
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.coordinator.group.share import ShareGroup
from moldau.errors import ErrorCode
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
        request.group_ids,
        _not_described,
        lambda groups: ShareGroupDescribeResponse(groups=groups),
        is_served=serves_share_groups(broker),
        asks_operations=request.include_authorized_operations,
    )


def _not_described(group_id: str, code: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
