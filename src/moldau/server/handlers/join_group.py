"""● JoinGroup: become, or stay, a member of a classic group; answered when the next generation is complete.

Versions       0-9.
Authorises     READ on the group.
Behaviour      Waits for the other members, at most as long as the longest rebalance time-out among them.
Version notes  0 has no rebalance time-out; 4+ a new member is first given an id (KIP-394); 5+ static members (KIP-345); 7+ names the
               protocol; 9+ can tell a returning leader not to assign (KIP-814).
Errors         INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST (a protocol named twice), NOT_COORDINATOR,
               COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, and those of `ClassicGroup.join` or, in a group of the consumer
               protocol, `classic_members.join`.
Differs from Kafka: one protocol named twice is answered with INVALID_REQUEST; Kafka gives no answer at all.
"""

from typing import Final

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.server.handlers.groups import client_of
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

NAMES_PROTOCOL_SINCE: Final = 7


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
    if len({each.name for each in request.protocols}) < len(request.protocols):
        return refused(ErrorCode.INVALID_REQUEST)
    return broker.coordinators.groups.ask(request.group_id, decide, refused=refused, transform=fitted)
