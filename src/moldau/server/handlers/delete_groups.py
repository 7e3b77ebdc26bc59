"""● DeleteGroups: forget empty groups and their offsets.

Versions       0-2.
Authorises     DELETE on each group.
Behaviour      Groups of every protocol, as long as they have no members; a share group's states at the share coordinator go first.
Errors         On a group NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
Differs from Kafka: nothing known.
"""

import asyncio

from moldau.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(DeleteGroupsRequest)
async def delete_groups(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    results: list[DeletableGroupResult] = []
    for name in dict.fromkeys(request.groups_names):
        results.append(await broker.coordinators.share_groups.delete_group(name))
        await asyncio.sleep(0)  # other requests have their turn: a missing group gives no reason to wait
    return DeleteGroupsResponse(results=results)
