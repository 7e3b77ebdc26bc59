"""● DeleteGroups: forget empty groups and their offsets.

Versions       0-2.
Authorises     DELETE on each group.
Behaviour      Groups of every protocol, as long as they have no members; a share group's states at the share coordinator go first.
Errors         On a group NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
Differs from Kafka: nothing known.
"""

from moldau.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(DeleteGroupsRequest)
async def delete_groups(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=[await _delete(broker, name) for name in names])


async def _delete(broker: Broker, group_id: str) -> DeletableGroupResult:
    return await broker.coordinators.share_groups.delete_group(group_id)
