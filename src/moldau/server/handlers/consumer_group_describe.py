"""● ConsumerGroupDescribe: members, epochs and assignments of groups of the consumer protocol (KIP-848).

Versions       0-1.
Authorises     DESCRIBE on each group, and on the topics that its members read.
Version notes  1+ says which protocol each member speaks.
Errors         On a group UNSUPPORTED_VERSION (the protocol is switched off, or group.version is 0),
               INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND (of another protocol too).
Differs from Kafka: nothing known.
"""

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from moldau.server.broker import Broker
from moldau.server.coordinator_topic import gather
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.groups import authorized_operations, serves_consumer_groups
from moldau.server.handlers.registry import handles
from moldau.server.later import Later


@handles(ConsumerGroupDescribeRequest)
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Later[ConsumerGroupDescribeResponse]:
    operations = authorized_operations(is_asked=request.include_authorized_operations)

    def with_operations(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = operations
        return ConsumerGroupDescribeResponse(groups=groups)

    return gather([_describe(broker, group_id) for group_id in request.group_ids], with_operations)


def _describe(broker: Broker, group_id: str) -> DescribedGroup | Later[DescribedGroup]:
    def refused(code: ErrorCode) -> DescribedGroup:
        return DescribedGroup(
            error_code=code, group_id=group_id, group_state="", group_epoch=0, assignment_epoch=0, assignor_name="", members=[]
        )

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.describe_consumer_group(token, group_id)

    if not serves_consumer_groups(broker):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    return broker.coordinators.groups.ask(group_id, decide, refused=refused)
