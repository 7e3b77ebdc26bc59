"""● OffsetCommit: stores a group's offsets.

Versions       2-10.
Authorises     READ on the group and on each topic.
Behaviour      Answered once the offsets are stored.  A group without members takes commits from any client (generation -1).
Version notes  2-4 may ask for a retention of their own; 9+ knows member epochs (KIP-848); 10+ names topics by id (KIP-848).
Errors         On every partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS and those of `GroupMachine.commit_offsets`; on those of
               one topic UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID.
Differs from Kafka: nothing known.
"""

from typing import Final

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.server.handlers.groups import client_of
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles

TOPIC_IDS_SINCE: Final = 10


@handles(OffsetCommitRequest)
def offset_commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Later[OffsetCommitResponse]:
    by_id = context.version >= TOPIC_IDS_SINCE
    topics = broker.coordinators.group_environment.topics
    known, unknown = [], []
    for topic in request.topics:
        found = topics.by_id(topic.topic_id) if by_id else topics.by_name(topic.name)
        if found is None:
            unknown.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        topic.name, topic.topic_id = found.name, found.topic_id
        indexes = range(found.partition_count)
        outside = [each for each in topic.partitions if each.partition_index not in indexes]
        if outside:
            topic.partitions = [each for each in topic.partitions if each.partition_index in indexes]
            gone = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=outside)
            unknown.append(_refused(gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if topic.partitions:
            known.append(topic)
    if not known:
        return OffsetCommitResponse(topics=unknown)
    request.topics = known

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.commit_offsets(token, request, client_of(context), now_ms)

    def with_unknown(response: OffsetCommitResponse) -> OffsetCommitResponse:
        if not unknown:
            return response
        answered = {(topic.name, topic.topic_id): topic for topic in response.topics}
        for topic in unknown:
            also = answered.get((topic.name, topic.topic_id))
            if also is None:
                response.topics.append(topic)
            else:
                also.partitions += topic.partitions
        return response

    return broker.coordinators.groups.ask(
        request.group_id, decide, refused=lambda code: with_unknown(request.refused(code)), transform=with_unknown
    )


def _refused(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code) for each in topic.partitions],
    )
