"""● StreamsGroupDescribe: streams groups with their topology, their members and who has which task (KIP-1071).

Versions       0.
Authorises     DESCRIBE on each group, and on the topics of its topology.
Errors         On a group UNSUPPORTED_VERSION (the protocol is switched off, or streams.version is 0), INVALID_GROUP_ID, NOT_COORDINATOR,
               COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND (of another protocol too).
Differs from Kafka: nothing known.
"""

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.streams.answers import not_described
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from moldau.server.broker import Broker
from moldau.server.coordinator_topic import gather
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.groups import authorized_operations, serves_streams_groups
from moldau.server.handlers.registry import handles
from moldau.server.later import Later


@handles(StreamsGroupDescribeRequest)
def streams_group_describe(
    broker: Broker, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse | Later[StreamsGroupDescribeResponse]:
    def combined(groups: list[DescribedGroup]) -> StreamsGroupDescribeResponse:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(is_asked=request.include_authorized_operations)
        return StreamsGroupDescribeResponse(groups=groups)

    return gather([_describe(broker, group_id) for group_id in request.group_ids], combined)


def _describe(broker: Broker, group_id: str) -> DescribedGroup | Later[DescribedGroup]:
    def refused(code: ErrorCode) -> DescribedGroup:
        return not_described(group_id, code, None)

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.describe_streams_group(token, group_id)

    if not serves_streams_groups(broker):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    return broker.coordinators.groups.ask(group_id, decide, refused=refused)
