"""● Heartbeat: a classic member is alive, and learns whether it has to rejoin.

Versions       0-4.
Authorises     READ on the group.
Behaviour      Starts the member's session anew.
Version notes  3+ static members.
Errors         INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of `ClassicGroup.heartbeat`.
Differs from Kafka: nothing known; while the coordinator loads, NONE is the answer.
"""

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(HeartbeatRequest)
def heartbeat(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | Later[HeartbeatResponse]:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.heartbeat(token, request, now_ms)

    def refused(code: ErrorCode) -> HeartbeatResponse:
        # A member must not believe that it was removed while the coordinator is still loading.
        return request.refused(ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code)

    return broker.coordinators.groups.ask(request.group_id, decide, refused=refused)
