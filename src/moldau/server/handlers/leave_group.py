"""● LeaveGroup: members leave by themselves, or an administrator removes them.

Versions       0-5.
Authorises     READ on the group.
Behaviour      The rest of the group rebalances at once.
Version notes  0-2 name one member, whose error stands on top; 3+ several, static ones too (KIP-345).
Errors         INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of `ClassicGroup.leave`.
Differs from Kafka: nothing known.
"""

from typing import Final

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

SEVERAL_MEMBERS_SINCE: Final = 3


@handles(LeaveGroupRequest)
def leave_group(broker: Broker, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | Later[LeaveGroupResponse]:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    names_one = context.version < SEVERAL_MEMBERS_SINCE
    if names_one:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.leave(token, request, now_ms)

    def fitted(response: LeaveGroupResponse) -> LeaveGroupResponse:
        if not names_one:
            return response
        return LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code)

    return broker.coordinators.groups.ask(request.group_id, decide, refused=request.refused, transform=fitted)
