"""● DeleteGroups: forget empty groups and their offsets.

Versions       0-2.
Authorises     DELETE on each group.
Behaviour      Groups of every protocol, as long as they have no members.
Errors         On a group NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
Differs from Kafka: nothing known.
"""

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from moldau.server.broker import Broker
from moldau.server.coordinator_topic import gather
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles
from moldau.server.later import Later


@handles(DeleteGroupsRequest)
def delete_groups(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Later[DeleteGroupsResponse]:
    names = dict.fromkeys(request.groups_names)
    return gather([_delete(broker, name) for name in names], lambda results: DeleteGroupsResponse(results=results))


def _delete(broker: Broker, group_id: str) -> DeletableGroupResult | Later[DeletableGroupResult]:
    def refused(code: ErrorCode) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=group_id, error_code=code)

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.delete_group(token, group_id)

    if not group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    return broker.coordinators.groups.ask(group_id, decide, refused=refused)
