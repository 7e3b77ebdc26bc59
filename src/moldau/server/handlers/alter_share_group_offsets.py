"""● AlterShareGroupOffsets: sets the offsets at which a share group goes on (KIP-932).

Versions       0.
Authorises     READ on the group and on each topic.
Behaviour      The states of the partitions begin anew at the share coordinator; the group, which may be new, must have no members.
Errors         UNSUPPORTED_VERSION (share.version is 0), INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, NON_EMPTY_GROUP,
               GROUP_ID_NOT_FOUND (of another protocol); on a partition UNKNOWN_TOPIC_OR_PARTITION and those of the share coordinator.
Differs from Kafka: a request whose partitions do not exist leaves nothing behind; Kafka leaves an empty group.
"""

from moldau.errors import ErrorCode
from moldau.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from moldau.server.handlers.groups import serves_share_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(AlterShareGroupOffsetsRequest)
async def alter_share_group_offsets(
    broker: Broker, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    if not serves_share_groups(broker):
        return request.refused(ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id:
        return request.refused(ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.text)
    return await broker.coordinators.share_groups.alter_offsets(request)
