"""● SyncGroup: the leader hands in the assignment, and every member gets its part.

Versions       0-5.
Authorises     READ on the group.
Behaviour      A follower waits for the leader; the assignment is answered once it is stored.  One that is too large to be stored is
               refused to all members, and the group rebalances.
Version notes  3+ static members; 5+ must name the protocol, which is checked.
Errors         INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, and those
               of `ClassicGroup.sync`.
Differs from Kafka: members that joined with a rebalance timeout of 0 have their session timeout to sync; Kafka removes them at once.
               An assignment that is too large is refused with the log's own code; Kafka says UNKNOWN_SERVER_ERROR.
"""

from typing import Final

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

NAMES_PROTOCOL_SINCE: Final = 5


@handles(SyncGroupRequest)
def sync_group(broker: Broker, context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | Later[SyncGroupResponse]:
    if context.version >= NAMES_PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.sync(token, request, now_ms)

    return broker.coordinators.groups.ask(request.group_id, decide, refused=request.refused)
