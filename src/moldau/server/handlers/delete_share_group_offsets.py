"""● DeleteShareGroupOffsets: a share group forgets its offsets of topics (KIP-932).

Versions       0.
Authorises     DELETE on the group, READ on each topic.
Behaviour      The states of the topics' partitions are deleted at the share coordinator; the group must have no members.
Errors         UNSUPPORTED_VERSION (share.version is 0), INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
               GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP; on a topic UNKNOWN_TOPIC_OR_PARTITION and those of the share coordinator.
Differs from Kafka: nothing known.
"""

from moldau.errors import ErrorCode
from moldau.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from moldau.server.handlers.groups import serves_share_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(DeleteShareGroupOffsetsRequest)
async def delete_share_group_offsets(
    broker: Broker, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    if not serves_share_groups(broker):
        return request.refused(ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id.strip():
        return request.refused(ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.text)
    return await broker.coordinators.share_groups.delete_offsets(request)
