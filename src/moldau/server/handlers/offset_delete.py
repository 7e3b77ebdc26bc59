"""● OffsetDelete: deletes offsets of topics that a group does not read any more.

Versions       0.
Authorises     DELETE on the group, READ on each topic.
Behaviour      Offsets of topics that a member subscribes to stay.
Errors         INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members of another protocol than consumers), NOT_COORDINATOR,
               COORDINATOR_LOAD_IN_PROGRESS; on a partition GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Kafka: a group that never had a member is gone with its last offset, not with the next check for expired ones.
"""

from collections.abc import Iterable

from moldau.coordinator.group.environment import Topics
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(OffsetDeleteRequest)
def offset_delete(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Later[OffsetDeleteResponse]:
    def refused(code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code, topics=[])

    if not request.group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    request.topics, unknown = _parted(request.topics, broker.coordinators.group_environment.topics)

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.delete_offsets(token, request)

    def with_unknown(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code:
            return response
        for topic in response.topics:
            refusals = unknown.pop(topic.name, None)
            if refusals is not None:
                topic.partitions = refusals.partitions + topic.partitions
        response.topics += unknown.values()
        return response

    return broker.coordinators.groups.ask(request.group_id, decide, refused=refused, transform=with_unknown)


def _parted(
    asked: Iterable[OffsetDeleteRequestTopic], topics: Topics
) -> tuple[list[OffsetDeleteRequestTopic], dict[str, OffsetDeleteResponseTopic]]:
    """The existing partitions, and by topic the refusals of the others."""
    known = []
    unknown: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in asked:
        view = topics.by_name(topic.name)
        indexes = range(view.partition_count if view is not None else 0)
        there = [each for each in topic.partitions if each.partition_index in indexes]
        missing = [each for each in topic.partitions if each.partition_index not in indexes]
        if there:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        if missing:
            refusals = [
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for each in missing
            ]
            unknown.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name, partitions=[])).partitions += refusals
    return known, unknown
