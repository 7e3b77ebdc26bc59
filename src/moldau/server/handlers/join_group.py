"""● JoinGroup: become, or stay, a member of a classic group; answered when the next generation is complete.

Versions       0-9.
Authorises     READ on the group.
Behaviour      Waits for the other members, at most as long as the longest rebalance time-out among them.
Version notes  0 has no rebalance time-out; 4+ a new member is first given an id (KIP-394); 5+ static members (KIP-345); 7+ names the
               protocol; 9+ can tell a returning leader not to assign (KIP-814).
Errors         INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST (a protocol named twice, a name too long for the group's record),
               NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, and those of `ClassicGroup.join` or, in a group
               of the consumer protocol, `classic_members.join`.
Differs from Kafka: one protocol named twice is answered with INVALID_REQUEST; Kafka gives no answer at all.  A name that the group's record
               cannot hold is refused at once: later it would keep the record of the whole group from being written.
"""

from typing import Final

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.codegen import MAX_STRING
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.server.handlers.groups import client_of
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

NAMES_PROTOCOL_SINCE: Final = 7
LONGEST_NAME: Final = MAX_STRING - len("-00000000-0000-0000-0000-000000000000")
"""The most bytes of a name in a group's record.  A member id is such a name and a UUID."""


@handles(JoinGroupRequest)
def join_group(broker: Broker, context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | Later[JoinGroupResponse]:
    def refused(code: ErrorCode) -> JoinGroupResponse:
        response = request.refused(code)
        response.member_id, response.protocol_name = request.member_id, None
        return fitted(response)

    def fitted(response: JoinGroupResponse) -> JoinGroupResponse:
        if context.version < NAMES_PROTOCOL_SINCE and response.protocol_name is None:
            response.protocol_name = ""
        return response

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.join(token, request, client_of(context), now_ms)

    config = broker.coordinators.group_environment.config
    if not request.group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        return refused(ErrorCode.INVALID_SESSION_TIMEOUT)
    names = [each.name for each in request.protocols]
    if len(set(names)) < len(names):
        return refused(ErrorCode.INVALID_REQUEST)
    names += [request.group_id, request.protocol_type, request.group_instance_id or "", context.header.client_id or ""]
    if any(len(name.encode()) > LONGEST_NAME for name in names):
        return refused(ErrorCode.INVALID_REQUEST)
    return broker.coordinators.groups.ask(request.group_id, decide, refused=refused, transform=fitted)
