"""● TxnOffsetCommit: a group's offsets, as part of a transaction.

Versions       0-5.
Authorises     WRITE on the transactional id, READ on the group and on each topic.
Behaviour      The offsets count when the transaction commits.  The group's partition has to be part of the transaction: up to version 4
               that is checked with the transaction's coordinator, from version 5 on it is added (KIP-890).  A request on a connection that
               its producer has replaced by a newer one closes that connection: nothing else tells an earlier commit of the transaction from
               a later one.
Version notes  3+ names the member, which is fenced as in OffsetCommit (KIP-447); 5+ adds the partition by itself.
Errors         INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION, those of the transaction's
               coordinator (INVALID_PRODUCER_EPOCH for PRODUCER_FENCED, up to version 3 INVALID_TXN_STATE for TRANSACTION_ABORTABLE;
               COORDINATOR_LOAD_IN_PROGRESS if it cannot be reached, COORDINATOR_NOT_AVAILABLE if it does not know the group's partition),
               and those of `GroupMachine.commit_offsets_in_transaction`.
Differs from Kafka: offsets of a late request cannot take the place of later ones.
"""

from collections.abc import Awaitable
from typing import Final

from moldau.coordinator.group.environment import Topics
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.server.coordinators.topic import answered
from moldau.server.coordinators.transactions import Membership, close_if_overtaken, fenced_as_known
from moldau.server.handlers.groups import client_of
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.types import TopicPartition

ADDS_SINCE: Final = 5
ABORTABLE_SINCE: Final = 4
TRIED_AGAIN: Final = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What a client is told so that it tries again: some clients take the first code for the end of their producer, and the second is of the
group's partition, not of theirs."""


@handles(TxnOffsetCommitRequest)
def txn_offset_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    close_if_overtaken(broker, context, *_sender(request))
    unknown = _taken_out(request, broker.coordinators.group_environment.topics)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=unknown)
    return _commit(broker, context, request, unknown)


def _taken_out(request: TxnOffsetCommitRequest, topics: Topics) -> list[TxnOffsetCommitResponseTopic]:
    """Take missing topics out of the request, and answer for them.  Source: KafkaApis.handleTxnOffsetCommitRequest."""
    known, unknown = [], []
    for topic in request.topics:
        found = topics.by_name(topic.name)
        indexes = range(found.partition_count if found is not None else 0)
        outside = [each for each in topic.partitions if each.partition_index not in indexes]
        topic.partitions = [each for each in topic.partitions if each.partition_index in indexes]
        if topic.partitions:
            known.append(topic)
        if outside:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused = [TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code) for each in outside]
            unknown.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=refused))
    request.topics = known
    return unknown


async def _commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest, unknown: list[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitResponse:
    response = await _commit_known(broker, context, request)
    answered_topics = {topic.name: topic for topic in response.topics}
    for topic in unknown:
        if topic.name in answered_topics:
            answered_topics[topic.name].partitions += topic.partitions
        else:
            response.topics.append(topic)
    return response


async def _commit_known(broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    if not request.group_id:
        return request.refused(ErrorCode.INVALID_GROUP_ID)
    groups = broker.coordinators.groups
    shard = groups.shard_for(request.group_id)
    if isinstance(shard, ErrorCode):
        return request.refused(shard)
    partition = broker.replicas.hosted[TopicPartition(groups.topic, groups.partition_for(request.group_id))]
    membership = Membership(broker, request.transactional_id, ProducerIdAndEpoch(request.producer_id, request.producer_epoch))
    guard = await membership.of(partition, adds=context.version >= ADDS_SINCE)
    # While the transaction's coordinator was asked, a newer connection may have brought this commit again, and later ones.
    close_if_overtaken(broker, context, *_sender(request))
    if isinstance(guard, ErrorCode):
        return request.refused(_as_commits_say(guard, context.version))

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        outcome = machine.commit_offsets_in_transaction(token, request, client_of(context), now_ms)
        outcome.guard = guard
        return outcome

    return await answered(groups.ask(request.group_id, decide, refused=request.refused))


def _as_commits_say(code: ErrorCode, version: int) -> ErrorCode:
    """Source: AddPartitionsToTxnManager, TransactionSupportedOperation, CoordinatorOperationExceptionHelper."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return TRIED_AGAIN.get(code) or fenced_as_known(code)


def _sender(request: TxnOffsetCommitRequest) -> tuple[str, tuple[str, str], ProducerIdAndEpoch]:
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    return "the offsets", (request.transactional_id, request.group_id), producer
