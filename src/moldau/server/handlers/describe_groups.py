"""● DescribeGroups: members and assignments of classic groups.

Versions       0-6.
Authorises     DESCRIBE on each group.
Behaviour      An unknown group is Dead; so is a group of another protocol.
Version notes  3+ can show the caller's rights; 6+ answers GROUP_ID_NOT_FOUND for an unknown group (KIP-1043).
Errors         On a group NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND.
Differs from Kafka: a group that is named twice is answered once.
"""

from collections.abc import Awaitable
from functools import partial

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from moldau.server.handlers.groups import ask_each, authorized_operations, client_of
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(DescribeGroupsRequest)
def describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Later[DescribeGroupsResponse] | Awaitable[DescribeGroupsResponse]:
    operations = authorized_operations(is_asked=request.include_authorized_operations)

    def with_operations(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = operations
        return DescribeGroupsResponse(groups=groups)

    return ask_each(broker, partial(_describe, broker, context), request.groups, with_operations)


def _describe(broker: Broker, context: RequestContext, group_id: str) -> DescribedGroup | Later[DescribedGroup]:
    def refused(code: ErrorCode) -> DescribedGroup:
        return DescribedGroup(error_code=code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[])

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.describe(token, group_id, client_of(context))

    return broker.coordinators.groups.ask(group_id, decide, refused=refused)
