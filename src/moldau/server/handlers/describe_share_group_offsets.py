"""● DescribeShareGroupOffsets: the start offsets of share groups and their lag (KIP-932, 1226).

Versions       0-1.
Authorises     DESCRIBE on each group and each topic.
Behaviour      Asks the share coordinator, and the leader of each partition for its end.  A partition that the group never read has start
               offset -1; so has an unknown group.
Version notes  1+ has the lag: records that are not done with, -1 if the leader of the partition does not count.
Errors         On a group UNSUPPORTED_VERSION (share.version is 0), INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS; on a
               partition those of ListOffsets, NOT_LEADER_OR_FOLLOWER if its leader does not answer.
Differs from Kafka: a topic that is named without partitions is answered without partitions; Kafka fails at it.  A group without a name
               is refused with INVALID_GROUP_ID; Kafka says UNKNOWN_SERVER_ERROR.  A group of which all offsets are asked for twice is
               answered once.
"""

from functools import partial

from moldau.errors import ErrorCode
from moldau.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from moldau.server.handlers.groups import serves_share_groups, whole_groups_once
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.pieces import one_by_one
from moldau.server.requests.registry import handles


@handles(DescribeShareGroupOffsetsRequest)
async def describe_share_group_offsets(
    broker: Broker, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=await one_by_one(broker.clock, partial(_describe, broker), whole_groups_once(request.groups))
    )


async def _describe(broker: Broker, group: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
    if not serves_share_groups(broker):
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=[], error_code=ErrorCode.UNSUPPORTED_VERSION)
    return await broker.coordinators.share_groups.describe_offsets(group)
