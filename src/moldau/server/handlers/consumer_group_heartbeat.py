"""● ConsumerGroupHeartbeat: join, report and leave a group of the consumer protocol (KIP-848).

Versions       0-1.
Authorises     READ on the group, DESCRIBE on each topic subscribed to.
Behaviour      Answers with the member's epoch and, when it changed or was asked for, its assignment.
Version notes  0 lets the broker choose the member id; 1+ brings it along, and may subscribe by a regular expression.
Errors         UNSUPPORTED_VERSION (the protocol is switched off, or group.version is 0),
               INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, and those of `ConsumerGroup.heartbeat`.
Differs from Kafka: regular expressions are matched at once, not a moment later.  A report under an older epoch gives nothing up: the answer
               has the member's epoch and assignment.  A heartbeat on a connection that the member has replaced closes that connection,
               unless it is a leave.  A member that still has to give partitions up is told again with each heartbeat.
"""

from typing import Final

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.membership import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from moldau.server.handlers.groups import client_of, close_if_overtaken, serves_consumer_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

MEMBER_ID_BROUGHT_SINCE: Final = 1


@handles(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Later[ConsumerGroupHeartbeatResponse]:
    if not serves_consumer_groups(broker):
        return request.refused(ErrorCode.UNSUPPORTED_VERSION)
    if context.version < MEMBER_ID_BROUGHT_SINCE and not request.member_id and request.member_epoch == JOIN_EPOCH:
        request.member_id = str(broker.coordinators.group_environment.new_uuid())
    wrong = _what_is_wrong(request, context.version)
    if wrong is not None:
        return request.refused(ErrorCode.INVALID_REQUEST, wrong)
    close_if_overtaken(broker, context, request)

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.consumer_heartbeat(token, request, client_of(context), now_ms)

    return broker.coordinators.groups.ask(request.group_id, decide, refused=request.refused)


def _what_is_wrong(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Source: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid."""
    needs_member_id = version >= MEMBER_ID_BROUGHT_SINCE or request.member_epoch >= LEAVE_EPOCH
    is_joining = request.member_epoch == JOIN_EPOCH
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    checks = (
        (not request.group_id.strip(), "GroupId can't be empty."),
        (needs_member_id and not request.member_id.strip(), "MemberId can't be empty."),
        (request.instance_id is not None and not request.instance_id.strip(), "InstanceId can't be empty."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        (request.member_epoch < LEAVE_STATIC_EPOCH, f"MemberEpoch is {request.member_epoch}, but must be at least {LEAVE_STATIC_EPOCH}."),
        (
            request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None,
            "InstanceId can't be null when a static member leaves for a while.",
        ),
        (is_joining and request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."),
        (is_joining and request.topic_partitions is None, "TopicPartitions must be empty when (re-)joining."),
        (is_joining and bool(request.topic_partitions), "TopicPartitions must be empty when (re-)joining."),
        (is_joining and not has_subscription, "SubscribedTopicNames or SubscribedTopicRegex must be set in first request."),
    )
    return next((message for is_wrong, message in checks if is_wrong), None)
