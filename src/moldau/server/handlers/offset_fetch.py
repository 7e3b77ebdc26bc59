"""● OffsetFetch: reads groups' committed offsets.

Versions       1-10.
Authorises     DESCRIBE on each group and on each topic.
Behaviour      A partition without an offset is answered with -1.  Without a list of topics (2+) all offsets of the group are returned; from
               version 10 on without deleted topics, because they have no id.
Version notes  7+ can insist on stable offsets (KIP-447); 8+ asks for several groups at once (KIP-709); 9+ knows member epochs (KIP-848);
               10+ names topics by id.
Errors         NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of `GroupMachine.fetch_offsets`; UNKNOWN_TOPIC_ID.
Differs from Kafka: an offset that was committed to an earlier topic of the same name counts as none in every version; Kafka returns it for
               topics asked for by name, or for all topics.  A group of which all offsets are asked for twice is answered once.
"""

from collections.abc import Awaitable
from typing import Final

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from moldau.server.coordinators.topic import answered, gather
from moldau.server.handlers.groups import whole_groups_once
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.pieces import in_pieces
from moldau.server.requests.registry import handles
from moldau.types import ZERO_UUID

SEVERAL_GROUPS_SINCE: Final = 8
TOPIC_IDS_SINCE: Final = 10
TOP_LEVEL_ERROR_SINCE: Final = 2


@handles(OffsetFetchRequest)
def offset_fetch(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Later[OffsetFetchResponse] | Awaitable[OffsetFetchResponse]:
    if context.version >= SEVERAL_GROUPS_SINCE:
        return _fetch_groups(broker, context, request)
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    part = _fetch_group(broker, context, group, request.require_stable)
    return gather([part], lambda groups: _single(groups[0], request, context.version))


def _fetch_groups(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Later[OffsetFetchResponse] | Awaitable[OffsetFetchResponse]:
    def fetch(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup | Later[OffsetFetchResponseGroup]:
        return _fetch_group(broker, context, group, request.require_stable)

    def combine(groups: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=groups)

    async def fetch_many() -> OffsetFetchResponse:
        return await answered(gather(await in_pieces(broker.clock, fetch, request.groups), combine))

    if len(request.groups) == 1:
        return gather([fetch(request.groups[0])], combine)
    request.groups = whole_groups_once(request.groups)
    return fetch_many()


def _fetch_group(
    broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup | Later[OffsetFetchResponseGroup]:
    unknown = _resolve_ids(broker, group) if context.version >= TOPIC_IDS_SINCE else []

    def refused(code: ErrorCode) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.fetch_offsets(token, group, is_stable_required=require_stable)

    def with_unknown(response: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if context.version >= TOPIC_IDS_SINCE:
            # A deleted topic has no id by which the answer could name it.
            response.topics = [topic for topic in response.topics if topic.topic_id != ZERO_UUID]
        response.topics += unknown
        return response

    return broker.coordinators.groups.ask(group.group_id, decide, refused=refused, transform=with_unknown)


def _resolve_ids(broker: Broker, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Give the topics their names.  Returns the answers for unknown topics, which are taken out."""
    unknown = []
    known = []
    for topic in group.topics or ():
        found = broker.coordinators.group_environment.topics.by_id(topic.topic_id)
        if found is not None:
            topic.name = found.name
            known.append(topic)
            continue
        partitions = [
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            for index in topic.partition_indexes
        ]
        unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
    if group.topics is not None:
        group.topics = known
    return unknown


def _single(group: OffsetFetchResponseGroup, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """The answer in the form of versions before 8."""
    if group.error_code:
        refused = request.refused(group.error_code)
        if version >= TOP_LEVEL_ERROR_SINCE:
            refused.topics = []
        return refused
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics)
