"""● TxnOffsetCommit: a group's offsets, as part of a transaction.

Versions       0-5.
Authorises     WRITE on the transactional id, READ on the group and on each topic.
Behaviour      The offsets count when the transaction commits.  The group's partition has to be part of the transaction: up to version 4
               that is checked with the transaction's coordinator, from version 5 on it is added (KIP-890).  A request on a connection that
               its producer has replaced by a newer one closes that connection: nothing else tells an earlier commit of the
               transaction from a later one.
Version notes  3+ names the member, which is fenced as in OffsetCommit (KIP-447); 5+ adds the partition by itself.
Errors         INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION, what the transaction's
               coordinator says (INVALID_PRODUCER_EPOCH for PRODUCER_FENCED, up to version 3 INVALID_TXN_STATE for
               TRANSACTION_ABORTABLE), and those of `GroupMachine.commit_offsets_in_transaction`.
Differs from Kafka: offsets of a late request cannot take the place of later ones.
"""

from collections.abc import Awaitable
from typing import Final

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch, Token
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.server.broker import Broker
from moldau.server.coordinator_topic import answered
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.groups import client_of
from moldau.server.handlers.registry import handles
from moldau.server.transactions import Membership, close_if_overtaken, fenced_as_known
from moldau.types import TopicPartition

ADDS_SINCE: Final = 5
ABORTABLE_SINCE: Final = 4


@handles(TxnOffsetCommitRequest)
def txn_offset_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    close_if_overtaken(broker, context, *_sender(request))
    topics = broker.coordinators.group_environment.topics
    unknown = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
        if topics.by_name(topic.name) is None
    ]
    request.topics = [topic for topic in request.topics if topics.by_name(topic.name) is not None]
    if not request.topics:
        return TxnOffsetCommitResponse(topics=unknown)
    return _commit(broker, context, request, unknown)


async def _commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest, unknown: list[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitResponse:
    response = await _commit_known(broker, context, request)
    response.topics += unknown
    return response


async def _commit_known(broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
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
    """Source: AddPartitionsToTxnManager, TransactionSupportedOperation."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return fenced_as_known(code)


def _sender(request: TxnOffsetCommitRequest) -> tuple[str, tuple[str, str], ProducerIdAndEpoch]:
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    return "the offsets", (request.transactional_id, request.group_id), producer
