"""● OffsetDelete: forget offsets of topics that a group does not read any more.

Versions       0.
Authorises     DELETE on the group, READ on each topic.
Behaviour      Offsets of topics that a member subscribes to stay.
Errors         INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members of another protocol than consumers), NOT_COORDINATOR,
               COORDINATOR_LOAD_IN_PROGRESS; on a partition GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Kafka: nothing known.
"""

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles
from moldau.server.later import Later


@handles(OffsetDeleteRequest)
def offset_delete(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Later[OffsetDeleteResponse]:
    topics = broker.coordinators.group_environment.topics
    unknown = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
        if topics.by_name(topic.name) is None
    ]
    request.topics = [topic for topic in request.topics if topics.by_name(topic.name) is not None]

    def refused(code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code, topics=[])

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.delete_offsets(token, request)

    def with_unknown(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if not response.error_code:
            response.topics += unknown
        return response

    if not request.group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    return broker.coordinators.groups.ask(request.group_id, decide, refused=refused, transform=with_unknown)
