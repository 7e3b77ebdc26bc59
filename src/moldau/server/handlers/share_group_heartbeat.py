"""● ShareGroupHeartbeat: join, report and leave a share group (KIP-932).

Versions       1.
Authorises     READ on the group, DESCRIBE on each topic subscribed to.
Behaviour      Answers with the member's epoch and, when it changed or was asked for, its assignment.  A partition is assigned once the
               share coordinator has begun its state, so a new subscription takes effect with a later heartbeat.
Errors         UNSUPPORTED_VERSION (share.version is 0), INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
               GROUP_ID_NOT_FOUND (of another protocol too), and those of `ShareGroup.heartbeat`.
Differs from Kafka: a member that reports an older epoch gets its assignment without asking for it.  A heartbeat on a connection that the
               member has replaced closes that connection, unless it is a leave.
"""

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.membership import JOIN_EPOCH, LEAVE_EPOCH
from moldau.coordinator.group.share import refusal
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from moldau.server.handlers.groups import client_of, close_if_overtaken, serves_share_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.server.share.acknowledgements import is_valid_member


@handles(ShareGroupHeartbeatRequest)
def share_group_heartbeat(
    broker: Broker, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Later[ShareGroupHeartbeatResponse]:
    if not serves_share_groups(broker):
        return refusal(ErrorCode.UNSUPPORTED_VERSION, None)
    wrong = _what_is_wrong(request)
    if wrong is not None:
        return refusal(ErrorCode.INVALID_REQUEST, wrong)
    close_if_overtaken(broker, context, request)

    def refused(code: ErrorCode) -> ShareGroupHeartbeatResponse:
        return refusal(code, None)

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.share_heartbeat(token, request, client_of(context), now_ms)

    return broker.coordinators.groups.ask(request.group_id, decide, refused=refused)


def _what_is_wrong(request: ShareGroupHeartbeatRequest) -> str | None:
    """Source: GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid, KafkaApis.isMemberIdValid."""
    is_joining = request.member_epoch == JOIN_EPOCH
    checks = (
        (not is_valid_member(request.member_id), "Invalid member id in the request."),
        (not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        (is_joining and not request.subscribed_topic_names, "SubscribedTopicNames must be set in first request."),
        (request.member_epoch < LEAVE_EPOCH, "MemberEpoch is invalid."),
    )
    return next((message for is_wrong, message in checks if is_wrong), None)
